//! What every answer of a request shares: `id`, `object`, `created`, `model`.

use super::json::JsonBuffer;
use super::usage::Usage;

/// The head of every object of one answer, written once.
#[derive(Debug, Clone)]
pub struct Envelope {
    head: Vec<u8>,
    /// Ends in the last chunk of a stream, and in every whole answer.
    pub fingerprint: &'static str,
}

impl Envelope {
    /// `object` is `chat.completion`, `chat.completion.chunk` or `text_completion`; `created` in seconds since 1970.
    pub fn new(id: &str, object: &str, created: u64, model: &str, fingerprint: &'static str) -> Self {
        let mut json = JsonBuffer::default();
        json.raw("{\"id\":").string(id).key("object").string(object).key("created").number(created);
        json.key("model").string(model).key("choices").raw("[");
        Self { head: json.take().to_vec(), fingerprint }
    }

    /// Opens an object: everything up to the first choice.
    pub fn open(&self, json: &mut JsonBuffer) {
        json.bytes(&self.head);
    }

    /// The chunk that ends a stream where `stream_options.include_usage` asks for it.
    pub fn write_usage_chunk(&self, usage: &Usage, json: &mut JsonBuffer) {
        self.open(json);
        json.raw("]").key("usage");
        usage.write(json);
        self.write_fingerprint(json);
        json.raw("}");
    }

    /// Appends `system_fingerprint`.
    pub fn write_fingerprint(&self, json: &mut JsonBuffer) {
        json.key("system_fingerprint").string(self.fingerprint);
    }
}
