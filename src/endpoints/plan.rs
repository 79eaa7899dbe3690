//! From a request to the plan by which its reply is read. One place for coupled and stateless requests.

use std::sync::Arc;

use super::Served;
use crate::api::chat::ChatRequest;
use crate::api::completions::CompletionRequest;
use crate::api::python;
use crate::derender::chat::{self, Calls};
use crate::derender::stop::StopStrings;
use crate::derender::text::{self, StopTokens};
use crate::model::vocabulary::Hidden;
use crate::parsers;

/// Tokens of a prompt's end whose text a dialect may see. A reply begins at most a prefilled message before it.
const MAX_PROMPT_TEXT: usize = 16 * 1024;

/// The fields that decide how token ids become text; absent requests have vLLM's defaults.
pub(super) struct TextFields<'a> {
    /// Stop strings to match.
    pub stop: &'a [String],
    /// `include_stop_str_in_output`
    pub include_stop: bool,
    /// `stop_token_ids`
    pub stop_token_ids: &'a [i64],
    /// `ignore_eos`
    pub ignore_eos: bool,
    /// `min_tokens`
    pub min_tokens: i64,
    /// `skip_special_tokens`
    pub skip_special: bool,
    /// Who reads: vLLM's engine and its derenderer do not hide the same tokens.
    pub reader: Reader,
}

/// Whose detokenizer is followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reader {
    /// The engine's, on the coupled path.
    Engine,
    /// The derenderer's, on the stateless routes.
    Derenderer,
}

impl Default for TextFields<'_> {
    fn default() -> Self {
        Self {
            stop: &[],
            include_stop: false,
            stop_token_ids: &[],
            ignore_eos: false,
            min_tokens: 0,
            skip_special: true,
            reader: Reader::Derenderer,
        }
    }
}

impl<'a> TextFields<'a> {
    /// Of a chat request.
    pub(super) fn chat(request: &'a ChatRequest, reader: Reader) -> Self {
        Self {
            reader,
            stop: &request.stop.0,
            include_stop: request.include_stop_str_in_output,
            stop_token_ids: request.stop_token_ids.as_deref().unwrap_or_default(),
            ignore_eos: request.ignore_eos,
            min_tokens: request.min_tokens,
            skip_special: request.skip_special_tokens != Some(false),
        }
    }

    /// Of a completion request.
    pub(super) fn completion(request: &'a CompletionRequest, reader: Reader) -> Self {
        Self {
            reader,
            stop: &request.stop.0,
            include_stop: request.include_stop_str_in_output,
            stop_token_ids: request.stop_token_ids.as_deref().unwrap_or_default(),
            ignore_eos: request.ignore_eos,
            min_tokens: request.min_tokens,
            skip_special: request.skip_special_tokens != Some(false),
        }
    }
}

/// Token ids → text.
pub(super) fn text(served: &Served, fields: &TextFields<'_>) -> text::Plan {
    let model = &served.model;
    text::Plan {
        vocabulary: Arc::clone(served.model.vocabulary()),
        hidden: match fields.reader {
            _ if !fields.skip_special => Hidden::Nothing,
            Reader::Engine => Hidden::Flagged,
            Reader::Derenderer => Hidden::Named,
        },
        stop: Arc::new(StopStrings::new(fields.stop.iter().cloned(), fields.include_stop)),
        stop_tokens: StopTokens {
            eos: model.eos_token_id(),
            all_eos: model.eos_token_ids().into(),
            ignore_eos: fields.ignore_eos,
            requested: fields.stop_token_ids.iter().filter_map(|id| u32::try_from(*id).ok()).collect(),
            include: fields.include_stop,
        },
        min_tokens: usize::try_from(fields.min_tokens).unwrap_or(0),
    }
}

/// Why no plan can be made for a request: it asks of the dialect what that does not have.
pub(super) fn refusal(served: &Served, facts: &parsers::Context) -> Option<String> {
    let parsers::Unsupported { argument, supported } = served.dialect.as_ref()?.refuses(facts)?;
    let value = facts.chat_template_kwargs.get(argument).map(python::repr).unwrap_or_default();
    Some(format!("Unsupported {argument} {value}. Supported values: {}.", supported.join(", ")))
}

/// Token ids → what a chat reply says. `facts` are the request's; `thinks` is what the dialect took from the prompt, where
/// that is known already.
pub(super) fn chat(
    served: &Served,
    request: &ChatRequest,
    text: TextFields<'_>,
    mut facts: parsers::Context,
    thinks: Option<bool>,
) -> chat::Plan {
    let dialect = served.dialect.as_ref();
    if thinks.is_none() && dialect.is_some_and(|dialect| dialect.wants_prompt_text()) {
        let from = facts.prompt_token_ids.len().saturating_sub(MAX_PROMPT_TEXT);
        facts.prompt_text =
            served.model.vocabulary().decode_ids(facts.prompt_token_ids.get(from..).unwrap_or_default());
    }
    let choice = facts.tool_choice.clone();
    let has_tools = !facts.tools.is_empty();
    let parser = dialect.map(|dialect| match thinks {
        Some(thinks) => dialect.resume(facts, thinks),
        None => dialect.plan(facts),
    });
    // Parsers have to see their marks.
    let skip_special = text.skip_special && dialect.is_none();
    chat::Plan {
        text: self::text(served, &TextFields { skip_special, ..text }),
        parser,
        include_reasoning: request.include_reasoning,
        calls: Calls::of(&choice, has_tools, served.auto_tools()),
        forced_call: matches!(choice, parsers::ToolChoice::Named(_) | parsers::ToolChoice::Required),
        single_call: request.parallel_tool_calls == Some(false),
    }
}

/// A chat reply without a request: all of it is content.
pub(super) fn plain_chat(served: &Served) -> chat::Plan {
    chat::Plan {
        text: text(served, &TextFields::default()),
        parser: None,
        include_reasoning: true,
        calls: Calls::Drop,
        forced_call: false,
        single_call: false,
    }
}
