//! Which engine gets a request.
//!
//! In: the engines that are well, as [`Candidate`]s, and what a request [`Asked`]. Out: one of them. Shares and zones count in
//! every policy. Deliberately absent: health, HTTP, the clock.

pub mod chain;
mod memory;
pub mod prefix;
pub mod rendezvous;

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

use chain::Chain;
use prefix::Prefixes;

/// Engines of another zone get requests when those of the own have more to do than this many times as much, and than this
/// many tokens more: what crosses zones costs money and a millisecond, not seconds.
const ZONE_PATIENCE: f64 = 2.0;
const ZONE_SLACK: f64 = 32_768.0;

/// How an engine is chosen among those that are well.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Policy {
    /// In turns.
    RoundRobin,
    /// By chance.
    Random,
    /// The one with the fewest outstanding tokens.
    LeastLoaded,
    /// The less loaded of two that chance picked: nearly as good, and several couplets do not run after the same engine.
    #[default]
    PowerOfTwo,
    /// Always the same one for a session; by [`PowerOfTwo`](Self::PowerOfTwo) where a request names none.
    Session,
    /// The one that lately served the longest beginning of the prompt.
    Prefix,
}

/// An engine that may be chosen.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Candidate<'a> {
    /// Who it is, whatever comes and goes beside it.
    pub id: &'a str,
    id_hash: u64,
    /// Its share, compared with the others'; above 0.
    pub share: f64,
    /// Tokens of prompts and replies that it works on.
    pub load: u64,
    /// Whether it runs where couplet does.
    pub is_near: bool,
    /// Tokens of the prompt's beginning that it served lately; told of the one that is chosen by them.
    pub known: usize,
}

impl<'a> Candidate<'a> {
    /// An engine nearby.
    pub fn new(id: &'a str, share: f64, load: u64) -> Self {
        Self { id, id_hash: rendezvous::hash(id.as_bytes()), share, load, is_near: true, known: 0 }
    }
}

/// What a policy looks at in a request. Made once, used for every engine that is tried.
#[derive(Debug, Clone, Default)]
pub struct Asked {
    session: Option<u64>,
    chain: Chain,
}

/// A policy and what it remembers.
#[derive(Debug)]
pub struct Chooser {
    policy: Policy,
    /// Round robin: how far each engine is behind its share.
    behind: Mutex<HashMap<String, f64>>,
    prefixes: Prefixes,
}

impl Chooser {
    /// Without memories.
    pub fn new(policy: Policy, prefix: prefix::Options) -> Self {
        Self { policy, behind: Mutex::default(), prefixes: Prefixes::new(prefix) }
    }

    /// What this policy looks at in a request: the prompt, what else tells cache entries apart (`salt`), the session.
    pub fn ask(&self, salt: u64, prompt: &[u32], session: Option<&str>) -> Asked {
        Asked {
            session: session.map(|session| rendezvous::hash(session.as_bytes())),
            chain: if self.policy == Policy::Prefix { Chain::new(salt, prompt) } else { Chain::default() },
        }
    }

    /// The chosen one; `None` where there is no candidate.
    pub fn choose<'a>(&self, asked: &Asked, candidates: &[Candidate<'a>]) -> Option<Candidate<'a>> {
        let candidates = &*nearby(candidates);
        match self.policy {
            Policy::Prefix => self.prefixes.choose(&asked.chain, candidates),
            _ if candidates.len() < 2 => candidates.first().copied(),
            Policy::RoundRobin => self.in_turns(candidates),
            Policy::Random => by_chance(candidates),
            Policy::LeastLoaded => less_loaded(candidates.iter().copied()),
            Policy::PowerOfTwo => less_loaded_of_two(candidates),
            Policy::Session => match asked.session {
                Some(session) => rendezvous::first(session, candidates.iter().copied()),
                None => less_loaded_of_two(candidates),
            },
        }
    }

    /// Forgets engines that are not among these.
    pub fn keep(&self, ids: &HashSet<&str>) {
        self.behind().retain(|id, _| ids.contains(id.as_str()));
        self.prefixes.keep(ids);
    }

    /// How many beginnings of prompts an engine served lately, and how many tokens of prompts it got.
    pub fn remembered(&self, id: &str) -> Option<(usize, f64)> {
        self.prefixes.remembered(id)
    }

    /// An engine began anew: what it had in its cache is gone.
    pub fn forget(&self, id: &str) {
        self.prefixes.forget(id);
    }

    /// Smooth weighted round robin: everybody gains its share, the one that is furthest behind is taken and pays for all.
    fn in_turns<'a>(&self, candidates: &[Candidate<'a>]) -> Option<Candidate<'a>> {
        let mut behind = self.behind();
        let mut furthest: Option<(f64, Candidate)> = None;
        for candidate in candidates {
            if !behind.contains_key(candidate.id) {
                behind.insert(candidate.id.to_owned(), 0.0);
            }
            let Some(share) = behind.get_mut(candidate.id) else { continue };
            *share += candidate.share;
            if furthest.is_none_or(|(most, _)| *share > most) {
                furthest = Some((*share, *candidate));
            }
        }
        let (share, chosen) = furthest?;
        behind.insert(chosen.id.to_owned(), share - candidates.iter().map(|candidate| candidate.share).sum::<f64>());
        Some(chosen)
    }

    fn behind(&self) -> MutexGuard<'_, HashMap<String, f64>> {
        self.behind.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The engines of the own zone, while they keep up with the others.
