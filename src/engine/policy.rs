//! Which engine gets a request.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::Deserialize;

/// How an engine is chosen among those that are well. Weights count in all of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
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
}

/// An engine that may be chosen.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Candidate<'a> {
    /// Who it is, whatever comes and goes beside it.
    pub id: &'a str,
    /// Its share, compared with the others'.
    pub weight: u32,
    /// Tokens of prompts and replies that it works on.
    pub load: u64,
}

/// A policy and what it remembers.
#[derive(Debug)]
pub struct Chooser {
    policy: Policy,
    /// Round robin: how far each engine is behind its share.
    behind: Mutex<HashMap<String, i64>>,
}

impl Chooser {
    /// Without memories.
    pub fn new(policy: Policy) -> Self {
        Self { policy, behind: Mutex::default() }
    }

    /// The chosen one; `None` where there is no candidate.
    pub fn choose<'a>(&self, candidates: &[Candidate<'a>]) -> Option<Candidate<'a>> {
        match self.policy {
            _ if candidates.len() < 2 => candidates.first().copied(),
            Policy::RoundRobin => self.in_turns(candidates),
            Policy::Random => by_chance(candidates),
            Policy::LeastLoaded => less_loaded(candidates.iter().copied()),
            Policy::PowerOfTwo => {
                let first = by_chance(candidates)?;
                let others: Vec<Candidate> = candidates.iter().copied().filter(|other| other.id != first.id).collect();
                less_loaded([Some(first), by_chance(&others)].into_iter().flatten())
            }
        }
    }

    /// Forgets engines that are not among these.
    pub fn keep(&self, ids: &HashSet<&str>) {
        self.behind().retain(|id, _| ids.contains(id.as_str()));
    }

    /// Smooth weighted round robin: everybody gains its weight, the one that is furthest behind is taken and pays for all.
    fn in_turns<'a>(&self, candidates: &[Candidate<'a>]) -> Option<Candidate<'a>> {
        let mut behind = self.behind();
        let mut furthest: Option<(i64, Candidate)> = None;
        for candidate in candidates {
            if !behind.contains_key(candidate.id) {
                behind.insert(candidate.id.to_owned(), 0);
            }
            let Some(share) = behind.get_mut(candidate.id) else { continue };
            *share += i64::from(candidate.weight);
            if furthest.is_none_or(|(most, _)| *share > most) {
                furthest = Some((*share, *candidate));
            }
        }
        let (share, chosen) = furthest?;
        let all = candidates.iter().map(|candidate| i64::from(candidate.weight)).sum::<i64>();
        behind.insert(chosen.id.to_owned(), share - all);
        Some(chosen)
    }

    fn behind(&self) -> MutexGuard<'_, HashMap<String, i64>> {
        self.behind.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn by_chance<'a>(candidates: &[Candidate<'a>]) -> Option<Candidate<'a>> {
    let all: u64 = candidates.iter().map(|candidate| u64::from(candidate.weight)).sum();
    // 64 random bits: the bias of the remainder is of no account.
    let mut at = RandomState::new().hash_one(0_u8).checked_rem(all)?;
    candidates.iter().copied().find(|candidate| {
        let weight = u64::from(candidate.weight);
        let here = at < weight;
        at = at.saturating_sub(weight);
        here
    })
}

/// Loads are compared by weight; of equals the first.
fn less_loaded<'a>(candidates: impl Iterator<Item = Candidate<'a>>) -> Option<Candidate<'a>> {
    candidates.min_by(|a, b| {
        let scaled = |one: &Candidate, other: &Candidate| u128::from(one.load) * u128::from(other.weight);
        scaled(a, b).cmp(&scaled(b, a))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDS: [&str; 4] = ["a", "b", "c", "d"];

    fn candidates(of: &[(u32, u64)]) -> Vec<Candidate<'static>> {
        of.iter().zip(IDS).map(|(&(weight, load), id)| Candidate { id, weight, load }).collect()
    }

    fn counts(policy: Policy, of: &[(u32, u64)], times: usize) -> Vec<usize> {
        let (chooser, candidates) = (Chooser::new(policy), candidates(of));
        let mut counts = vec![0; of.len()];
        for _ in 0..times {
            let chosen = chooser.choose(&candidates).unwrap();
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
        assert_eq!(Chooser::new(Policy::Random).choose(&[]), None);
        let one = candidates(&[(1, 0)]);
        assert_eq!(Chooser::new(Policy::RoundRobin).choose(&one), Some(one[0]));
    }
}
