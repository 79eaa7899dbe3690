//! What a served model speaks.

use std::sync::Arc;

use super::engine::{ReadReasoning, ReadTools, Setup};
use super::registry::{closest, reasoning_named, tools_named};
use super::{Context, Plan, Unsupported, Vocabulary};

/// Why a dialect cannot be served.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DialectError {
    /// No parser has this name.
    #[error("unknown {kind} parser {name:?}; the closest names are {}", closest.join(", "))]
    Unknown {
        /// `tool-call` or `reasoning`.
        kind: &'static str,
        /// The name that was asked for.
        name: String,
        /// Names like it.
        closest: Vec<&'static str>,
    },
    /// The vocabulary lacks tokens that the dialect is made of.
    #[error("parser {name:?} needs tokens that the model's vocabulary lacks: {}", tokens.join(" "))]
    MissingTokens {
        /// The parser.
        name: String,
        /// What is missing.
        tokens: Vec<&'static str>,
    },
    /// The model's files do not say what the dialect has to know.
    #[error("parser {name:?} cannot read this model's replies: {reason}")]
    Unreadable {
        /// The parser.
        name: String,
        /// What is wrong.
        reason: String,
    },
    /// The reasoning is said by the tool parser of the same name, which is not the one that was asked for. vLLM does not start
    /// with such a pair, either.
    #[error("reasoning parser {reasoning:?} works with tool-call parser {reasoning:?} or none, not with {tools:?}")]
    Apart {
        /// The reasoning parser.
        reasoning: String,
        /// The tool-call parser.
        tools: String,
    },
}

/// What a served model speaks: two halves, made for its vocabulary. Built once.
#[derive(Debug)]
pub struct Dialect {
    pub(super) reasoning: Option<Box<dyn ReadReasoning>>,
    pub(super) tools: Option<Box<dyn ReadTools>>,
    /// The model numbers its calls.
    pub(super) numbered: bool,
}

impl Dialect {
    /// The dialect of two parser names; `None` where neither is in effect. A tool parser counts only with
    /// `--enable-auto-tool-choice`.
    pub fn new(
        tool_parser: Option<&str>,
        reasoning_parser: Option<&str>,
        vocabulary: &Vocabulary,
        model_type: &str,
        enable_auto_tools: bool,
    ) -> Result<Option<Self>, DialectError> {
        let setup = Setup {
            vocabulary,
            beside_reasoning: reasoning_parser.is_some(),
            beside_tools: tool_parser.is_some() && enable_auto_tools,
            mixed: false,
        };
        let reasoning = reasoning_parser.map(|name| reasoning(name, &setup)).transpose()?.flatten();
        let setup = Setup { mixed: reasoning.as_ref().is_some_and(|half| !half.is_engine()), ..setup };
        // A wrong name is told also where it would not be used.
        let named = tool_parser.map(|name| tools(name, &setup)).transpose()?.filter(|_| enable_auto_tools);
        // Some tool halves read content, or say the reasoning, where no tool parser was configured, or another one.
        let own = reasoning_parser.and_then(|name| self::tools(name, &setup).ok()).filter(|half| half.reads_always());
        let takes_over = reasoning.is_none() && own.as_ref().is_some_and(|half| half.takes_over());
        let tools = if takes_over { own } else { named.or(own) };
        if let Some(reason) = tools.as_ref().and_then(|half| half.problem()) {
            let name = tool_parser.or(reasoning_parser).unwrap_or_default().to_owned();
            return Err(DialectError::Unreadable { name, reason: reason.to_owned() });
        }
        if let (None, Some(half), Some(other)) =
            (&reasoning, reasoning_parser, tool_parser.filter(|_| enable_auto_tools))
            && !takes_over
            && half != other
        {
            return Err(DialectError::Apart { reasoning: half.to_owned(), tools: other.to_owned() });
        }
        let numbered = matches!(model_type, "kimi_k2" | "kimi_k25" | "kimi_k3");
        Ok((reasoning.is_some() || tools.is_some()).then_some(Self { reasoning, tools, numbered }))
    }

    /// What the request asks of the dialect that it does not have.
    pub fn refuses(&self, context: &Context) -> Option<Unsupported> {
        let by_reasoning = self.reasoning.as_ref().and_then(|half| half.refuses(context));
        by_reasoning.or_else(|| self.tools.as_ref()?.refuses(context))
    }

    /// Whether the facts of a request need the text of its prompt.
    pub fn wants_prompt_text(&self) -> bool {
        self.tools.as_ref().is_some_and(|half| half.wants_prompt_text())
    }

    /// Applies one request's facts.
    pub fn plan(self: &Arc<Self>, context: Context) -> Plan {
        Plan::new(Arc::clone(self), context)
    }

    /// Applies one request's facts in the middle of a reply, where the prompt need not be looked at again: `thinks` is what
    /// [`Plan::thinks`] said at its start.
    pub fn resume(self: &Arc<Self>, context: Context, thinks: bool) -> Plan {
        Plan::resumed(Arc::clone(self), context, thinks)
    }

