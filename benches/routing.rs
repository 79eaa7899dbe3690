//! What it costs to choose an engine for a prompt, its hashes and what is remembered of it included.

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};

use couplet::engine::policy::{Candidate, Chooser, Policy, prefix};

const ENGINES: [&str; 4] =
    ["http://10.0.0.1:8000", "http://10.0.0.2:8000", "http://10.0.0.3:8000", "http://10.0.0.4:8000"];

/// Prompts of a chat each, that share a system prompt of a thousand tokens.
fn prompts(tokens: u32) -> Vec<Vec<u32>> {
    let token =
        |chat: u32, at: u32| if at < 1000 { at } else { at.wrapping_mul(2_654_435_761).rotate_left(chat) % 150_000 };
    (0..64).map(|chat| (0..tokens).map(|at| token(chat, at)).collect()).collect()
}

fn choose(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("choose");
    let candidates = ENGINES.map(|id| Candidate::new(id, 1.0, 10_000));
    for (name, policy) in
        [("prefix", Policy::Prefix), ("power_of_two", Policy::PowerOfTwo), ("session", Policy::Session)]
    {
        for tokens in [1_000, 32_000, 128_000] {
            let (prompts, chooser) = (prompts(tokens), Chooser::new(policy, prefix::Options::default()));
            let mut turn = prompts.iter().cycle();
            group.throughput(Throughput::Elements(tokens.into()));
            group.bench_function(format!("{name}/{tokens}"), |bencher| {
                let next = || turn.next().map_or(&[][..], Vec::as_slice);
                bencher.iter_batched(
                    next,
                    |prompt| {
                        let asked = chooser.ask(0, prompt, Some("a session"));
                        chooser.choose(&asked, &candidates)
                    },
                    BatchSize::SmallInput,
                );
            });
        }
    }
    group.finish();
}

criterion_group!(benches, choose);
criterion_main!(benches);
