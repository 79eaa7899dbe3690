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
        self.reserve(2 + numbers.len() * USUAL_LENGTH);
        self.0.push(b'[');
        for numbers in numbers.chunks(BLOCK) {
            self.block(numbers);
        }
        if !numbers.is_empty() {
            self.0.pop();
        }
        self.0.push(b']');
        self
    }

    /// Appends a few integers, a comma behind each. A number is written in pieces of fixed size, and the next one begins
    /// behind its last digit: copies whose length is known are two instructions.
    fn block(&mut self, numbers: &[u32]) {
        let mut out = [0; BLOCK * MOST_LENGTH + PIECE];
        let mut end = 0;
        for number in numbers {
            let number = *number as usize;
            let (pieces, length) = match number {
                ..1_000 => shortened(number),
                1_000..1_000_000 => {
                    let (head, length) = shortened(number / 1_000);
                    // The head's comma makes room for the tail.
                    let (digits, behind) = (length - 1, u64::from(TRIPLES[number % 1_000]));
                    (head & !(u64::MAX << (digits * 8)) | behind << (digits * 8), digits + PIECE / 2)
                }
                _ => {
                    let mut buffer = itoa::Buffer::new();
                    let digits = buffer.format(number).as_bytes();
                    out[end..end + digits.len()].copy_from_slice(digits);
                    end += digits.len();
                    (u64::from(b','), 1)
                }
            };
            out[end..end + PIECE].copy_from_slice(&pieces.to_le_bytes());
            end += length;
        }
        self.0.extend_from_slice(&out[..end]);
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

/// Integers that are written before they are copied to their place.
const BLOCK: usize = 64;
/// Bytes of most token ids with their comma, and of the longest.
const USUAL_LENGTH: usize = "151644,".len();
const MOST_LENGTH: usize = "4294967295,".len();
/// Bytes that are written at once.
const PIECE: usize = size_of::<u64>();

/// Three digits and a comma for each number below a thousand, the first digit in the lowest byte.
const TRIPLES: [u32; 1_000] = {
    let mut all = [0; 1_000];
    let mut number = 0;
    while number < all.len() {
        let digits = [number / 100, number / 10 % 10, number % 10];
        all[number] =
            u32::from_le_bytes([b'0' + digits[0] as u8, b'0' + digits[1] as u8, b'0' + digits[2] as u8, b',']);
        number += 1;
    }
    all
};

/// A number below a thousand without zeros before it, with its comma; and how many bytes these are.
fn shortened(number: usize) -> (u64, usize) {
    let zeros = usize::from(number < 100) + usize::from(number < 10);
    (u64::from(TRIPLES[number]) >> (zeros * 8), PIECE / 2 - zeros)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_serde_writes_them() {
        let around = |n: u32| [n.saturating_sub(1), n, n + 1];
        let mut numbers: Vec<u32> = (0..9).flat_map(|power| around(10_u32.pow(power))).collect();
        numbers.extend((0..200_000).step_by(7).chain([u32::MAX, 99_999_999, 12_345_678]));
        for list in [&numbers[..], &[], &[0], &[u32::MAX]] {
            let mut json = JsonBuffer::default();
            json.numbers(list);
            assert_eq!(json.into_bytes(), serde_json::to_vec(list).unwrap());
        }
    }
}
