//! What holds for every dialect and every output, well-formed or not.

use couplet::parsers::{Events, Message, Plan, State, Token};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::{Value, json};

use crate::fixture::{self, Fixture, Piece};

/// What a client has once it has put a stream together.
#[derive(Debug, Default, Clone, PartialEq)]
struct Merged {
    reasoning: String,
    content: String,
    calls: Vec<(String, String)>,
}

impl Merged {
    fn add(&mut self, events: &Events) {
        self.reasoning += events.reasoning().unwrap_or_default();
        self.content += events.content().unwrap_or_default();
        for call in events.calls() {
            if let Some((_, name)) = call.head {
                assert_eq!(self.calls.len(), call.index, "calls begin in order");
                self.calls.push((name.to_owned(), String::new()));
            }
            self.calls[call.index].1 += call.arguments.unwrap_or_default();
        }
    }

    fn of(message: &Message) -> Self {
        let calls = message.tool_calls.iter().map(|call| (call.name.clone(), call.arguments.clone())).collect();
        Self {
            reasoning: message.reasoning.clone().unwrap_or_default(),
            content: message.content.clone().unwrap_or_default(),
            calls,
        }
    }

    /// As a reader sees it: no white space at edges, arguments as values.
    fn essence(&self) -> Value {
        let parsed = |text: &str| serde_json::from_str(text).unwrap_or_else(|_| json!(text));
        let calls: Vec<_> = self.calls.iter().map(|(name, text)| json!([name, parsed(text)])).collect();
        json!([self.reasoning.trim(), self.content.trim(), calls])
    }

    fn text(&self) -> String {
        let calls = self.calls.iter().map(|(name, text)| format!("{name} {} ", text.replace("\\n", " ")));
        format!("{} {} {}", self.reasoning, self.content, calls.collect::<String>())
    }
}

/// Text divided further at these places.
fn split(pieces: &[Piece], cuts: &[Index]) -> Vec<Piece> {
    let mut out = Vec::new();
    for piece in pieces {
        let Piece::Text(text) = piece else {
            out.push(piece.clone());
            continue;
        };
        let borders: Vec<usize> = text.char_indices().map(|(at, _)| at).chain([text.len()]).collect();
        let mut at: Vec<usize> = cuts.iter().map(|cut| borders[cut.index(borders.len())]).collect();
        at.extend([0, text.len()]);
        at.sort_unstable();
        out.extend(at.windows(2).map(|pair| Piece::Text(text[pair[0]..pair[1]].to_owned())));
    }
    out
}

fn tokens(pieces: &[Piece]) -> Vec<Token<'_>> {
    pieces.iter().map(|piece| Token { id: Some(piece.id()), text: piece.text() }).collect()
}

