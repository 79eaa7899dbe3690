//! `stream_state` as JSON, in vLLM's order of fields.

use super::json::JsonBuffer;
use crate::derender::stream_state::StreamState;

/// Writes the state that goes back to the client.
pub fn write(state: &StreamState<'_>, json: &mut JsonBuffer) {
    let [ids, lens] = state.history.texts();
    json.reserve(ids.into_iter().chain(lens).map(<[u8]>::len).sum());
    json.raw("{\"prev_tokens\":").value(&state.prev_tokens);
    json.key("prefix_offset").value(&state.prefix_offset).key("read_offset").value(&state.read_offset);
    json.key("role_sent").value(&state.role_sent);
    json.key("logprob_context_token_ids").value(&state.logprob_context_token_ids);
    json.key("logprob_text_offset").value(&state.logprob_text_offset);
    json.key("output_token_ids").raw("[").bytes(ids[0]).bytes(ids[1]).raw("]");
    json.key("output_chunk_lens").raw("[").bytes(lens[0]).bytes(lens[1]).raw("]");
    json.key("tools_streamed").value(&state.tools_streamed);
    json.key("last_tool_call_ids").value(&state.last_tool_call_ids);
    if let Some(own) = &state.couplet {
        json.key("couplet").value(own);
    }
    json.raw("}");
}
