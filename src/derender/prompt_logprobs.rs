//! Logprobs of the prompt: a tokens-only engine gives ids, the client is told texts.

use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::logprobs::{self, CompletionLogprobs, Style};
use crate::api::generate::MIN_LOGPROB;
use crate::model::vocabulary::Vocabulary;

/// An entry per prompt token: the candidates at its place in the engine's order, the token itself first. `None` where
/// there are none, as for the first token.
#[derive(Debug, Clone, PartialEq)]
pub struct PromptLogprobs(Vec<Option<Vec<Candidate>>>);

#[derive(Debug, Clone, Copy, PartialEq)]
struct Candidate {
    id: u32,
    logprob: f64,
    rank: Option<u64>,
}

impl PromptLogprobs {
    /// Reads `[null, {"5193": {"logprob": -12.1, "rank": 3, "decoded_token": null}, …}, …]`. The error says what is
    /// wrong with it.
    pub fn parse(raw: &RawValue) -> Result<Self, String> {
        let entries: Vec<Option<Map<String, Value>>> =
            serde_json::from_str(raw.get()).map_err(|error| format!("prompt_logprobs: {error}"))?;
        let candidate = |(id, entry): (&String, &Value)| {
            let id = id.parse().map_err(|_| format!("prompt_logprobs: {id:?} is not a token id"))?;
            let logprob = entry["logprob"].as_f64().unwrap_or(MIN_LOGPROB).max(MIN_LOGPROB);
            Ok(Candidate { id, logprob, rank: entry["rank"].as_u64() })
        };
        let position = |entry: Option<Map<String, Value>>| {
            entry.map(|entry| entry.iter().map(candidate).collect::<Result<Vec<_>, String>>()).transpose()
        };
        entries.into_iter().map(position).collect::<Result<_, String>>().map(Self)
    }

    /// What the client is told: the same with `decoded_token` filled in.
    pub fn with_text(&self, vocabulary: &Vocabulary) -> Value {
        let mut context = Vec::new();
        let position = |candidates: &Option<Vec<Candidate>>| {
            let Some(candidates) = candidates else { return Value::Null };
            let entries = candidates.iter().map(|candidate| {
                let text = logprobs::token_text(vocabulary, candidate.id, &context).unwrap_or_default();
                let entry = json!({"logprob": candidate.logprob, "rank": candidate.rank, "decoded_token": text});
                (candidate.id.to_string(), entry)
            });
            let written = Value::Object(entries.collect());
            if let Some(first) = candidates.first() {
                logprobs::remember(&mut context, first.id);
            }
            written
        };
        self.0.iter().map(position).collect()
    }

    /// Lists the prompt's tokens before a reply's, as `echo` with `logprobs` asks for.
    pub fn list(
        &self,
        vocabulary: &Vocabulary,
        prompt: &[u32],
        style: Style,
        into: &mut CompletionLogprobs,
        offset: &mut usize,
    ) {
        let mut context = Vec::new();
        for (id, candidates) in prompt.iter().zip(&self.0) {
            let text = |id: u32, context: &[u32]| match style.as_token_ids {
                true => logprobs::placeholder(id),
                false => logprobs::token_text(vocabulary, id, context).unwrap_or_default(),
            };
            let token = text(*id, &context);
            let own = candidates.iter().flatten().find(|candidate| candidate.id == *id);
            let top = candidates.as_ref().map(|candidates| {
                let kept = candidates.iter().take(style.top.unwrap_or(usize::MAX));
                kept.map(|candidate| (text(candidate.id, &context), candidate.logprob.into())).collect()
            });
            into.push(token, own.map(|own| own.logprob), top, offset);
            if candidates.is_some() {
                logprobs::remember(&mut context, *id);
            }
        }
    }
}
