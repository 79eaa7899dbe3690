//! Which token ids a choice says: a script, an echo of the prompt, or pseudo-random ids.

use std::collections::HashSet;
use std::sync::Arc;

use super::options::{Options, Reply};
use super::request::Job;

/// The ids of one choice, by position. Asking twice for a position gives the same id.
#[derive(Debug)]
pub(super) struct Voice {
    says: Says,
    /// Position in the script of this request's first token; negative: the script starts later.
    from: i64,
    seed: u64,
    /// Random ids lie below this one.
    ordinary: u32,
    allowed: Option<Arc<Allowed>>,
    /// EOS ids that may not be said before `min_tokens`; empty for scripts, which are said as they are.
    muted: Vec<u32>,
    min_tokens: u32,
}

#[derive(Debug)]
enum Says {
    Script {
        ids: Arc<[u32]>,
        eos: u32,
    },
    Random,
    /// Each id as often as its weight says, among those that are allowed.
    Drawn(Vec<(u32, u64)>),
}

/// `allowed_token_ids`, for looking up and for choosing one.
#[derive(Debug)]
struct Allowed {
    list: Vec<u32>,
    set: HashSet<u32>,
}

impl Voice {
    /// One voice per choice of `job`.
    pub(super) fn of(job: &Job, options: &Options) -> Vec<Self> {
        let eos = job.script_eos.unwrap_or_else(|| options.eos_token_id.first().copied().unwrap_or(0));
        let echo: Arc<[u32]> = match options.reply {
            Reply::Echo => last_message(job.first_prompt(), &options.eos_token_id).into(),
            Reply::Random => Arc::from([]),
        };
        let allowed = job
            .allowed_token_ids
            .as_ref()
            .map(|list| Arc::new(Allowed { list: list.clone(), set: list.iter().copied().collect() }));
        let base = job.seed.unwrap_or_else(|| fingerprint(options.seed, &job.prompt));
        (0..job.n)
            .map(|choice| {
                let scripted = job.scripts.as_ref().map(|scripts| scripts.of(choice));
                let muted = if scripted.is_some() { Vec::new() } else { options.eos_token_id.clone() };
                let says = match scripted {
                    _ if !job.distribution.is_empty() => Says::Drawn(drawn_from(job, allowed.as_deref())),
                    Some(ids) => Says::Script { ids, eos },
                    None if echo.is_empty() => Says::Random,
                    None => Says::Script { ids: echo.clone(), eos },
                };
                Self {
                    says,
                    from: job.prompt.len() as i64 - job.script_from.unwrap_or(job.prompt.len()) as i64,
                    seed: base.wrapping_add(u64::from(choice)),
                    ordinary: options.first_special().clamp(1, options.vocab_size.max(1)),
                    allowed: allowed.clone(),
                    muted,
                    min_tokens: job.min_tokens,
                }
            })
            .collect()
    }

    /// The id at `position` of this request's output.
    pub(super) fn id(&self, position: u32) -> u32 {
        let place = (self.from + i64::from(position)).max(0) as u64;
        let id = match &self.says {
            Says::Script { ids, eos } => ids.get(place as usize).copied().unwrap_or(*eos),
            Says::Random => self.random(place),
            Says::Drawn(weights) => draw(weights, mix(self.seed, place)),
        };
        let id = if position < self.min_tokens && self.muted.contains(&id) { self.random(place) } else { id };
        match &self.allowed {
            Some(allowed) if !allowed.set.contains(&id) => {
                let pick = mix(self.seed, place) as usize % allowed.list.len().max(1);
                allowed.list.get(pick).copied().unwrap_or(id)
            }
            _ => id,
        }
    }

    fn random(&self, place: u64) -> u32 {
        (mix(self.seed, place) % u64::from(self.ordinary)) as u32
    }
}

fn drawn_from(job: &Job, allowed: Option<&Allowed>) -> Vec<(u32, u64)> {
    let is_allowed = |id: u32| allowed.is_none_or(|allowed| allowed.set.contains(&id));
    job.distribution.iter().copied().filter(|(id, _)| is_allowed(*id)).collect()
}

/// The id at a place among all weights; `random` chooses the place.
fn draw(weights: &[(u32, u64)], random: u64) -> u32 {
    let all: u64 = weights.iter().map(|(_, weight)| weight).sum();
    let mut at = random.checked_rem(all).unwrap_or(0);
    for (id, weight) in weights {
        if at < *weight {
            return *id;
        }
        at -= weight;
    }
    weights.first().map_or(0, |(id, _)| *id)
}

/// The guess that [`Reply::Echo`] describes.
fn last_message<'a>(prompt: &'a [u32], eos: &[u32]) -> &'a [u32] {
    let Some(end) = prompt.iter().rposition(|id| eos.contains(id)) else { return prompt };
    let first_special = eos.iter().copied().min().unwrap_or(u32::MAX);
    let start = prompt[..end].iter().rposition(|id| *id >= first_special).map_or(0, |at| at + 1);
    let run = &prompt[start..end];
    let marks = [prompt.get(end + 1), prompt.last()];
    let header = marks.into_iter().flatten().find_map(|mark| run.iter().position(|id| id == mark));
    header.map_or(run, |at| &run[at + 1..])
}

fn fingerprint(seed: u64, prompt: &[u32]) -> u64 {
    prompt.iter().fold(seed, |hash, id| mix(hash, u64::from(*id)))
}

/// A well-mixed number that depends on nothing but its arguments (splitmix64).
pub(super) fn mix(seed: u64, index: u64) -> u64 {
    let mut x = seed ^ index.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEWLINE: u32 = 1;
    const IM_START: u32 = 101;
    const IM_END: u32 = 102;

    fn turn(role: u32, text: &[u32]) -> Vec<u32> {
        [&[IM_START, role, NEWLINE], text, &[IM_END, NEWLINE]].concat()
    }

    #[test]
    fn echo_finds_the_last_message_of_a_chatml_prompt() {
        let turns = [turn(5, &[10, 11]), turn(6, &[20, 21, NEWLINE, 22])].concat();
        let open = [IM_START, 7, NEWLINE];
        assert_eq!(last_message(&[&turns[..], &open].concat(), &[IM_END, 100]), [20, 21, NEWLINE, 22]);
        // The template may open (and close) the thinking: <think> 2 </think> 2.
        let thought = [IM_START, 7, NEWLINE, 106, 2, 107, 2];
        assert_eq!(last_message(&[&turns[..], &thought].concat(), &[IM_END, 100]), [20, 21, NEWLINE, 22]);
    }

    #[test]
    fn echo_finds_the_last_message_where_the_role_has_marks_of_its_own() {
        // <start>user<end>\n\nHELLO<eot><start>assistant<end>\n\n
        let prompt = [103, 5, 104, 1, 20, 21, 105, 103, 7, 104, 1];
        assert_eq!(last_message(&prompt, &[105, 100]), [20, 21]);
    }

    #[test]
    fn echo_repeats_a_prompt_without_eos_and_an_empty_message_not_at_all() {
        assert_eq!(last_message(&[3, 4, 5], &[100]), [3, 4, 5]);
        assert_eq!(last_message(&[], &[100]), [0; 0]);
        assert_eq!(last_message(&turn(5, &[]), &[IM_END]), [0; 0]);
    }

    #[test]
    fn mix_spreads() {
        let low: HashSet<_> = (0..100).map(|i| mix(7, i) % 1000).collect();
        assert!(low.len() > 85);
    }
}
