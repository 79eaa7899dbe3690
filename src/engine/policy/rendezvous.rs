//! Rendezvous hashing: every key has an order of engines of its own, the same in every couplet without any talk. An engine
//! that leaves moves only its own keys, one that comes takes its share from all.

use super::Candidate;

/// Odd numbers without structure: the golden ratio, and wyhash's secrets.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
const SECRET: u64 = 0xe703_7ed1_a0b4_28db;

/// Both halves of a product, folded: every bit of the result depends on all bits of both factors.
pub(super) fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product as u64) ^ (product >> 64) as u64
}

/// Hashes bytes the same everywhere, always; the standard library's hasher may change with a release.
pub fn hash(bytes: &[u8]) -> u64 {
    let words = bytes.chunks(8).map(|chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        u64::from_le_bytes(word)
    });
    words.fold(bytes.len() as u64 ^ GOLDEN, |hash, word| fold(hash ^ word ^ SECRET, GOLDEN))
}

/// How well an engine suits a key: the highest wins. Each is first with the probability of its share.
pub(super) fn score(key: u64, candidate: &Candidate) -> f64 {
    let mixed = fold(fold(key ^ candidate.id_hash, GOLDEN) ^ key, SECRET);
    // 53 bits as a number above 0 and below 1.
    let uniform = ((mixed >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
    candidate.share / -uniform.ln()
}

/// The engine that suits a key best.
pub(super) fn first<'a>(key: u64, candidates: impl Iterator<Item = Candidate<'a>>) -> Option<Candidate<'a>> {
    let scored = candidates.map(|candidate| (score(key, &candidate), candidate));
    scored.max_by(|(a, _), (b, _)| a.total_cmp(b)).map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidates(shares: &[(&'static str, f64)]) -> Vec<Candidate<'static>> {
        shares.iter().map(|&(id, share)| Candidate::new(id, share, 0)).collect()
    }

    fn firsts(shares: &[(&'static str, f64)]) -> Vec<&'static str> {
        let candidates = candidates(shares);
        (0..4000_u64).map(|key| first(hash(&key.to_le_bytes()), candidates.iter().copied()).unwrap().id).collect()
    }

    #[test]
    fn keys_spread_by_share() {
        let firsts = firsts(&[("a", 1.0), ("b", 1.0), ("c", 2.0)]);
        let count = |id| firsts.iter().filter(|first| **first == id).count();
        assert!(
            (900..1100).contains(&count("a")) && (900..1100).contains(&count("b")),
            "{} {}",
            count("a"),
            count("b")
        );
        assert!((1900..2100).contains(&count("c")), "{}", count("c"));
    }

    #[test]
    fn only_the_keys_of_an_engine_that_left_move() {
        let (with, without) = (firsts(&[("a", 1.0), ("b", 1.0), ("c", 1.0)]), firsts(&[("c", 1.0), ("a", 1.0)]));
        assert!(with.iter().zip(&without).all(|(before, after)| before == after || *before == "b"));
    }

    #[test]
    fn the_hash_never_changes() {
        // Couplets of different releases must agree. The number was computed by other code from the definition.
        assert_eq!(hash(b"http://10.0.0.1:8000"), 15615004676379364725);
        assert_ne!(hash(b"a"), hash(b"a\0"));
    }
}
