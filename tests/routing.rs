//! What the policy `prefix` is worth: the same trace of chats in front of engines with a model of vLLM's prefix cache, routed
//! by `prefix`, in turns, and to a single engine that has all of the caches' room, which is the best that can be.

#![expect(clippy::unwrap_used, reason = "a test that panics has reported")]

use std::collections::{BTreeMap, BTreeSet, HashMap};

use couplet::engine::policy::{Candidate, Chooser, Policy, prefix};

const ENGINES: [&str; 4] = ["http://a:8000", "http://b:8000", "http://c:8000", "http://d:8000"];
/// Tokens of a cache block, as in vLLM.
const BLOCK: usize = 16;
/// What one engine's cache holds: a quarter of what the chats that are open at one time need, and some room.
const CACHE_TOKENS: usize = 400_000;
/// Turns that one engine computes at once; a turn ends after as many others began.
const IN_FLIGHT: usize = 32;

/// A small generator of numbers (xorshift64*), so that the trace is the same every time.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11
    }

    fn between(&mut self, least: usize, most: usize) -> usize {
        least + self.next() as usize % (most - least + 1)
    }

    fn tokens(&mut self, count: usize) -> Vec<u32> {
        (0..count).map(|_| self.next() as u32 % 150_000).collect()
    }
}

/// The prompts of all turns, in the order in which they come. Chats begin with one of a few system prompts, the first of
/// which half of them have; each turn's prompt is all that was said, and something new.
fn trace(chats: usize) -> Vec<Vec<u32>> {
    let mut random = Random(7);
    let systems: Vec<Vec<u32>> = [2500, 800, 4000, 300].into_iter().map(|length| random.tokens(length)).collect();
    let mut open: Vec<(usize, Vec<u32>)> = Vec::new();
    let (mut begun, mut prompts) = (0, Vec::new());
    while begun < chats || !open.is_empty() {
        // Up to 120 chats are open at one time.
        if begun < chats && open.len() < 120 {
            let system = if random.between(0, 1) == 0 { 0 } else { random.between(0, systems.len() - 1) };
            open.push((random.between(1, 12), systems[system].clone()));
            begun += 1;
        }
        let at = random.between(0, open.len() - 1);
        let said = random.between(20, 600);
        let said = random.tokens(said);
        let (turns, prompt) = &mut open[at];
        prompt.extend(said);
        prompts.push(prompt.clone());
        *turns -= 1;
        let reply = random.between(50, 800);
        open[at].1.extend(random.tokens(reply));
        if open[at].0 == 0 {
            open.swap_remove(at);
        }
    }
    prompts
}

/// vLLM's prefix cache: whole blocks, told by all tokens before their end, the least lately used go first, and of one prompt
/// the last block first.
struct Cache {
    blocks: usize,
    used: HashMap<u128, u64>,
    order: BTreeMap<u64, u128>,
    clock: u64,
}

impl Cache {
    fn new(tokens: usize) -> Self {
        Self { blocks: tokens / BLOCK, used: HashMap::new(), order: BTreeMap::new(), clock: 1 << 32 }
    }

    /// Serves a prompt; returns how many of its tokens were there.
    fn serve(&mut self, prompt: &[u32]) -> usize {
        let mut hash = 1_u128;
        let hashes: Vec<u128> = prompt
            .chunks_exact(BLOCK)
            .map(|block| {
                for token in block {
                    hash = (hash ^ u128::from(*token))
                        .wrapping_mul(0xda94_2042_e4dd_58b5_2545_f491_4f6c_dd1d)
                        .rotate_left(41);
                }
                hash
            })
            .collect();
        let hits = hashes.iter().take_while(|hash| self.used.contains_key(hash)).count();
        self.clock += hashes.len() as u64;
        for (depth, hash) in hashes.iter().enumerate() {
            let used = self.clock - depth as u64;
            if let Some(before) = self.used.insert(*hash, used) {
                self.order.remove(&before);
            }
            self.order.insert(used, *hash);
        }
        while self.used.len() > self.blocks {
            let (_, oldest) = self.order.pop_first().unwrap();
            self.used.remove(&oldest);
        }
        hits * BLOCK
    }
}

/// How a trace went.
#[derive(Debug)]
struct Outcome {
    hit_rate: f64,
    /// The most tokens that an engine got, compared with the mean: all of them, and those that it had to compute.
    imbalance: f64,
    computed_imbalance: f64,
}

