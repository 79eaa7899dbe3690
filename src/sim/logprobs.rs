//! Made-up log probabilities: the same id at the same place always gets the same ones.

use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};

use super::voice::mix;

/// How logprobs are made and written.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scale {
    pub(super) seed: u64,
    pub(super) vocab_size: u32,
    /// Write `token: "token_id:198"`, as engines before 0.32 did.
    pub(super) legacy: bool,
}

/// A candidate at one position.
#[derive(Debug)]
pub(super) struct Candidate {
    id: u32,
    logprob: f64,
    rank: u32,
    top: Option<Vec<Candidate>>,
    legacy: bool,
}

impl Scale {
    /// The sampled id at `position` with its `count` candidates, itself the first and most likely of them.
    pub(super) fn sampled(&self, id: u32, position: u32, count: u32) -> Candidate {
        let top = (0..count.clamp(1, self.vocab_size)).map(|rank| self.candidate(id, position, rank)).collect();
        Candidate { top: Some(top), ..self.candidate(id, position, 0) }
    }

    /// The candidate of `rank` (0: the sampled id itself); the others are its neighbours in the vocabulary.
    pub(super) fn candidate(&self, id: u32, position: u32, rank: u32) -> Candidate {
        let milli = mix(self.seed ^ u64::from(id), u64::from(position)) % 2000;
        let logprob = -(milli as f64) / 1000.0 - f64::from(rank) * 0.25;
        let id = if rank == 0 { id } else { (id % self.vocab_size + rank) % self.vocab_size };
        Candidate { id, logprob, rank: rank + 1, top: None, legacy: self.legacy }
    }

    /// `prompt_logprobs`: null for the first token, then a map from id to logprob per token.
    pub(super) fn of_prompt(&self, prompt: &[u32], count: u32) -> Vec<Option<PromptCandidates>> {
        let count = count.clamp(1, self.vocab_size);
        let at = |(position, id): (usize, &u32)| {
            let ranks = 0..count;
            (position > 0)
                .then(|| PromptCandidates(ranks.map(|rank| self.candidate(*id, position as u32, rank)).collect()))
        };
        prompt.iter().enumerate().map(at).collect()
    }
}

impl Serialize for Candidate {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        if self.legacy {
            map.serialize_entry("token", &format_args!("token_id:{}", self.id))?;
            map.serialize_entry("logprob", &self.logprob)?;
            map.serialize_entry("bytes", &())?;
        } else {
            map.serialize_entry("token_id", &self.id)?;
            map.serialize_entry("logprob", &self.logprob)?;
            map.serialize_entry("rank", &self.rank)?;
        }
        if let Some(top) = &self.top {
            map.serialize_entry("top_logprobs", top)?;
        }
        map.end()
    }
}

/// The candidates of one prompt token.
#[derive(Debug)]
pub(super) struct PromptCandidates(Vec<Candidate>);

#[derive(Serialize)]
struct PromptLogprob {
    logprob: f64,
    rank: u32,
    decoded_token: (),
}

impl Serialize for PromptCandidates {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for Candidate { id, logprob, rank, .. } in &self.0 {
            map.serialize_entry(id, &PromptLogprob { logprob: *logprob, rank: *rank, decoded_token: () })?;
        }
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCALE: Scale = Scale { seed: 1, vocab_size: 10, legacy: false };

    #[test]
    fn candidates_are_distinct_and_ordered() {
        let candidate = SCALE.sampled(9, 3, 5);
        let top = candidate.top.unwrap();
        assert_eq!(top.iter().map(|c| c.id).collect::<Vec<_>>(), [9, 0, 1, 2, 3]);
        assert!(top.is_sorted_by(|a, b| a.logprob > b.logprob));
        assert_eq!(top[0].logprob, candidate.logprob);
    }

    #[test]
    fn both_forms_are_written() {
        let new = serde_json::to_string(&SCALE.candidate(4, 0, 0)).unwrap();
        assert!(new.starts_with(r#"{"token_id":4,"logprob":-"#) && new.ends_with(r#""rank":1}"#), "{new}");
        let old = serde_json::to_string(&Scale { legacy: true, ..SCALE }.candidate(4, 0, 0)).unwrap();
        assert!(old.starts_with(r#"{"token":"token_id:4","logprob":-"#) && old.ends_with(r#""bytes":null}"#), "{old}");
    }
}
