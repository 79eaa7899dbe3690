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

/// A grammar of its own inside a tag: its rules are told from those of the tag, and of another grammar.
#[test]
fn grammars_in_tags() {
    let grammar = |text: &str| json!({"type": "grammar", "grammar": text});
    let inside =
        |begin: &str, content: Value| json!({"type": "tag", "begin": begin, "content": content, "end": "</x>"});
    let (sum, word) = ("root ::= n (\"+\" n)*\nn ::= [0-9]{1,3}", "root ::= n\nn ::= [a-z]+ | \"{\" n \"}\"");
    let both = json!({"type": "tags_with_separator", "separator": ";", "at_least_one": true,
        "tags": [inside("<sum>", grammar(sum)), inside("<word>", grammar(word))]});
    let whole = ["<sum>1+22</x>", "<word>{a}</x>;<sum>7</x>", "<word>abc</x>;<word>{{b}}</x>"];
    let refused = ["<sum>a</x>", "<sum>1+</x>", "<sum>1234</x>", "<word>1</x>", "<word>{a</x>", "<word></x>"];
    assert_takes(&tag(both), &whole, &refused);
    let either = json!({"type": "or", "elements": [grammar(sum), {"type": "sequence", "elements":
        [{"type": "const_string", "value": "say "}, {"type": "regex", "pattern": "[a-c]+"}, grammar(word)]}]});
    assert_takes(&tag(either), &["1+2", "say abx", "say c{y}"], &["say ", "say x", "1+a", "ab"]);
    // As render writes it beside calls that may come.
    let lark = tag(inside("<l>", grammar("start: \"a\" n\nn: /[0-9]{2}/")));
    assert_takes(&lark, &["<l>a12</x>"], &["<l>a1</x>", "<l>b12</x>"]);
}

#[test]
fn content_that_is_repeated() {
    let repeat = |least: i64, most: i64| {
        tag(json!({"type": "repeat", "min": least, "max": most, "content": {"type": "const_string", "value": "ab"}}))
    };
    assert_takes(&repeat(1, 2), &["ab", "abab"], &["", "ababab", "aba"]);
    assert_takes(&repeat(2, -1), &["abab", "abababab"], &["", "ab"]);
    let times = |kind: &str| tag(json!({"type": kind, "content": {"type": "const_string", "value": "ab"}}));
    assert_takes(&times("plus"), &["ab", "abab"], &["", "a"]);
    assert_takes(&times("star"), &["", "abab"], &["aba"]);
    assert_takes(&times("optional"), &["", "ab"], &["abab"]);
}

/// Tokens by their id and by their text; what looks like one and is spelled out is none.
#[test]
fn tags_that_tokens_mark() {
    let begin = json!({"type": "token", "token": "<|im_start|>"});
    let number = json!({"type": "regex", "pattern": "[0-9]+"});
    let marked = json!({"type": "tag", "begin": begin, "content": number, "end": {"type": "token", "token": 2601}});
    assert_takes(&tag(marked.clone()), &["<|im_start|>12<|im_start|>"], &["12", "<|im_start|>12", "<|im_start|>x"]);
    let triggered = json!({"type": "token_triggered_tags", "trigger_tokens": ["<|im_start|>"], "tags": [marked],
        "at_least_one": false, "stop_after_first": true});
    let whole = ["", "text", "text <|im_start|>12<|im_start|>"];
    assert_takes(&tag(triggered), &whole, &["a <|im_start|>b", "<|im_start|>1<|im_start|> b"]);
    let dispatch = json!({"type": "dispatch", "rules": [["#", number], ["say ", {"type": "const_string", "value": "hi"}]],
        "loop": true, "excludes": ["!"]});
    assert_takes(&tag(dispatch), &["", "a #12 b", "we say hi #7"], &["a #b", "say ho", "a! b"]);
    let any = |excluded: Value| {
        tag(json!({"type": "sequence", "elements": [{"type": "any_tokens", "exclude_tokens": excluded},
            {"type": "token", "token": "<|im_start|>"}]}))
    };
    assert_takes(&any(json!(["<|im_start|>"])), &["<|im_start|>", "a b<|im_start|>"], &["a", "<|im_start|>a"]);
}

/// White space between the parts of JSON: as much as a deep value is printed with, and no more.
#[test]
fn white_space_has_a_bound() {
    let schema = json!({"type": "array", "items": {"type": "integer"}});
    let grammar = json!({"json": schema});
    let deep = format!("[\n{}1,\r\n{}2\n]", " ".repeat(100), "\t".repeat(12));
    let endless = [format!("[{}1]", " ".repeat(60)), format!("[{}1]", "\n".repeat(60))];
    let endless: Vec<&str> = endless.iter().map(String::as_str).collect();
    assert_takes(&grammar, &["[1, 2]", "[ 1 ]", "[\n\n  1\n]", &deep], &endless);
    let few = tag(json!({"type": "json_schema", "json_schema": schema, "max_whitespace_cnt": 1}));
    assert_takes(&few, &["[1, 2]", "[ 1]"], &["[  1]"]);
    assert_takes(&json!({"json": schema, "whitespace_pattern": "_?"}), &["[_1]"], &["[ 1]"]);
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
        (json!({"grammar": "root ::= \"a\"{3,2}"}), "range"),
        (tag(json!({"type": "grammar", "grammar": "root ::= \"a\" } x"})), "grammar"),
        (tag(json!({"type": "any_text", "max_tokens": 3})), "max_tokens"),
        (
            tag(json!({"type": "tag", "begin": "a", "content": {"type": "any_text", "max_chars": 3}, "end": "b"})),
            "max_chars",
        ),
        (tag(json!({"type": "json_schema", "json_schema": true, "any_order": true})), "any_order"),
        (tag(json!({"type": "json_schema", "json_schema": true, "excludes": ["a"]})), "excludes"),
        (tag(json!({"type": "grammar"})), "start"),
        (tag(json!({"type": "token", "token": "<nothing>"})), "no special token"),
        (tag(json!({"type": "repeat", "min": 3, "max": 2, "content": {"type": "any_text"}})), "repeat"),
    ] {
        let error = grammars.matcher(&grammar).err().map(|error| error.to_string()).unwrap_or_default();
        assert!(error.contains(said), "{grammar}: {error:?}");
    }
}
