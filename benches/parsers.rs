//! What each dialect costs: the time for a whole reply, token by token; criterion's `elem/s` are tokens.
//!
//! The outputs are those of the dialects' fixtures, each sentinel of which is blown up to a long text: long reasoning, long
//! content, long values in calls. Wanted: 2 µs per token at most, and the same at every length.
//!
//! `cargo bench --bench parsers -- hermes` measures one dialect.

#![expect(clippy::unwrap_used, clippy::string_slice, reason = "a bench that panics has reported")]

#[path = "../tests/parsers/fixture.rs"]
mod fixture;
#[path = "../tests/parsers/request.rs"]
mod request;

use std::hint::black_box;
use std::time::Duration;

use couplet::parsers::{Events, Plan, Token};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use fixture::{Fixture, Piece};
use serde_json::Value;

/// Replies, in tokens.
const LENGTHS: [usize; 3] = [1_000, 10_000, 100_000];
/// One token each.
const WORDS: [&str; 8] = [" latency", " of", " the", " 42", " notes", ",", " größer", " budgets"];

/// The case that says most: reasoning, content and calls.
fn case(fixture: &Fixture) -> &Value {
    let whole = fixture.cases().filter(|case| case.get("cut").is_none());
    let calls = |case: &Value| case["message"]["tool_calls"].as_array().is_some_and(|calls| !calls.is_empty());
    let ordinary = |case: &Value| case.get("request").is_none();
    let sentinels = |case: &Value| sentinels(&case["output"].to_string()).count();
    whole.max_by_key(|case| (calls(case), ordinary(case), sentinels(case))).unwrap()
}

/// The case's output with about this many tokens.
fn output(fixture: &Fixture, case: &Value, tokens: usize) -> Vec<Piece> {
    let pieces = fixture.divide(&case["output"]);
    let sentinels = pieces.iter().map(|piece| sentinels(piece.text()).count()).sum::<usize>().max(1);
    pieces.iter().flat_map(|piece| blown_up(piece, tokens / sentinels)).collect()
}

/// Starts and ends of the words `q1`, `q2`, …
fn sentinels(text: &str) -> impl Iterator<Item = (usize, usize)> {
    text.match_indices('q').filter_map(|(at, _)| {
        let digits = text[at + 1..].bytes().take_while(u8::is_ascii_digit).count();
        let inside = text[..at].ends_with(|c: char| c.is_ascii_alphanumeric());
        (digits > 0 && !inside).then_some((at, at + 1 + digits))
    })
}

fn blown_up(piece: &Piece, words: usize) -> Vec<Piece> {
    let Piece::Text(text) = piece else { return vec![piece.clone()] };
    let (mut out, mut from) = (Vec::new(), 0);
    for (start, end) in sentinels(text) {
        divide(&text[from..start], &mut out);
        out.extend(WORDS.iter().cycle().take(words).map(|word| Piece::Text((*word).to_owned())));
        from = end;
    }
    divide(&text[from..], &mut out);
    out
}

/// Four characters are a token.
fn divide(text: &str, out: &mut Vec<Piece>) {
    let characters: Vec<char> = text.chars().collect();
    out.extend(characters.chunks(4).map(|token| Piece::Text(token.iter().collect())));
}

/// Reads a reply token by token, and returns how many characters were said, so that nothing is optimised away.
fn read(plan: &Plan, tokens: &[Token<'_>], events: &mut Events) -> usize {
    let (mut state, mut said) = (plan.start(), 0);
    for token in tokens {
        events.clear();
        plan.step(&mut state, std::slice::from_ref(token), events);
        said += events.content().map_or(0, str::len);
    }
    events.clear();
    plan.finish(&mut state, events);
    said
}

fn dialects(c: &mut Criterion) {
    for fixture in fixture::all() {
        let name = fixture.path.file_stem().unwrap().to_string_lossy().into_owned();
        let case = case(&fixture);
        let plan = fixture.plan(case);
        let mut group = c.benchmark_group(name);
        for length in LENGTHS {
            let pieces = output(&fixture, case, length);
            let tokens: Vec<_> =
                pieces.iter().map(|piece| Token { id: Some(piece.id()), text: piece.text() }).collect();
            let mut events = Events::default();
            group.throughput(Throughput::Elements(tokens.len() as u64));
            group.bench_with_input(BenchmarkId::from_parameter(length), &tokens, |b, tokens| {
                b.iter(|| read(black_box(&plan), tokens, &mut events));
            });
        }
        group.finish();
    }
}

fn short() -> Criterion {
    Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(100))
        .measurement_time(Duration::from_millis(300))
}

criterion_group! { name = benches; config = short(); targets = dialects }
criterion_main!(benches);