fn nearby<'a, 'b>(candidates: &'b [Candidate<'a>]) -> Cow<'b, [Candidate<'a>]> {
    let (near, far): (Vec<Candidate>, Vec<Candidate>) = candidates.iter().partition(|candidate| candidate.is_near);
    let load = |of: &[Candidate]| {
        let (load, share) =
            of.iter().fold((0.0, 0.0), |(load, share), one| (load + one.load as f64, share + one.share));
        load / share
    };
    if near.is_empty() || far.is_empty() || load(&near) > ZONE_PATIENCE * load(&far) + ZONE_SLACK {
        return Cow::Borrowed(candidates);
    }
    Cow::Owned(near)
}

fn less_loaded_of_two<'a>(candidates: &[Candidate<'a>]) -> Option<Candidate<'a>> {
    let first = by_chance(candidates)?;
    let others: Vec<Candidate> = candidates.iter().copied().filter(|other| other.id != first.id).collect();
    less_loaded([Some(first), by_chance(&others)].into_iter().flatten())
}

fn by_chance<'a>(candidates: &[Candidate<'a>]) -> Option<Candidate<'a>> {
    // 53 random bits: the standard library seeds its hash maps from the system's source.
    let random = (RandomState::new().hash_one(0_u8) >> 11) as f64 / (1_u64 << 53) as f64;
    let mut at = random * candidates.iter().map(|candidate| candidate.share).sum::<f64>();
    let here = |candidate: &&Candidate| {
        at -= candidate.share;
        at < 0.0
    };
    // Rounding may leave a bit of nothing behind the last.
    candidates.iter().find(here).or(candidates.last()).copied()
}

/// Loads are compared by share; of equals the first.
fn less_loaded<'a>(candidates: impl Iterator<Item = Candidate<'a>>) -> Option<Candidate<'a>> {
    candidates.min_by(|a, b| (a.load as f64 / a.share).total_cmp(&(b.load as f64 / b.share)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDS: [&str; 4] = ["a", "b", "c", "d"];

    fn chooser(policy: Policy) -> Chooser {
        Chooser::new(policy, prefix::Options::default())
    }

    fn candidates(of: &[(u32, u64)]) -> Vec<Candidate<'static>> {
        of.iter().zip(IDS).map(|(&(weight, load), id)| Candidate::new(id, weight.into(), load)).collect()
    }

    fn counts(policy: Policy, of: &[(u32, u64)], times: usize) -> Vec<usize> {
        let (chooser, candidates) = (chooser(policy), candidates(of));
        let mut counts = vec![0; of.len()];
        for _ in 0..times {
            let chosen = chooser.choose(&Asked::default(), &candidates).unwrap();
            counts[IDS.iter().position(|id| *id == chosen.id).unwrap()] += 1;
        }
        counts
    }

    #[test]
    fn turns_follow_the_weights() {
        assert_eq!(counts(Policy::RoundRobin, &[(1, 0), (1, 9), (1, 0)], 9), [3, 3, 3]);
        assert_eq!(counts(Policy::RoundRobin, &[(5, 0), (1, 0), (2, 0)], 16), [10, 2, 4]);
    }

    #[test]
    fn chance_follows_the_weights() {
        let counts = counts(Policy::Random, &[(3, 0), (1, 0)], 4000);
        assert!((2700..3300).contains(&counts[0]), "{counts:?}");
    }

    #[test]
    fn load_is_compared_by_weight() {
        assert_eq!(counts(Policy::LeastLoaded, &[(1, 100), (4, 300), (1, 90)], 3), [0, 3, 0]);
        assert_eq!(counts(Policy::PowerOfTwo, &[(1, 10), (1, 20)], 10), [10, 0]);
        let most_loaded = counts(Policy::PowerOfTwo, &[(1, 10), (1, 20), (1, 30)], 300)[2];
        assert_eq!(most_loaded, 0, "of any two there is a less loaded one");
    }

    #[test]
    fn without_candidates_there_is_no_choice() {
        assert_eq!(chooser(Policy::Random).choose(&Asked::default(), &[]), None);
        let one = candidates(&[(1, 0)]);
        assert_eq!(chooser(Policy::RoundRobin).choose(&Asked::default(), &one), Some(one[0]));
    }

    #[test]
    fn a_session_stays_and_moves_only_when_its_engine_leaves() {
        let (chooser, all) = (chooser(Policy::Session), candidates(&[(1, 0), (1, 0), (1, 9)]));
        for session in 0..100 {
            let asked = chooser.ask(0, &[], Some(&format!("session {session}")));
            let first = chooser.choose(&asked, &all).unwrap();
            assert_eq!(chooser.choose(&asked, &all), Some(first));
            let others: Vec<Candidate> = all.iter().copied().filter(|one| one.id != first.id).collect();
            let second = chooser.choose(&asked, &others).unwrap();
            let three: Vec<Candidate> = [second, first].to_vec();
            assert_eq!(chooser.choose(&asked, &three), Some(first), "the order of candidates is of no account");
        }
    }

    #[test]
    fn the_own_zone_comes_first_until_it_has_too_much_to_do() {
        let far = |mut of: Vec<Candidate<'static>>| {
            of[2].is_near = false;
            of
        };
        for policy in [
            Policy::RoundRobin,
            Policy::Random,
            Policy::LeastLoaded,
            Policy::PowerOfTwo,
            Policy::Session,
            Policy::Prefix,
        ] {
            let chooser = chooser(policy);
            let chosen = |loads: &[(u32, u64)]| -> HashSet<&str> {
                let candidates = far(candidates(loads));
                let ask = |at: u32| chooser.ask(0, &[at; 64], Some(&at.to_string()));
                (0..200).map(|at| chooser.choose(&ask(at), &candidates).unwrap().id).collect()
            };
            assert!(!chosen(&[(1, 30_000), (1, 30_000), (1, 0)]).contains("c"), "{policy:?}");
            assert!(chosen(&[(1, 90_000), (1, 90_000), (1, 0)]).contains("c"), "{policy:?}");
        }
    }
}
