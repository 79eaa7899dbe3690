//! Which beginnings of prompts an engine has lately served: a guess of what lies in its prefix cache.

use super::chain::Chain;

/// Beginnings that share a place; of these the one that was not asked for the longest time gives way.
const WAYS: usize = 4;

/// Bytes of one set of beginnings: a cache line.
const SET: usize = size_of::<[Entry; WAYS]>();

/// A beginning, and when it was last served. An entry of zeros is free.
#[derive(Debug, Clone, Copy, Default)]
struct Entry {
    hash: u64,
    served: u64,
}

/// The beginnings that one engine served. Takes all its room at once and never more.
///
/// Time is told in tokens that the engine had to compute: what its cache can hold is pushed out by as many new ones,
/// however long that takes.
#[derive(Debug)]
pub(super) struct Memory {
    sets: Box<[[Entry; WAYS]]>,
    /// Tokens that the engine has computed; begins above the zero of free entries.
    clock: u64,
    /// What its cache holds.
    cache_tokens: u64,
}

impl Memory {
    /// An empty one of at most `bytes`, at least one set.
    pub(super) fn new(bytes: usize, cache_tokens: u64) -> Self {
        let sets = vec![[Entry::default(); WAYS]; (bytes / SET).max(1)];
        Self { sets: sets.into_boxed_slice(), clock: 1, cache_tokens }
    }

    /// How many of a prompt's beginnings were served, as a count of hashes. Found by halving: who has a beginning has the
    /// shorter ones too, as they are served together.
    pub(super) fn shared(&self, chain: &Chain) -> usize {
        chain.hashes().partition_point(|hash| self.holds(*hash))
    }

    /// The engine serves a prompt of which it had `shared` beginnings.
    pub(super) fn serve(&mut self, chain: &Chain, shared: usize) {
        self.clock += chain.tokens().saturating_sub(Chain::covered(shared)) as u64;
        for hash in chain.hashes() {
            self.note(*hash);
        }
    }

    /// How many beginnings it remembers.
    pub(super) fn beginnings(&self) -> usize {
        self.sets.iter().flatten().filter(|entry| entry.served > 0).count()
    }

    fn holds(&self, hash: u64) -> bool {
        let entry = self.sets[self.place(hash)].iter().find(|entry| entry.hash == hash && entry.served > 0);
        entry.is_some_and(|entry| self.clock - entry.served <= self.cache_tokens)
    }

    fn note(&mut self, hash: u64) {
        let (place, clock) = (self.place(hash), self.clock);
        let set = &mut self.sets[place];
        // The entry itself, else the oldest; free ones are the oldest of all.
        let at = (0..WAYS).min_by_key(|at| if set[*at].hash == hash { 0 } else { set[*at].served + 1 }).unwrap_or(0);
        set[at] = Entry { hash, served: clock };
    }

    /// The set of a hash: its upper bits, scaled to the number of sets.
    fn place(&self, hash: u64) -> usize {
        ((u128::from(hash) * self.sets.len() as u128) >> 64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chain(seed: u32, tokens: usize) -> Chain {
        Chain::new(0, &(0..tokens as u32).map(|at| at ^ seed << 16).collect::<Vec<_>>())
    }

    #[test]
    fn what_was_served_is_shared_with_what_begins_alike() {
        let mut memory = Memory::new(1 << 20, u64::MAX);
        memory.serve(&chain(1, 1000), 0);
        assert_eq!(Chain::covered(memory.shared(&chain(1, 4000))), 992);
        assert_eq!(memory.shared(&chain(1, 100)), 6);
        assert_eq!(memory.shared(&chain(2, 1000)), 0);
    }

    #[test]
    fn what_the_cache_cannot_hold_any_more_is_forgotten() {
        let mut memory = Memory::new(1 << 20, 10_000);
        memory.serve(&chain(1, 1000), 0);
        for seed in 2..11 {
            memory.serve(&chain(seed, 1000), 0);
        }
        assert_eq!(Chain::covered(memory.shared(&chain(1, 1000))), 992, "nine thousand new tokens fit beside it");
        (11..13).for_each(|seed| memory.serve(&chain(seed, 1000), 0));
        assert_eq!(memory.shared(&chain(1, 1000)), 0);
        assert_eq!(Chain::covered(memory.shared(&chain(12, 1000))), 992);
        // What is served again costs nothing new and stays.
        let again = chain(12, 1000);
        (0..100).for_each(|_| memory.serve(&again, memory.shared(&again)));
        assert_eq!(Chain::covered(memory.shared(&chain(11, 1000))), 992);
    }

    #[test]
    fn its_room_is_bounded_and_the_latest_stays() {
        let mut memory = Memory::new(64 * 1024, u64::MAX);
        assert_eq!(size_of_val(&*memory.sets), 64 * 1024);
        (0..10_000).for_each(|seed| memory.serve(&chain(seed, 1000), 0));
        assert_eq!(size_of_val(&*memory.sets), 64 * 1024);
        assert_eq!(Chain::covered(memory.shared(&chain(9_999, 1000))), 992);
        assert_eq!(memory.shared(&chain(0, 1000)), 0);
    }
}
