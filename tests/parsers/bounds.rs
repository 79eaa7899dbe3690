//! What waits is bounded: text that is too long to wait is said, not lost.

use couplet::parsers::{Events, Token};
use serde_json::{Value, json};

use crate::fixture;

/// More than anything may wait.
const LONG: usize = 1_100_000;

#[test]
fn what_is_too_long_to_wait_is_said() {
    for (dialect, before, after) in [
        ("functiongemma", "<start_function_call>call:ping{city:<escape>", "<escape>}<end_function_call>"),
        ("gemma4", "<|tool_call>call:ping{tags:<|\"|>", "<|\"|>}<tool_call|>"),
        ("gemma4", "<|tool_call>call:ping{n:{a:<|\"|>", "<|\"|>}}<tool_call|>"),
        ("granite", "<tool_call>[{\"name\": \"ping\", \"arguments\": {\"n\": {\"a\": \"", "\"}}}]"),
        ("apertus", "<|tools_prefix|>[{\"ping\": {\"", "\": 1}}]<|tools_suffix|>"),
        ("granite4", "<tool_call>{\"name\": \"ping\", \"arguments\": {\"city\": \"", "\"}}</tool_call>"),
        ("dots", "<dots_function_call>\n<invoke name=\"ping\">", "</invoke></dots_function_call>"),
        ("minicpm5", "<function name=\"launch\"><param name=\"city\">", "</param></function>"),
        ("minicpm5", "<function name=\"ping\"><param name=\"n\">", "</param></function>"),
    ] {
        assert_eq!(said(dialect, before, after).matches('#').count(), LONG, "{dialect} {before}");
    }
}

/// Everything that a stream of a long text says.
fn said(dialect: &str, before: &str, after: &str) -> String {
    let fixtures = fixture::all();
    let fixture = fixtures.iter().find(|fixture| fixture.path.ends_with(format!("{dialect}.json"))).unwrap();
    let plan = fixture.plan(&json!({}));
    let (mut state, mut events, mut said) = (plan.start(), Events::default(), String::new());
    let filler = "#".repeat(LONG / 11);
    let mut read = |text: &Value, last: bool| {
        events.clear();
        let pieces = fixture.divide(text);
        let tokens: Vec<_> = pieces.iter().map(|piece| Token { id: Some(piece.id()), text: piece.text() }).collect();
        plan.step(&mut state, &tokens, &mut events);
        if last {
            plan.finish(&mut state, &mut events);
        }
        said += events.content().unwrap_or_default();
        events.calls().for_each(|call| said += call.arguments.unwrap_or_default());
    };
    read(&json!(before), false);
    (0..11).for_each(|_| read(&json!(filler), false));
    read(&json!(after), true);
    said
}
