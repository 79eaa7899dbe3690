//! `couplet demo --once`, as a reader of the README runs it.

use std::process::Command;

#[test]
fn the_demo_shows_reasoning_and_a_tool_call_and_ends() {
    let output = Command::new(env!("CARGO_BIN_EXE_couplet")).args(["demo", "--once"]).output().unwrap();
    let shown = String::from_utf8(output.stdout).unwrap();
    let complaints = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{complaints}");
    assert_eq!(complaints, "", "a demo that logs warnings");
    for expected in [
        "2607 \"<think>\"",
        "reasoning      \"\\nThe user wants the forecast, so a single tool call is enough.\\n\"",
        "tool call      get_weather({\"city\": \"Paris\"})",
        "finish_reason  tool_calls",
    ] {
        assert!(shown.contains(expected), "{expected} is missing in\n{shown}");
    }
    let said = shown.split_once("content        ").unwrap().1.lines().next().unwrap();
    assert!(said.contains("I will look that up for you.") && !said.contains("<tool_call>"), "{said}");
}
