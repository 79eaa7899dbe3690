//! Completion answers: chunks of a stream, and the whole. Format: OpenAI's legacy completions API as vLLM writes it.

use serde_json::Value;

use super::envelope::Envelope;
use super::json::JsonBuffer;
use super::usage::Usage;
use crate::api::generate::StopReason;
use crate::derender::logprobs::CompletionLogprobs;

/// One choice.
#[derive(Debug, Default)]
pub struct Choice<'a> {
    /// Which choice, over all prompts.
    pub index: u32,
    /// Its text, or what a chunk adds to it.
    pub text: &'a str,
    /// Logprobs of its tokens.
    pub logprobs: Option<&'a CompletionLogprobs>,
    /// Null while it goes on.
    pub finish_reason: Option<&'a str>,
    /// The stop string or token.
    pub stop_reason: Option<&'a StopReason>,
    /// The prompt, where asked for; in a stream in the first chunk.
    pub prompt_token_ids: Option<&'a [u32]>,
    /// The tokens, where asked for.
    pub token_ids: Option<&'a [u32]>,
}

/// A chunk with one choice.
pub fn write_chunk(
    envelope: &Envelope,
    choice: &Choice<'_>,
    fingerprint: bool,
    usage: Option<&Usage>,
    json: &mut JsonBuffer,
) {
    envelope.open(json);
    write_chunk_choice(choice, json);
    envelope.close_chunk(fingerprint, usage, json);
}

/// A choice of a chunk.
pub fn write_chunk_choice(choice: &Choice<'_>, json: &mut JsonBuffer) {
    write_common(choice, json);
    json.key("prompt_token_ids").value(&choice.prompt_token_ids);
    json.key("token_ids").value(&choice.token_ids).raw("}");
}

/// Appends a choice of a whole answer; `first` opens the list.
pub fn write_whole_choice(choice: &Choice<'_>, prompt_logprobs: Option<&Value>, first: bool, json: &mut JsonBuffer) {
    if !first {
        json.raw(",");
    }
    write_common(choice, json);
    json.key("token_ids").value(&choice.token_ids).key("prompt_logprobs").value(&prompt_logprobs);
    json.key("prompt_token_ids").value(&choice.prompt_token_ids).raw(",\"routed_experts\":null}");
}

fn write_common(choice: &Choice<'_>, json: &mut JsonBuffer) {
    json.raw("{\"index\":").number(choice.index.into()).key("text").string(choice.text);
    json.key("logprobs").value(&choice.logprobs).key("finish_reason").value(&choice.finish_reason);
    json.key("stop_reason").value(&choice.stop_reason);
}
