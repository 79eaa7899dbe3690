//! A whole reply: the same events as in a stream, folded, and then what vLLM does only in whole answers.

use super::{Events, Fallbacks};

/// What a model said, whole: `message` of a reply that is not streamed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Message {
    /// `message.reasoning`.
    pub reasoning: Option<String>,
    /// `message.content`.
    pub content: Option<String>,
    /// `message.tool_calls`.
    pub tool_calls: Vec<ToolCall>,
    /// Tokens of reasoning, for `usage.completion_tokens_details`.
    pub reasoning_tokens: usize,
    /// What looked like a call and is content.
    pub fallbacks: Fallbacks,
}

/// One whole call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolCall {
    /// Id that the client will send back with the result.
    pub id: String,
    /// The function's name.
    pub name: String,
    /// JSON text.
    pub arguments: String,
}

/// What the tool half of a reply amounts to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) content: String,
    pub(super) calls: Vec<ToolCall>,
    /// The content is the text as the model wrote it, or a part of it is that a call was to be.
    pub(super) given_back: bool,
    /// The content is this, even if nothing was called.
    pub(super) settled: bool,
}

impl Answer {
    /// Folds events.
    pub(super) fn of(events: &Events) -> Self {
        let content = events.content().unwrap_or_default().to_owned();
        let mut answer =
            Self { content, calls: Vec::new(), given_back: !events.fallbacks().is_empty(), settled: false };
        for delta in events.calls() {
            if let Some((id, name)) = delta.head {
                answer.calls.push(ToolCall { id: id.to_owned(), name: name.to_owned(), arguments: String::new() });
            }
            if let (Some(call), Some(text)) = (answer.calls.get_mut(delta.index), delta.arguments) {
                call.arguments.push_str(text);
            }
        }
        answer
    }

    /// The same calls with their arguments written anew.
    pub(super) fn with_arguments(mut self, arguments: Vec<String>) -> Self {
        for (call, arguments) in self.calls.iter_mut().zip(arguments) {
            call.arguments = arguments;
        }
        self
    }

    /// The text itself: no call after all.
    pub(super) fn text(content: &str) -> Self {
        Self { content: content.to_owned(), given_back: true, ..Self::default() }
    }
}
