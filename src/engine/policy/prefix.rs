//! The policy `prefix`: a prompt goes where its beginning was served lately, unless too much goes there.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::chain::{BLOCK, Chain};
use super::memory::Memory;
use super::{Candidate, rendezvous};

/// A longer beginning is worth going for from this many tokens on, and from this share of the prompt: the first words of
/// many chats are the same.
const WORTH_TOKENS: usize = 8 * BLOCK;
const WORTH_SHARE: usize = 16;
/// Who may choose freely, such as a new chat, keeps this part of the imbalance that is allowed: so there is room left for
/// those that would lose their prefix.
const FREE_PART: f64 = 0.1;
/// Outstanding tokens of an engine, compared with the mean, from which on it is not given more: then the rest of the pool
/// idles while it works.
const MOST_OUTSTANDING: f64 = 2.0;
/// Requests that differ by less than this many tokens of load are alike: in an idle pool every request is an imbalance.
const SLACK: f64 = 8192.0;
/// How many tokens, for each engine, the comparison of what they got looks back: e-fold.
const RECENT: f64 = 1_000_000.0;

/// How the policy remembers and when it spreads.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Options {
    /// Memory for each engine.
    pub memory_bytes: usize,
    /// What an engine's prefix cache is taken to hold.
    pub cache_tokens: u64,
    /// How much of the mean an engine may be given before prompts leave it although it knows them.
    pub max_imbalance: f64,
}

impl Default for Options {
    fn default() -> Self {
        Self { memory_bytes: 1 << 20, cache_tokens: 1_000_000, max_imbalance: 1.2 }
    }
}

/// What is known of one engine.
#[derive(Debug)]
struct Known {
    memory: Memory,
    /// Tokens of prompts that it was given lately.
    recent: f64,
}

/// The policy and its memory.
#[derive(Debug)]
pub(super) struct Prefixes {
    options: Options,
    engines: Mutex<HashMap<String, Known>>,
}

/// A candidate, and how it stands.
#[derive(Debug, Clone, Copy)]
struct Standing<'a> {
    candidate: Candidate<'a>,
    /// Beginnings of the prompt that it has, as a count of hashes.
    shared: usize,
    /// Recent and outstanding tokens for its share.
    recent: f64,
    outstanding: f64,
}

impl Prefixes {
    pub(super) fn new(options: Options) -> Self {
        Self { options, engines: Mutex::default() }
    }

    /// The engine for a prompt, which from now on counts as served there.
    pub(super) fn choose<'a>(&self, chain: &Chain, candidates: &[Candidate<'a>]) -> Option<Candidate<'a>> {
        let mut engines = self.engines();
        let standings: Vec<Standing> = candidates.iter().map(|one| self.standing(&mut engines, chain, *one)).collect();
        let chosen = pick(chain, &standings, self.options.max_imbalance)?;
        let fade = (-(chain.tokens() as f64) / (RECENT * engines.len() as f64)).exp();
        engines.values_mut().for_each(|known| known.recent *= fade);
        if let Some(known) = engines.get_mut(chosen.candidate.id) {
            known.memory.serve(chain, chosen.shared);
            known.recent += chain.tokens() as f64;
        }
        Some(Candidate { known: Chain::covered(chosen.shared), ..chosen.candidate })
    }

    /// Keeps what is known of these engines only.
    pub(super) fn keep(&self, ids: &HashSet<&str>) {
        self.engines().retain(|id, _| ids.contains(id.as_str()));
    }

    /// The engine began anew: its cache is empty.
    pub(super) fn forget(&self, id: &str) {
        self.engines().remove(id);
    }

    /// How many beginnings an engine served lately, and how many tokens it got.
    pub(super) fn remembered(&self, id: &str) -> Option<(usize, f64)> {
        self.engines().get(id).map(|known| (known.memory.beginnings(), known.recent))
    }

    fn standing<'a>(&self, engines: &mut HashMap<String, Known>, chain: &Chain, one: Candidate<'a>) -> Standing<'a> {
        if !engines.contains_key(one.id) {
            // Who comes anew is not behind: else all would go there until it has caught up.
            let recent = engines.values().map(|known| known.recent).sum::<f64>() / engines.len().max(1) as f64;
            let memory = Memory::new(self.options.memory_bytes, self.options.cache_tokens);
            engines.insert(one.id.to_owned(), Known { memory, recent });
        }
        let known = engines.get(one.id);
        Standing {
            candidate: one,
            shared: known.map_or(0, |known| known.memory.shared(chain)),
            recent: known.map_or(0.0, |known| known.recent) / one.share,
            outstanding: one.load as f64 / one.share,
        }
    }

    fn engines(&self) -> MutexGuard<'_, HashMap<String, Known>> {
        self.engines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The one with the longest beginning, while it is not overloaded; of several that are as good, and where none is, the first
