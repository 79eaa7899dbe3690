//! `auto`: the parsers that a model's files suggest.

use std::process::Command;

use couplet::parsers::Vocabulary;
use couplet::parsers::auto::{Facts, reasoning, tools};

/// The parsers for a model with these words in its template and these tokens.
fn chosen(model_type: &str, template: &str, tokens: &[&str]) -> [Option<&'static str>; 2] {
    let ids = tokens.iter().zip(0..).map(|(token, id)| ((*token).to_owned(), id)).collect();
    let vocabulary = Vocabulary { ids, ..Vocabulary::default() };
    let facts = Facts { model_type, template, vocabulary: &vocabulary };
    [tools(facts), reasoning(facts)].map(|choice| choice.map(|choice| choice.name))
}

#[test]
fn marks_decide_and_special_ones_before_common_ones() {
    let think = "{% if enable_thinking %}<think>{% endif %}";
    assert_eq!(chosen("qwen3", &format!("<tool_call>{think}"), &[]), [Some("hermes"), Some("qwen3")]);
    assert_eq!(chosen("qwen2", "{% for tool in tools %}<tool_call>", &[]), [Some("hermes"), None]);
    let coder = "<tool_call>\n<function=name>\n<parameter=key>";
    assert_eq!(chosen("qwen3_next", coder, &["<tool_call>"]), [Some("qwen3_coder"), None]);
    assert_eq!(
        chosen("seed_oss", "<seed:tool_call><function=", &["<seed:think>"]),
        [Some("seed_oss"), Some("seed_oss")]
    );
}

#[test]
fn a_template_wins_over_a_vocabulary_that_came_from_another_family() {
    let llama = "<|start_header_id|>";
    assert_eq!(chosen("llama", llama, &["<|python_tag|>"]), [Some("llama3_json"), None]);
    assert_eq!(chosen("llama", "<|im_start|><tool_call>", &["<|python_tag|>"]), [Some("hermes"), None]);
    assert_eq!(chosen("llama", "<|im_start|>", &["<|python_tag|>"]), [None, None]);
    assert_eq!(chosen("mistral", "[TOOL_CALLS]", &["[THINK]"]), [Some("mistral"), None]);
    assert_eq!(chosen("mistral", "[TOOL_CALLS][THINK]", &[]), [Some("mistral"), Some("mistral")]);
    assert_eq!(chosen("nemotron_h", "<TOOLCALL>", &["[TOOL_CALLS]"]), [None, None]);
}

#[test]
fn nothing_is_chosen_for_a_model_that_knows_no_marks() {
    assert_eq!(chosen("llama", "{{ messages }}", &["<s>", "</s>"]), [None, None]);
}

#[test]
fn the_command_tells_the_choice_and_its_reason() {
    let run = |args: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_couplet")).arg("parsers").args(args).output();
        String::from_utf8_lossy(&output.map(|output| output.stdout).unwrap_or_default()).into_owned()
    };
    let told = run(&["--model", concat!(env!("CARGO_MANIFEST_DIR"), "/models/tiny")]);
    assert!(told.contains("--tool-call-parser hermes") && told.contains("--reasoning-parser qwen3"), "{told}");
    assert!(run(&[]).lines().any(|line| line.starts_with("qwen3_coder") && line.contains("qwen3_xml")));
}
