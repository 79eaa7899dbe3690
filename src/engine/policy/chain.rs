//! The beginnings of a prompt, as hashes.
//!
//! A hash stands for all tokens before its end, so that two prompts share a beginning where they share a hash. Beginnings
//! lie a block apart, as engines cache whole blocks; from 1024 tokens on twice as far with every doubling: a prompt of
//! 32k tokens has 224 of them, none further from the next than a thirty-second of what stands before it.

use super::rendezvous::fold;

/// Tokens of a block: vLLM's default.
pub(super) const BLOCK: usize = 16;
/// Up to here every block is a beginning.
const FINE: usize = 64 * BLOCK;

/// One per lane: the lanes of a block do not wait for each other.
const SECRETS: [u64; 4] = [0xa076_1d64_78bd_642f, 0xe703_7ed1_a0b4_28db, 0x8ebc_6af0_9c88_c6e3, 0x5899_65cc_7537_4cc3];

/// The hashes of a prompt's beginnings.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Chain {
    hashes: Vec<u64>,
    whole: u64,
    tokens: usize,
}

impl Chain {
    /// Of a prompt. What else tells an engine's cache entries apart goes into `salt`.
    pub fn new(salt: u64, prompt: &[u32]) -> Self {
        let mut chain =
            Self { hashes: Vec::with_capacity(Self::count(prompt.len())), whole: salt, tokens: prompt.len() };
        let (blocks, rest) = prompt.as_chunks::<BLOCK>();
        let mut end = Self::end(0);
        for (at, block) in blocks.iter().enumerate() {
            chain.whole = fold(chain.whole ^ digest(block), SECRETS[0]);
            if (at + 1) * BLOCK == end {
                chain.hashes.push(chain.whole);
                end = Self::end(chain.hashes.len());
            }
        }
        for token in rest {
            chain.whole = fold(chain.whole ^ u64::from(*token), SECRETS[1]);
        }
        chain
    }

    /// The hashes, shortest beginning first.
    pub(super) fn hashes(&self) -> &[u64] {
        &self.hashes
    }

    /// Tokens of the prompt.
    pub(super) fn tokens(&self) -> usize {
        self.tokens
    }

    /// Tokens of the beginning that `count` hashes cover.
    pub(super) fn covered(count: usize) -> usize {
        count.checked_sub(1).map_or(0, Self::end)
    }

    /// What tells this prompt from others that share `count` hashes with it: the next hash.
    pub(super) fn key(&self, count: usize) -> u64 {
        self.hashes.get(count).copied().unwrap_or(self.whole)
    }

    /// Where the beginning with hash `at` ends. Half as many of them lie between a doubling and the next as before the first.
    fn end(at: usize) -> usize {
        const FIRST: usize = FINE / BLOCK;
        const NEXT: usize = FIRST / 2;
        match at.checked_sub(FIRST) {
            None => (at + 1) * BLOCK,
            Some(further) => {
                let doubling = further / NEXT;
                (FINE << doubling) + (further % NEXT + 1) * ((2 * BLOCK) << doubling)
            }
        }
    }

    /// Hashes of a prompt, at most one too many.
    fn count(tokens: usize) -> usize {
        let doublings = (tokens / FINE).checked_ilog2().map_or(0, |doublings| doublings as usize + 1);
        (tokens / BLOCK).min(FINE / BLOCK + doublings * FINE / BLOCK / 2)
    }
}

/// A block's hash: four products that do not wait for each other.
fn digest(block: &[u32; BLOCK]) -> u64 {
    let word = |at: usize| u64::from(block[at]) | u64::from(block[at + 1]) << 32;
    (0..4).fold(0, |digest, lane| {
        let at = 4 * lane;
        digest ^ fold(word(at) ^ SECRETS[lane], word(at + 2) ^ SECRETS[(lane + 1) % 4])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beginnings_end_where_blocks_do_and_lie_further_apart_further_in() {
        assert_eq!([0, 1, 62, 63].map(Chain::end), [16, 32, 1008, 1024]);
        assert_eq!([64, 65, 95, 96, 127, 128].map(Chain::end), [1056, 1088, 2048, 2112, 4096, 4224]);
        let tokens = vec![7; 32_768];
        for length in [0, 1, 15, 16, 17, 1023, 1024, 1055, 1056, 2047, 2048, 5000, 32_768] {
            let chain = Chain::new(0, &tokens[..length]);
            let expected = (0..).take_while(|at| Chain::end(*at) <= length).count();
            assert_eq!(chain.hashes().len(), expected, "{length}");
            assert!(Chain::count(length) >= expected, "{length}");
        }
        assert_eq!(Chain::new(0, &tokens).hashes().len(), 224);
    }

    #[test]
    fn a_hash_stands_for_all_tokens_before_its_end() {
        let tokens: Vec<u32> = (0..5000).collect();
        let (whole, begun) = (Chain::new(1, &tokens), Chain::new(1, &tokens[..2100]));
        assert_eq!(begun.hashes(), &whole.hashes()[..begun.hashes().len()]);
        for changed in [0, 15, 16, 700, 1500, 2099] {
            let mut other = tokens.clone();
            other[changed] += 1;
            let other = Chain::new(1, &other);
            let shared = whole.hashes().iter().zip(other.hashes()).take_while(|(a, b)| a == b).count();
            let same = whole.hashes().iter().zip(other.hashes()).filter(|(a, b)| a == b).count();
            assert_eq!(shared, same, "nothing is shared behind a difference");
            assert!(Chain::covered(shared) <= changed && Chain::end(shared) > changed, "{changed}: {shared}");
        }
        assert_ne!(Chain::new(1, &tokens).hashes()[0], Chain::new(2, &tokens).hashes()[0], "the salt counts");
    }

    #[test]
    fn tokens_that_change_places_change_the_hash() {
        let tokens: Vec<u32> = (0..16).collect();
        for (a, b) in [(0, 1), (0, 2), (1, 3), (0, 4), (3, 12)] {
            let mut other = tokens.clone();
            other.swap(a, b);
            assert_ne!(Chain::new(0, &tokens), Chain::new(0, &other), "{a} {b}");
        }
    }
}
