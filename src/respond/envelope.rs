//! What every answer of a request shares: `id`, `object`, `created`, `model`.

use super::json::JsonBuffer;
use super::usage::Usage;

/// `system_fingerprint`: changes with the build. Ends in the last chunk of a stream, and in every whole answer.
const FINGERPRINT: &str = concat!("couplet-", env!("CARGO_PKG_VERSION"));

/// The head of every object of one answer, written once.
#[derive(Debug, Clone)]
pub struct Envelope {
    head: Vec<u8>,
}

impl Envelope {
    /// `object` is `chat.completion`, `chat.completion.chunk` or `text_completion`; `created` in seconds since 1970.
    pub fn new(id: &str, object: &str, created: u64, model: &str) -> Self {
        let mut json = JsonBuffer::default();
        json.raw("{\"id\":").string(id).key("object").string(object).key("created").number(created);
        json.key("model").string(model).key("choices").raw("[");
        Self { head: json.take().to_vec() }
    }

    /// Opens an object: everything up to the first choice.
    pub fn open(&self, json: &mut JsonBuffer) {
        json.bytes(&self.head);
    }

    /// Closes a chunk behind its choice: what some chunks have, and the brace.
    pub fn close_chunk(&self, fingerprint: bool, usage: Option<&Usage>, json: &mut JsonBuffer) {
        json.raw("]");
        if fingerprint {
            self.write_fingerprint(json);
        }
        if let Some(usage) = usage {
            json.key("usage");
            usage.write(json);
        }
        json.raw("}");
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
        json.key("system_fingerprint").string(FINGERPRINT);
    }
}
