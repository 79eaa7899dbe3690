//! Whether the prompt already ended the reasoning: then an engine begins a grammar at the first token, else behind the
//! reasoning.
//!
//! In: the model's reasoning parser and a rendered prompt. Out: what vLLM 0.33 tells the engine. The dialect knows it
//! where that is also how the reply is read; the parsers for which it is not stand here.

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::api::chat::ChatRequest;
use crate::model::Model;
use crate::parsers::{Dialect, truthy};

/// How a parser finds where the reasoning stands.
enum Rule {
    /// As it reads the reply.
    Dialect,
    /// Harmony's grammars know the channels themselves.
    Always,
    /// It does not say: the engine looks by itself.
    Unsaid,
    /// The last of these tokens decides.
    LastMark(Marks),
    /// Cohere: the end counts only where its beginning stands before it in the same turn.
    Cohere,
}

/// Tokens, read from the end of the prompt.
struct Marks {
    open: &'static str,
    ends: &'static [&'static str],
    /// What stands before these is of an earlier turn.
    turns: &'static [&'static str],
    /// Where none of them is found.
    without: bool,
}

fn rule(parser: &str, template_kwargs: &Map<String, Value>) -> Rule {
    match parser {
        "openai_gptoss" => Rule::Always,
        "granite" => Rule::Unsaid,
        "cohere_command3" | "cohere_command4" => Rule::Cohere,
        "mistral" => {
            Rule::LastMark(Marks { open: "[THINK]", ends: &["[/THINK]", "[TOOL_CALLS]"], turns: &[], without: false })
        }
        "gemma4" => Rule::LastMark(Marks {
            open: "<|channel>",
            ends: &["<channel|>", "<|tool_call>"],
            turns: &["<|turn>", "<|tool_response>"],
            without: template_kwargs.get("enable_thinking").is_none_or(|value| !truthy(value)),
        }),
        _ => Rule::Dialect,
    }
}

/// Whether the prompt ended the reasoning; `None` where nothing is told.
pub(super) fn ended(
    model: &Model,
    dialect: Option<&Arc<Dialect>>,
    request: &ChatRequest,
    prompt: &[u32],
    template_kwargs: &Map<String, Value>,
) -> Option<bool> {
    if !request.include_reasoning {
        return Some(true);
    }
    match rule(model.options().reasoning_parser.as_deref()?, template_kwargs) {
        Rule::Always => Some(true),
        Rule::Unsaid => None,
        Rule::LastMark(marks) => Some(marks.ended(model, prompt)),
        Rule::Cohere => Some(cohere_ended(model, prompt)),
        Rule::Dialect => {
            let context = super::parser_context(request, prompt.to_vec(), template_kwargs.clone(), 0);
            dialect?.prompt_reasoning_ended(&context)
        }
    }
}

impl Marks {
    fn ended(&self, model: &Model, prompt: &[u32]) -> bool {
        let id = |text: &&str| model.encoder().token_to_id(text);
        let Some(open) = id(&self.open) else { return true };
        let ends: Vec<u32> = self.ends.iter().filter_map(id).collect();
        let turns: Vec<u32> = self.turns.iter().filter_map(id).collect();
        let decides = |token: &&u32| **token == open || ends.contains(token) || turns.contains(token);
        match prompt.iter().rev().find(decides) {
            Some(token) if turns.contains(token) => self.without,
            Some(token) => *token != open,
            None => self.without,
        }
    }
}

fn cohere_ended(model: &Model, prompt: &[u32]) -> bool {
    let id = |text: &str| model.encoder().token_to_id(text);
    let (open, end) = (id("<|START_THINKING|>"), id("<|END_THINKING|>"));
    let turn = id("<|CHATBOT_TOKEN|>");
    let mut ended = false;
    for token in prompt.iter().rev().copied().map(Some) {
        if token == open {
            return ended;
        }
        if token == turn {
            return false;
        }
        ended |= token == end;
    }
    ended
}