    /// Whether the prompt already ended the reasoning; `None` without a reasoning parser.
    pub fn prompt_reasoning_ended(&self, context: &Context) -> Option<bool> {
        self.reasoning.as_ref().map(|half| half.ended_by_prompt(context))
    }
}

/// The reasoning half of this name; none where the tool half of the same name says the reasoning.
fn reasoning(name: &str, setup: &Setup<'_>) -> Result<Option<Box<dyn ReadReasoning>>, DialectError> {
    let Some((half, needs)) = reasoning_named(name) else {
        return Err(DialectError::Unknown { kind: "reasoning", name: name.to_owned(), closest: closest(name, false) });
    };
    require(name, needs, setup.vocabulary)?;
    Ok(half.map(|half| half(setup)))
}

fn tools(name: &str, setup: &Setup<'_>) -> Result<Box<dyn ReadTools>, DialectError> {
    let Some((half, needs)) = tools_named(name) else {
        return Err(DialectError::Unknown { kind: "tool-call", name: name.to_owned(), closest: closest(name, true) });
    };
    require(name, needs, setup.vocabulary)?;
    Ok(half(setup))
}

fn require(name: &str, needs: &[&'static str], vocabulary: &Vocabulary) -> Result<(), DialectError> {
    let tokens: Vec<_> = needs.iter().copied().filter(|text| !vocabulary.ids.contains_key(*text)).collect();
    if tokens.is_empty() {
        return Ok(());
    }
    Err(DialectError::MissingTokens { name: name.to_owned(), tokens })
}

#[cfg(test)]
mod tests {
    use super::super::{Token, Tool, ToolChoice};
    use super::*;

    #[test]
    fn reasoning_that_tools_say_stays_with_them() {
        let new = |tools: Option<&str>, reasoning: Option<&str>| {
            Dialect::new(tools, reasoning, &Vocabulary::default(), "llama", true).map(|dialect| dialect.is_some())
        };
        let cohere = Some("cohere_command3");
        assert_eq!(new(None, cohere), Ok(true));
        assert_eq!(new(cohere, cohere), Ok(true));
        assert_eq!(new(Some("hermes"), cohere), Ok(true));
        let apart = DialectError::Apart { reasoning: "hf".to_owned(), tools: "hermes".to_owned() };
        assert_eq!(new(Some("hermes"), Some("hf")), Err(apart));
    }

    #[test]
    fn a_token_behind_text_that_may_become_a_mark_of_reasoning_is_seen_as_a_token() {
        let tokens = ["<think>", "</think>", "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"];
        let ids = tokens.iter().map(|text| (*text).to_owned()).zip(0..).collect();
        let vocabulary = Vocabulary { ids, ..Vocabulary::default() };
        let dialect = Dialect::new(Some("deepseek_v31"), Some("ernie45"), &vocabulary, "deepseek_v3", true);
        let context = Context { tool_choice: ToolChoice::Auto, parallel_tool_calls: true, ..Context::default() };
        let plan = Arc::new(dialect.unwrap().unwrap()).plan(context);
        let token = |id: u32, text| Token { id: Some(id), text };
        let begin = token(2, tokens[2]);
        // The first only spells the mark: it is text.
        let spelled = [token(9, "<｜tool▁"), token(9, "calls▁begin｜>")];
        let call = [token(9, "<｜tool▁call▁begin｜>f<｜tool▁sep｜>{}<｜tool▁call▁end｜>"), token(3, tokens[3])];
        let reply = [&[token(1, tokens[1])], &spelled[..], &[token(9, " a <"), begin], &call].concat();
        let message = plan.message(&reply);
        assert_eq!(message.content.as_deref(), Some("<｜tool▁calls▁begin｜> a <"));
        assert_eq!(message.tool_calls[0].name, "f");
    }

    #[test]
    fn coheres_parser_reads_its_calls_beside_any_tool_parser() {
        let dialect = Dialect::new(Some("hermes"), Some("cohere_command3"), &Vocabulary::default(), "cohere2", true);
        let tools = [Tool { name: "ping".to_owned(), parameters: serde_json::Value::Null }].into();
        let context = Context { tools, tool_choice: ToolChoice::Auto, parallel_tool_calls: true, ..Context::default() };
        let plan = Arc::new(dialect.unwrap().unwrap()).plan(context);
        let text = "<|START_THINKING|>why<|END_THINKING|><|START_RESPONSE|>so<|END_RESPONSE|><|START_ACTION|>[{\"tool_name\": \
                    \"ping\", \"parameters\": {\"a\": 1}}]<|END_ACTION|>";
        let message = plan.message(&[Token { id: None, text }]);
        assert_eq!((message.reasoning.as_deref(), message.content.as_deref()), (Some("why"), Some("so")));
        assert_eq!(message.tool_calls[0].arguments, "{\"a\": 1}");
    }
}