/// Runs a trace; each couplet of several routes the requests that come to it, and knows nothing of the others.
fn run(
    prompts: &[Vec<u32>],
    policy: Policy,
    engines: &[&'static str],
    cache_tokens: usize,
    couplets: usize,
) -> Outcome {
    let options = prefix::Options { cache_tokens: cache_tokens as u64, ..prefix::Options::default() };
    let choosers: Vec<Chooser> = (0..couplets).map(|_| Chooser::new(policy, options)).collect();
    let mut caches: BTreeMap<&str, Cache> = engines.iter().map(|id| (*id, Cache::new(cache_tokens))).collect();
    let mut tokens: BTreeMap<&str, (u64, u64)> = engines.iter().map(|id| (*id, (0, 0))).collect();
    let mut in_flight: Vec<(usize, &str, u64)> = Vec::new();
    let (mut hits, mut all) = (0, 0);
    for (at, prompt) in prompts.iter().enumerate() {
        let couplet = at % couplets;
        let load = |id: &str| {
            in_flight.iter().filter(|(of, engine, _)| *of == couplet && *engine == id).map(|(.., load)| load).sum()
        };
        let candidates: Vec<Candidate> = engines.iter().map(|id| Candidate::new(id, 1.0, load(id))).collect();
        let chooser = &choosers[couplet];
        let id = chooser.choose(&chooser.ask(0, prompt, None), &candidates).unwrap().id;
        let hit = caches.get_mut(id).unwrap().serve(prompt);
        let of_engine = tokens.get_mut(id).unwrap();
        *of_engine = (of_engine.0 + prompt.len() as u64, of_engine.1 + (prompt.len() - hit) as u64);
        (hits, all) = (hits + hit, all + prompt.len());
        in_flight.push((couplet, id, prompt.len() as u64));
        if in_flight.len() > IN_FLIGHT * engines.len() {
            in_flight.remove(0);
        }
    }
    let imbalance = |counts: Vec<u64>| {
        *counts.iter().max().unwrap() as f64 * counts.len() as f64 / counts.iter().sum::<u64>() as f64
    };
    Outcome {
        hit_rate: hits as f64 / all as f64,
        imbalance: imbalance(tokens.values().map(|(all, _)| *all).collect()),
        computed_imbalance: imbalance(tokens.values().map(|(_, computed)| *computed).collect()),
    }
}

#[test]
fn prefixes_are_found_where_they_lie_and_the_load_is_spread() {
    let prompts = trace(1500);
    let best = run(&prompts, Policy::Prefix, &ENGINES[..1], ENGINES.len() * CACHE_TOKENS, 1);
    let in_turns = run(&prompts, Policy::RoundRobin, &ENGINES, CACHE_TOKENS, 1);
    let prefix = run(&prompts, Policy::Prefix, &ENGINES, CACHE_TOKENS, 1);
    // Three couplets that do not talk see a third of the requests each.
    let three = run(&prompts, Policy::Prefix, &ENGINES, CACHE_TOKENS, 3);
    println!("{} prompts\nbest possible {best:?}\nround_robin {in_turns:?}\nprefix {prefix:?}", prompts.len());
    println!("prefix in three couplets {three:?}");
    assert!(prefix.hit_rate >= 0.95 * best.hit_rate, "{prefix:?} of {best:?}");
    assert!(prefix.imbalance <= 1.2, "{prefix:?}");
    assert!(prefix.computed_imbalance <= 1.2, "{prefix:?}");
    assert!(three.hit_rate >= 0.9 * best.hit_rate && three.imbalance <= 1.2, "{three:?} of {best:?}");
    assert!(in_turns.hit_rate < 0.8 * prefix.hit_rate, "a trace on which routing is of no account: {in_turns:?}");
}

#[test]
fn the_trace_has_the_prefixes_that_it_should_have() {
    let prompts = trace(50);
    let beginnings: BTreeSet<&[u32]> = prompts.iter().map(|prompt| &prompt[..300]).collect();
    assert_eq!(beginnings.len(), 4);
    // Whoever remembers everything has all but what is new, up to a block.
    let mut everything = Cache::new(1 << 30);
    let mut longest: HashMap<Vec<u32>, usize> = HashMap::new();
    for prompt in &prompts {
        let hit = everything.serve(prompt);
        assert_eq!(hit % BLOCK, 0);
        assert!(hit < prompt.len());
        *longest.entry(prompt[..300].to_vec()).or_default() += hit;
    }
    assert!(longest.values().all(|hit| *hit > 0));
}