/// of the prompt's own order that has room.
fn pick<'a>(chain: &Chain, standings: &[Standing<'a>], max_imbalance: f64) -> Option<Standing<'a>> {
    let longest = standings.iter().map(|one| one.shared).max()?;
    let worth = WORTH_TOKENS.max(chain.tokens() / WORTH_SHARE);
    let is_near = |one: &Standing| Chain::covered(one.shared) + worth >= Chain::covered(longest);
    let near: Vec<Standing> = standings.iter().copied().filter(is_near).collect();
    let guard = Guard::new(standings);
    let free = 1.0 + (max_imbalance - 1.0) * FREE_PART;
    let known_there = if let [one] = near[..] {
        Some(one).filter(|one| guard.has_room(one, max_imbalance))
    } else {
        first(chain, &near, |one| guard.has_room(one, free))
            .or_else(|| first(chain, &near, |one| guard.has_room(one, max_imbalance)))
    };
    known_there.or_else(|| first(chain, standings, |one| guard.has_room(one, free))).or_else(|| {
        let load = |one: &Standing| one.recent.max(one.outstanding);
        standings.iter().copied().min_by(|a, b| load(a).total_cmp(&load(b)))
    })
}

/// The first by rendezvous hashing. The key is what tells the prompt from those that share as much with all of these.
fn first<'a>(chain: &Chain, of: &[Standing<'a>], may: impl Fn(&Standing) -> bool) -> Option<Standing<'a>> {
    let key = chain.key(of.iter().map(|one| one.shared).min()?);
    let able = of.iter().filter(|one| may(one));
    let chosen = rendezvous::first(key, able.map(|one| one.candidate))?;
    of.iter().copied().find(|one| one.candidate.id == chosen.id)
}

/// What all engines have to do, on the average.
struct Guard {
    recent: f64,
    outstanding: f64,
}

impl Guard {
    fn new(standings: &[Standing]) -> Self {
        let shares: f64 = standings.iter().map(|one| one.candidate.share).sum();
        let mean =
            |of: fn(&Standing) -> f64| standings.iter().map(|one| of(one) * one.candidate.share).sum::<f64>() / shares;
        Self { recent: mean(|one| one.recent), outstanding: mean(|one| one.outstanding) }
    }

    fn has_room(&self, one: &Standing, imbalance: f64) -> bool {
        let slack = SLACK / one.candidate.share;
        one.recent <= imbalance * self.recent + slack && one.outstanding <= MOST_OUTSTANDING * self.outstanding + slack
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROMPT: usize = 3000;

    fn chain(seed: u32, tokens: usize) -> Chain {
        Chain::new(0, &(0..tokens as u32).map(|at| at ^ seed << 16).collect::<Vec<_>>())
    }

    fn pool(loads: [u64; 3]) -> Vec<Candidate<'static>> {
        ["a", "b", "c"].into_iter().zip(loads).map(|(id, load)| Candidate::new(id, 1.0, load)).collect()
    }

    #[test]
    fn a_chat_stays_where_it_is_known() {
        let prefixes = Prefixes::new(Options::default());
        let first = prefixes.choose(&chain(1, PROMPT), &pool([0; 3])).unwrap();
        for tokens in [3100, 3500, 4000] {
            assert_eq!(prefixes.choose(&chain(1, tokens), &pool([0; 3])).unwrap().id, first.id);
        }
    }

    #[test]
    fn who_knows_nothing_yet_agrees_with_the_others() {
        let chosen = |seed| Prefixes::new(Options::default()).choose(&chain(seed, PROMPT), &pool([0; 3])).unwrap().id;
        let mut seen = HashSet::new();
        for seed in 1..20 {
            assert_eq!(chosen(seed), chosen(seed));
            seen.insert(chosen(seed));
        }
        assert_eq!(seen.len(), 3);
    }

    #[test]
    fn an_engine_with_too_much_to_do_loses_even_what_it_knows() {
        let prefixes = Prefixes::new(Options::default());
        let first = prefixes.choose(&chain(1, PROMPT), &pool([0; 3])).unwrap().id;
        let loads = ["a", "b", "c"].map(|id| if id == first { 100_000 } else { 10_000 });
        assert_ne!(prefixes.choose(&chain(1, PROMPT), &pool(loads)).unwrap().id, first);
    }

    #[test]
    fn a_hot_prefix_spreads() {
        let prefixes = Prefixes::new(Options::default());
        let mut counts = HashMap::new();
        for _ in 0..300 {
            *counts.entry(prefixes.choose(&chain(1, PROMPT), &pool([0; 3])).unwrap().id).or_insert(0) += 1;
        }
        assert!(counts.values().all(|count| *count <= 120), "{counts:?}");
    }

    #[test]
    fn an_engine_that_began_anew_knows_nothing() {
        let prefixes = Prefixes::new(Options::default());
        let first = prefixes.choose(&chain(1, PROMPT), &pool([0; 3])).unwrap().id;
        prefixes.forget(first);
        let engines = prefixes.engines();
        assert!(!engines.contains_key(first));
    }
}
