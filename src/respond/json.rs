//! JSON written piece by piece into a buffer: what a stream repeats for every token must not be built as values first.

use serde::Serialize;

/// Appends to a JSON text.
#[derive(Debug, Default)]
pub struct JsonBuffer(Vec<u8>);

impl JsonBuffer {
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

    /// Takes the bytes out and leaves the buffer empty.
    pub fn take(&mut self) -> bytes::Bytes {
        let capacity = self.0.len();
        std::mem::replace(&mut self.0, Vec::with_capacity(capacity)).into()
    }
}
