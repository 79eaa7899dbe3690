//! `usage`: token counts of a reply.

use super::json::JsonBuffer;

/// Token counts of a reply, over all choices.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Tokens of the prompt, or of all prompts.
    pub prompt_tokens: u64,
    /// Tokens generated, stop tokens included.
    pub completion_tokens: u64,
    /// Tokens of reasoning; told by chat wherever a reasoning parser is on.
    pub reasoning_tokens: Option<u64>,
}

impl Usage {
    /// As in streams: only what is known.
    pub fn write(&self, json: &mut JsonBuffer) {
        self.write_counts(json);
        if let Some(tokens) = self.reasoning_tokens {
            json.key("completion_tokens_details").raw("{\"reasoning_tokens\":").number(tokens).raw("}");
        }
        json.raw("}");
    }

    /// As in whole answers: what is unknown is null.
    pub fn write_whole(&self, json: &mut JsonBuffer) {
        self.write_counts(json);
        json.key("prompt_tokens_details").raw("null").key("completion_tokens_details");
        match self.reasoning_tokens {
            Some(tokens) => json.raw("{\"reasoning_tokens\":").number(tokens).raw("}}"),
            None => json.raw("null}"),
        };
    }

    fn write_counts(&self, json: &mut JsonBuffer) {
        json.raw("{\"prompt_tokens\":").number(self.prompt_tokens);
        json.key("total_tokens").number(self.prompt_tokens.saturating_add(self.completion_tokens));
        json.key("completion_tokens").number(self.completion_tokens);
    }
}
