//! Runs a recorded case through the parsers as the derenderer will.

use std::sync::Arc;

use couplet::parsers::{Context, Dialect, Events, Message, Plan, Token, ToolChoice};
use serde_json::{Map, Value, json};

use crate::model::Model;

/// One output of a case, ready to be read in any chunks.
pub(crate) struct Output {
    pub(crate) plan: Plan,
    ids: Vec<u32>,
    texts: Vec<String>,
    finish_reason: Option<String>,
    named: bool,
    hides_reasoning: bool,
}

impl Output {
    pub(crate) fn new(
        model: &Model,
        dialect: &Arc<Dialect>,
        context: Context,
        request: &Value,
        output: &Value,
    ) -> Self {
        let ids: Vec<u32> =
            output["token_ids"].as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as u32).collect();
        let mut texts = model.texts(&context.prompt_token_ids, &ids);
        if stops(model, request, output, ids.last().copied())
            && let Some(last) = texts.last_mut()
        {
            last.clear();
        }
        let finish_reason = output["finish_reason"].as_str().map(str::to_owned);
        let named = matches!(context.tool_choice, ToolChoice::Named(_));
        let hides_reasoning = request["include_reasoning"] == json!(false);
        Self { plan: dialect.plan(context), ids, texts, finish_reason, named, hides_reasoning }
    }

    pub(crate) fn len(&self) -> usize {
        self.ids.len()
    }

    pub(crate) fn tokens(&self) -> Vec<Token<'_>> {
        self.ids.iter().zip(&self.texts).map(|(id, text)| Token { id: Some(*id), text }).collect()
    }

    /// The choice of a whole answer.
    pub(crate) fn once(&self) -> Value {
        let Message { reasoning, content, tool_calls, .. } = self.plan.message(&self.tokens());
        let calls: Vec<_> = tool_calls
            .iter()
            .map(|call| {
                json!({"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}})
            })
            .collect();
        let reasoning = reasoning.filter(|_| !self.hides_reasoning);
        let message = json!({"role": "assistant", "reasoning": reasoning, "content": content, "tool_calls": calls});
        json!({"message": message, "finish_reason": self.finish(!calls.is_empty())})
    }

    /// The choices of the chunks of a stream.
    pub(crate) fn stream(&self, lens: &[usize]) -> Vec<Value> {
        let (mut state, mut events) = (self.plan.start(), Events::default());
        let tokens = self.tokens();
        let mut rest = tokens.as_slice();
        let mut chunks = Vec::new();
        for (i, len) in lens.iter().enumerate() {
            let (chunk, after) = rest.split_at(*len);
            rest = after;
            events.clear();
            self.plan.step(&mut state, chunk, &mut events);
            let last = i + 1 == lens.len();
            if last {
                self.plan.finish(&mut state, &mut events);
            }
            let mut choice = json!({"delta": self.delta(&events)});
            if i == 0 {
                choice["delta"]["role"] = json!("assistant");
            }
            if last && self.finish_reason.is_some() {
                choice["finish_reason"] = json!(self.finish(state.calls_streamed() > 0));
            }
            chunks.push(choice);
            // What comes back from a client is what went out.
            state = serde_json::from_str(&serde_json::to_string(&state).unwrap()).unwrap();
        }
        chunks
    }

    fn delta(&self, events: &Events) -> Value {
        let mut delta = Map::new();
        let calls: Vec<_> = events
            .calls()
            .map(|call| {
                let mut entry = json!({"index": call.index, "function": {"arguments": call.arguments}});
                if let Some((id, name)) = call.head {
                    entry["id"] = json!(id);
                    entry["type"] = json!("function");
                    entry["function"]["name"] = json!(name);
                }
                entry
            })
            .collect();
        let reasoning = events.reasoning().filter(|_| !self.hides_reasoning);
        let content = events.content().filter(|text| !(self.hides_reasoning && text.is_empty() && calls.is_empty()));
        delta.insert("reasoning".to_owned(), json!(reasoning));
        delta.insert("content".to_owned(), json!(content));
        delta.insert("tool_calls".to_owned(), json!(calls));
        Value::Object(delta)
    }

    fn finish(&self, calls: bool) -> String {
        let reason = self.finish_reason.clone().unwrap_or_else(|| "stop".to_owned());
        if calls && reason == "stop" && !self.named { "tool_calls".to_owned() } else { reason }
    }
}

/// Whether the last token is the one that stopped the output, whose text nobody sees.
fn stops(model: &Model, request: &Value, output: &Value, last: Option<u32>) -> bool {
    let Some(last) = last.filter(|_| output["finish_reason"] == json!("stop")) else { return false };
    let eos = request["ignore_eos"] != json!(true) && model.eos.contains(&last);
    let asked = request["stop_token_ids"].as_array().is_some_and(|ids| ids.contains(&json!(last)));
    let stopped = match output.get("stop_reason") {
        None | Some(Value::Null) => eos || asked,
        Some(reason) => *reason == json!(last),
    };
    stopped && request["include_stop_str_in_output"] != json!(true)
}