/// Reads chunk by chunk; `store` may replace the state between chunks.
fn stream(
    plan: &Plan,
    tokens: &[Token<'_>],
    borders: &[usize],
    store: impl Fn(State) -> State,
) -> (Merged, Vec<Merged>) {
    let (mut state, mut events) = (plan.start(), Events::default());
    let (mut all, mut chunks) = (Merged::default(), Vec::new());
    for (i, pair) in borders.windows(2).enumerate() {
        events.clear();
        plan.step(&mut state, &tokens[pair[0]..pair[1]], &mut events);
        if i + 2 == borders.len() {
            plan.finish(&mut state, &mut events);
        }
        all.add(&events);
        let chunk = Merged {
            content: format!("{:?}", events.content()),
            reasoning: format!("{:?}", events.reasoning()),
            calls: Vec::new(),
        };
        chunks.push(chunk);
        state = store(state);
    }
    (all, chunks)
}

fn borders(len: usize, cuts: &[Index]) -> Vec<usize> {
    let mut borders: Vec<usize> = cuts.iter().map(|cut| cut.index(len + 1)).collect();
    borders.extend([0, len]);
    borders.sort_unstable();
    borders.dedup();
    if borders.len() == 1 { vec![0, 0] } else { borders }
}

fn restored(state: State) -> State {
    let text = serde_json::to_string(&state).unwrap();
    let back: State = serde_json::from_str(&text).unwrap();
    assert_eq!(back, state, "{text}");
    back
}

/// Deletes, doubles or swaps pieces, and puts marks where they do not belong.
fn mutate(mut pieces: Vec<Piece>, edits: &[(u8, Index, Index)]) -> Vec<Piece> {
    for (kind, at, with) in edits {
        if pieces.is_empty() {
            break;
        }
        let (at, with) = (at.index(pieces.len()), with.index(pieces.len()));
        match kind {
            0 => drop(pieces.remove(at)),
            1 => pieces.insert(at, pieces[with].clone()),
            2 => pieces.swap(at, with),
            _ => pieces.truncate(at + 1),
        }
    }
    pieces
}

fn sentinels(text: &str) -> Vec<&str> {
    let is_sentinel = |word: &&str| {
        let digits = word.strip_prefix('q');
        digits.is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let mut found: Vec<_> = text.split(|c: char| !c.is_ascii_alphanumeric()).filter(is_sentinel).collect();
    found.sort_unstable();
    found
}

/// The laws that hold for any output: how it is divided does not matter, and where it is stored does not either.
fn hold(plan: &Plan, pieces: &[Piece], cuts: &[Index], chunks: &[Index], name: &str) -> (Merged, Message) {
    let (coarse, fine) = (split(pieces, &[]), split(pieces, cuts));
    let (coarse, fine) = (tokens(&coarse), tokens(&fine));
    let single: Vec<usize> = (0..=fine.len().max(1)).map(|at| at.min(fine.len())).collect();
    let (merged, _) = stream(plan, &fine, &single, |state| state);
    let borders = borders(fine.len(), chunks);
    let (chunked, live) = stream(plan, &fine, &borders, |state| state);
    assert_eq!(merged, chunked, "{name}: chunks do not matter");
    assert_eq!(merged, stream(plan, &coarse, &[0, coarse.len()], |state| state).0, "{name}: tokens do not matter");
    assert_eq!(live, stream(plan, &fine, &borders, restored).1, "{name}: a stored state reads on alike");
    let message = plan.message(&fine);
    let again = plan.message(&coarse);
    assert_eq!(Message { reasoning_tokens: 0, ..again }, Message { reasoning_tokens: 0, ..message.clone() }, "{name}");
    (merged, message)
}

fn each(check: impl Fn(&Fixture, &Value)) {
    for fixture in fixture::all() {
        for case in fixture.cases() {
            check(&fixture, case);
        }
    }
}

/// Few by default; `PROPTEST_CASES` asks for more.
fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(24)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn well_formed_outputs_say_the_same_in_streams_and_whole(cuts in vec(any::<Index>(), 0..12), chunks in vec(any::<Index>(), 0..12)) {
        each(|fixture, case| {
            let name = format!("{:?} {}", fixture.path.file_stem().unwrap(), case["name"]);
            let pieces = fixture.divide(&case["output"]);
            let (merged, message) = hold(&fixture.plan(case), &pieces, &cuts, &chunks, &name);
            if case["cut"] == json!(true) {
                return;
            }
            assert_eq!(merged.essence(), Merged::of(&message).essence(), "{name}");
            let input: String = pieces.iter().map(Piece::text).collect();
            let dropped: Vec<_> = case["drops"].as_array().into_iter().flatten().map(|word| word.as_str().unwrap()).collect();
            let mut wanted = sentinels(&input);
            wanted.retain(|word| !dropped.contains(word));
            assert_eq!(sentinels(&merged.text()), wanted, "{name}: every sentinel once");
        });
    }

    #[test]
    fn malformed_outputs_are_read_alike_however_they_are_divided(
        cuts in vec(any::<Index>(), 0..8),
        chunks in vec(any::<Index>(), 0..8),
        edits in vec((0..4_u8, any::<Index>(), any::<Index>()), 1..5),
    ) {
        each(|fixture, case| {
            let name = format!("{:?} {} {edits:?}", fixture.path.file_stem().unwrap(), case["name"]);
            let pieces = mutate(split(&fixture.divide(&case["output"]), &cuts), &edits);
            let (merged, message) = hold(&fixture.plan(case), &pieces, &cuts, &chunks, &name);
            let input: String = pieces.iter().map(Piece::text).collect();
            for said in [merged.text(), Merged::of(&message).text()] {
                let count = |text: &str| text.matches('q').count();
                let doubles = case["doubles"] == json!(true);
                assert!(doubles || count(&said) <= count(&input), "{name}: text was doubled\n{input}\n{said}");
            }
        });
    }

    #[test]
    fn a_state_of_another_dialect_does_no_harm(at in any::<Index>(), cut in any::<Index>(), junk in "\\PC{0,12}") {
        let fixtures = fixture::all();
        let from = &fixtures[at.index(fixtures.len())];
        let case = from.cases().next().unwrap();
        let pieces = from.divide(&case["output"]);
        let plan = from.plan(case);
        let mut state = plan.start();
        plan.step(&mut state, &tokens(&pieces[..cut.index(pieces.len())]), &mut Events::default());
        for fixture in &fixtures {
            for case in fixture.cases() {
                let (plan, mut state, mut events) = (fixture.plan(case), state.clone(), Events::default());
                plan.step(&mut state, &[Token { id: None, text: &junk }], &mut events);
                plan.step(&mut state, &tokens(&fixture.divide(&case["output"])), &mut events);
                plan.finish(&mut state, &mut events);
            }
        }
    }
}

/// `UPDATE=1` writes what we now make of the outputs; the difference is then for reading.
#[test]
fn whole_answers_are_as_the_fixtures_say() {
    let update = std::env::var_os("UPDATE").is_some();
    for mut fixture in fixture::all() {
        let messages: Vec<_> = fixture.cases().map(|case| answer(&fixture, case)).collect();
        let cases = fixture.json["cases"].as_array_mut().unwrap();
        for (case, message) in cases.iter_mut().zip(messages) {
            assert!(update || case["message"] == message, "{:?} {}: {message}", fixture.path, case["name"]);
            case["message"] = message;
        }
        if update {
            std::fs::write(&fixture.path, serde_json::to_string_pretty(&fixture.json).unwrap() + "\n").unwrap();
        }
    }
}

fn answer(fixture: &Fixture, case: &Value) -> Value {
    let pieces = fixture.divide(&case["output"]);
    let message = fixture.plan(case).message(&tokens(&pieces));
    let calls: Vec<_> =
        message.tool_calls.iter().map(|call| json!({"name": call.name, "arguments": call.arguments})).collect();
    json!({"reasoning": message.reasoning, "content": message.content, "tool_calls": calls})
}
