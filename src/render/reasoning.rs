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
        Rule::LastMark(marks) => Some(marks.ended(|text| model.encoder().token_to_id(text), prompt)),
        Rule::Cohere => Some(cohere_ended(|text| model.encoder().token_to_id(text), prompt)),
        Rule::Dialect => {
            let context = super::parser_context(request, prompt.to_vec(), template_kwargs.clone(), 0);
            dialect?.prompt_reasoning_ended(&context)
        }
    }
}

impl Marks {
    /// `id` gives a token's id, where the vocabulary has it.
    fn ended(&self, id: impl Fn(&str) -> Option<u32>, prompt: &[u32]) -> bool {
        let Some(open) = id(self.open) else { return true };
        let ends: Vec<u32> = self.ends.iter().filter_map(|text| id(text)).collect();
        let turns: Vec<u32> = self.turns.iter().filter_map(|text| id(text)).collect();
        let decides = |token: &&u32| **token == open || ends.contains(token) || turns.contains(token);
        match prompt.iter().rev().find(decides) {
            Some(token) if turns.contains(token) => self.without,
            Some(token) => *token != open,
            None => self.without,
        }
    }
}

fn cohere_ended(id: impl Fn(&str) -> Option<u32>, prompt: &[u32]) -> bool {
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const MISTRAL: [&str; 4] = ["x", "[THINK]", "[/THINK]", "[TOOL_CALLS]"];
    const GEMMA: [&str; 6] = ["x", "<|channel>", "<channel|>", "<|tool_call>", "<|turn>", "<|tool_response>"];
    const COHERE: [&str; 4] = ["x", "<|START_THINKING|>", "<|END_THINKING|>", "<|CHATBOT_TOKEN|>"];

    fn id<'a>(vocabulary: &'a [&str]) -> impl Fn(&str) -> Option<u32> + 'a {
        |text| vocabulary.iter().position(|token| *token == text).map(|at| at as u32)
    }

    fn last_mark(parser: &str, kwargs: Value, vocabulary: &[&str], prompt: &[u32]) -> bool {
        match rule(parser, kwargs.as_object().unwrap()) {
            Rule::LastMark(marks) => marks.ended(id(vocabulary), prompt),
            _ => panic!("{parser} has another rule"),
        }
    }

    #[test]
    fn mistral_waits_unless_a_mark_ended_it() {
        for (prompt, ended) in
            [(&[][..], false), (&[0, 0], false), (&[0, 1, 0], false), (&[1, 0, 2, 0], true), (&[1, 3, 0], true)]
        {
            assert_eq!(last_mark("mistral", json!({}), &MISTRAL, prompt), ended, "{prompt:?}");
        }
        assert!(last_mark("mistral", json!({}), &["x"], &[0]), "a vocabulary without marks knows no reasoning");
    }

    #[test]
    fn gemma_looks_at_its_turn_and_else_at_the_switch() {
        for (prompt, off, on) in [
            (&[0][..], true, false),
            (&[1, 0, 2, 0], true, true),
            (&[4, 1, 0], false, false),
            (&[1, 2, 4, 0], true, false),
            (&[1, 5, 0], true, false),
            (&[1, 3, 0], true, true),
        ] {
            assert_eq!(last_mark("gemma4", json!({}), &GEMMA, prompt), off, "{prompt:?}");
            assert_eq!(last_mark("gemma4", json!({"enable_thinking": true}), &GEMMA, prompt), on, "{prompt:?}");
        }
    }

    #[test]
    fn cohere_wants_both_marks_in_one_turn() {
        for (prompt, ended) in [
            (&[0][..], false),
            (&[3, 1, 2], true),
            (&[3, 1, 0], false),
            (&[3, 2, 0], false),
            (&[2, 0], true),
            (&[1, 2, 3, 0], false),
        ] {
            assert_eq!(cohere_ended(id(&COHERE), prompt), ended, "{prompt:?}");
        }
    }
}
