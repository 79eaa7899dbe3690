//! Grammars: what each kind lets come, on the tiny model's vocabulary and on a real tokenizer's shape.

#![expect(clippy::unwrap_used, reason = "a test that panics has reported")]

use couplet::grammar::{Grammars, Matcher};
use couplet::model::{LoadOptions, Model};
use serde_json::{Value, json};

fn model() -> Model {
    Model::load(LoadOptions::new("models/tiny")).unwrap()
}

/// How far a text is taken, token by token, in characters; and whether it may end there.
fn taken(model: &Model, matcher: &mut Matcher, text: &str) -> (usize, bool) {
    let ids = model.encoder().encode(text, false).unwrap();
    let mut read = Vec::new();
    for id in ids {
        if !matcher.accept(id).unwrap() {
            break;
        }
        read.push(id);
    }
    (model.vocabulary().decode_ids(&read).chars().count(), matcher.may_end().unwrap())
}

/// Whole texts that a grammar takes, and texts that it does not.
fn assert_takes(grammar: &Value, whole: &[&str], refused: &[&str]) {
    let model = model();
    let matcher = Grammars::new(&model).unwrap().matcher(grammar).unwrap();
    for text in whole {
        let all = text.chars().count();
        assert_eq!(taken(&model, &mut matcher.clone(), text), (all, true), "{text:?} by {grammar}");
    }
    for text in refused {
        let got = taken(&model, &mut matcher.clone(), text);
        assert!(got != (text.chars().count(), true), "{text:?} by {grammar}");
    }
}

#[test]
fn schemas() {
    let schema = json!({
        "type": "object", "properties": {"a": {"type": "integer"}, "b": {"enum": ["x", "y"]}},
        "required": ["a"], "additionalProperties": false,
    });
    let whole = ["{\"a\": 1}", "{\"a\":12,\"b\":\"x\"}", "{ \"a\": -3 }"];
    assert_takes(&json!({"json": schema}), &whole, &["{}", "{\"a\": 1.5}", "{\"a\": 1, \"b\": \"z\"}", "x", "[1]"]);
    assert_takes(&json!({"json": schema.to_string()}), &whole, &["{}"]);
    assert_takes(&json!({"json_object": true}), &["{}", "{\"q\": [1, null]}"], &["[]", "1"]);
}

#[test]
fn expressions_and_choices() {
    assert_takes(&json!({"regex": "[a-z]+[0-9]{2}"}), &["ab12"], &["ab1", "12", "ab123"]);
    assert_takes(&json!({"regex": "a/b"}), &["a/b"], &["ab"]);
    assert_takes(&json!({"choice": ["yes", "no"]}), &["yes", "no"], &["y", "maybe", "yes "]);
}

#[test]
fn grammars_of_both_kinds() {
    let lark = "start: \"a\" NUMBER\nNUMBER: /[0-9]+/";
    assert_takes(&json!({"grammar": lark}), &["a1", "a23"], &["a", "b1"]);
    let gbnf = "root ::= \"say \" Who-ever # a comment\nWho-ever ::= [A-Z] [a-z]* | \"me\"{2}";
    assert_takes(&json!({"grammar": gbnf}), &["say Joe", "say X", "say meme"], &["say joe", "say me"]);
}

fn tag(format: Value) -> Value {
    json!({"structural_tag": json!({"type": "structural_tag", "format": format}).to_string()})
}

fn call(name: &str, schema: Value) -> Value {
    let content = json!({"type": "json_schema", "json_schema": schema, "style": "json"});
    json!({"type": "tag", "begin": format!("<call>{{\"name\": \"{name}\", \"arguments\": "), "content": content,
        "end": "}</call>"})
}

#[test]
fn tags_that_must_come() {
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
    let list = |stop: bool| {
        tag(json!({"type": "tags_with_separator", "tags": [call("f", schema.clone()), call("g", json!(true))],
            "separator": "", "at_least_one": true, "stop_after_first": stop}))
    };
    let (one, two) = (
        "<call>{\"name\": \"f\", \"arguments\": {\"n\": 1}}</call>",
        "<call>{\"name\": \"f\", \"arguments\": {\"n\": 1}}</call><call>{\"name\": \"g\", \"arguments\": {}}</call>",
    );
    assert_takes(&list(false), &[one, two], &["", "text", "<call>{\"name\": \"h\""]);
    assert_takes(&list(true), &[one], &[two]);
}

#[test]
fn tags_in_text() {
    let format = json!({"type": "triggered_tags", "triggers": ["<call>"], "tags": [call("f", json!(true))],
        "at_least_one": false, "stop_after_first": false, "excludes": ["<think>"]});
    let one = "<call>{\"name\": \"f\", \"arguments\": {\"n\": [1]}}</call>";
    let whole = ["", "just text < and <cal", &format!("a {one} b {one}"), &format!("{one}{one}")];
    assert_takes(&tag(format), &whole, &["<call>{\"name\": \"g\"", "a <think> b", "<call>"]);
}

#[test]
fn parameters_in_tags() {
    let schema = json!({"type": "object", "properties": {
        "city": {"type": "string"}, "days": {"type": "integer"}, "unit": {"enum": ["c", "f"]}}, "required": ["city"]});
    let format = json!({"type": "tag", "begin": "<function=f>\n", "end": "\n</function>",
        "content": {"type": "json_schema", "json_schema": schema, "style": "qwen_xml"}});
    let parameter = |name: &str, value: &str| format!("<parameter={name}>\n{value}\n</parameter>\n");
    let call = |parameters: &str| format!("<function=f>\n{parameters}\n</function>");
    let city = parameter("city", "Paris < \"x\"");
    let whole = [call(&city), call(&format!("{city}{}{}", parameter("days", "3"), parameter("unit", "c")))];
    let refused = [
        call(""),
        call(&parameter("days", "3")),
        call(&format!("{city}{}", parameter("days", "x"))),
        call(&format!("{city}{}", parameter("unit", "k"))),
    ];
    let texts = |list: &'static [String]| list.iter().map(String::as_str).collect::<Vec<_>>();
    assert_takes(&tag(format), &texts(whole.to_vec().leak()), &texts(refused.to_vec().leak()));
}

#[test]
fn text_that_must_come_is_known() {
    let model = model();
    let schema = json!({"type": "object", "properties": {"name": {"type": "integer"}}, "required": ["name"],
        "additionalProperties": false});
    let grammars = Grammars::new(&model).unwrap();
    let mut matcher = grammars.matcher(&json!({"json": schema, "disable_any_whitespace": true})).unwrap();
    assert_eq!(matcher.forced(), "{\"name\":");
    assert!(!matcher.may_end().unwrap());
    let (_, ended) = taken(&model, &mut matcher, "{\"name\":7}");
    assert!(ended && matcher.must_end());
    assert_eq!(matcher.allowed().unwrap(), model.eos_token_ids());
}

#[test]
fn what_is_wrong_is_said() {
    let grammars = Grammars::new(&model()).unwrap();
    for (grammar, said) in [
        (json!({"json": {"type": "nonsense"}}), "nonsense"),
        (json!({"json": "{"}), "not JSON"),
        (json!({"regex": "(a"}), "regex"),
        (json!({"grammar": "root ::= \"a"}), "ends what begins"),
        (json!({"structural_tag": "{\"format\": {\"type\": \"x\"}}"}), "no format \"x\""),
        (json!({}), "sets none"),
    ] {
        let error = grammars.matcher(&grammar).err().map(|error| error.to_string()).unwrap_or_default();
        assert!(error.contains(said), "{grammar}: {error:?}");
    }
}
