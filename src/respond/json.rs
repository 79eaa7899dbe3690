//! JSON written piece by piece into a buffer: what a stream repeats for every token must not be built as values first.

use serde::Serialize;

/// Appends to a JSON text.
#[derive(Debug, Default)]
pub struct JsonBuffer(Vec<u8>);

impl JsonBuffer {
    /// Makes room for so many bytes at once, where they are known to come.
    pub fn reserve(&mut self, bytes: usize) {
        self.0.reserve(bytes);
    }

    /// Appends text that is already JSON.
    pub fn raw(&mut self, json: &str) -> &mut Self {
        self.0.extend_from_slice(json.as_bytes());
        self
    }

    /// Appends bytes that are already JSON.
    pub fn bytes(&mut self, json: &[u8]) -> &mut Self {
        self.0.extend_from_slice(json);
        self
    }

    /// Appends a string, quoted and escaped.
    pub fn string(&mut self, text: &str) -> &mut Self {
        self.value(text)
    }

    /// Appends an integer.
    pub fn number(&mut self, number: u64) -> &mut Self {
        self.raw(itoa::Buffer::new().format(number))
    }

    /// Appends a list of integers.
    pub fn numbers(&mut self, numbers: &[u32]) -> &mut Self {
        const LONGEST: usize = ",4294967295".len();
        self.reserve(2 + numbers.len() * LONGEST);
        let mut buffer = itoa::Buffer::new();
        self.0.push(b'[');
        for (at, number) in numbers.iter().enumerate() {
            if at > 0 {
                self.0.push(b',');
            }
            self.0.extend_from_slice(buffer.format(*number).as_bytes());
        }
        self.0.push(b']');
        self
    }

    /// Appends any value. All that is written here serialises: no map has keys that are not strings.
    pub fn value(&mut self, value: &(impl Serialize + ?Sized)) -> &mut Self {
        if serde_json::to_writer(&mut self.0, value).is_err() {
            self.raw("null");
        }
        self
    }

    /// Appends `,"key":`.
    pub fn key(&mut self, key: &str) -> &mut Self {
        self.raw(",\"").raw(key).raw("\":")
    }

    /// The bytes of a text that is complete.
    pub fn into_bytes(self) -> bytes::Bytes {
        self.0.into()
    }

    /// Takes the bytes out and leaves the buffer empty, with room for as much again.
    pub fn take(&mut self) -> bytes::Bytes {
        let capacity = self.0.len();
        std::mem::replace(&mut self.0, Vec::with_capacity(capacity)).into()
    }
}
