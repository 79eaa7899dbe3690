//! A whole reply.

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
