//! A body that a list was cut out of says the same as the whole.

use couplet::api::cut::CutBody;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

const KEYS: [&str; 3] = ["prompt_token_ids", "chat_request", "b.c"];
const KEY: &str = KEYS[0];

/// What the cut body and the values say together, and how many values were cut.
fn read(body: &str) -> (Option<Value>, usize) {
    let cut = CutBody::new(body.as_bytes(), KEYS);
    let cuts = cut.values().iter().flatten().count();
    let mut whole = cut.parse::<Value>().ok();
    for (key, text) in KEYS.iter().zip(cut.values()) {
        let Some(text) = text else { continue };
        whole = match (whole, serde_json::from_slice::<Value>(text)) {
            (Some(mut whole), Ok(value)) => {
                // Of a key that comes twice the last counts.
                if let Some(place) = whole.pointer_mut(&pointer(key)).filter(|place| is_placeholder(place)) {
                    *place = value;
                }
                Some(whole)
            }
            _ => None,
        };
    }
    (whole, cuts)
}

fn pointer(key: &str) -> String {
    format!("/{}", key.replace('.', "/"))
}

/// What stands where something was taken out.
fn is_placeholder(value: &Value) -> bool {
    value.is_null() || value.as_array().is_some_and(Vec::is_empty)
}

fn assert_same(body: &str, cuts: usize) {
    let whole = serde_json::from_str::<Value>(body).ok();
    assert_eq!(read(body), (whole, cuts), "{body}");
}

#[test]
fn the_outermost_list_of_numbers_is_cut() {
    assert_same(r#"{"prompt_token_ids": [1, 2, 3]}"#, 1);
    assert_same(
        "{ \"a\" :\n\"x\\\"\\\\\" ,\t\"prompt_token_ids\"\r\n: [ 1 ,\n2 ] , \"b\": {\"c\": [1, [2], \"]\"]} }",
        1,
    );
    assert_same(r#"{"a": {"prompt_token_ids": [9]}, "prompt_token_ids": []}"#, 1);
    assert_same(r#"{"a": "\"prompt_token_ids\": [9]", "b": [[1], {"x": -1.5e3}], "prompt_token_ids": [-1]}"#, 1);
}

#[test]
fn objects_are_cut_beside_it() {
    assert_same(r#"{"chat_request": {"a": [1, "}"], "prompt_token_ids": [2]}, "prompt_token_ids": [1]}"#, 2);
    assert_same(r#"{"prompt_token_ids": [1], "x": 1, "chat_request": {}}"#, 2);
    assert_same(r#"{"chat_request": "x", "prompt_token_ids": [[1]]}"#, 0);
}

#[test]
fn what_is_in_an_object_is_cut_too() {
    assert_same(r#"{"b": {"a": {"c": [3]}, "c": [1, 2] , "d": 1}, "prompt_token_ids": [1]}"#, 2);
    assert_same(r#"{"c": [1], "b": {"c": {"x": [1]}}, "a": {"c": [1]}}"#, 1);
    assert_same(r#"{"b": {}, "a": {"b": {"c": [1]}}}"#, 0);
    assert_same(r#"{"b": [{"c": [1]}], "b.c": [1]}"#, 0);
    assert_same(r#"{"b": {"c": [1]"#, 1);
}

#[test]
fn anything_else_is_left_to_serde() {
    for body in [
        r#"{"a": [1, 2, 3]}"#,
        r#"{"prompt_token_ids": [[1], [2]]}"#,
        r#"{"prompt_token_ids": ["1"]}"#,
        r#"{"prompt_token_ids": 1.5}"#,
        r#"{"a": {"prompt_token_ids": [1]}}"#,
        r#"{"prompt_token_ids": null, "a": 1}"#,
        r#"{"prompt_token_ids": [1"#,
        r#"["prompt_token_ids", [1]]"#,
        r#"{"a": "\"#,
        "{",
        "",
    ] {
        assert_same(body, 0);
    }
}

#[test]
fn a_broken_body_stays_broken() {
    for body in [
        r#"{"prompt_token_ids": [1, 2"#,
        r#"{"prompt_token_ids": [1]"#,
        r#"{"prompt_token_ids": [1], x}"#,
        r#"{"a": ]], "prompt_token_ids": [1]}"#,
    ] {
        assert!(CutBody::new(body.as_bytes(), KEYS).parse::<Value>().is_err(), "{body}");
    }
    assert_eq!(read(r#"{"prompt_token_ids": [1 2]}"#).0, None);
    assert_eq!(read(r#"{"prompt_token_ids": [1,,2]}"#).0, None);
}

fn key() -> impl Strategy<Value = String> {
    let names = proptest::sample::select(vec!["b", "c", KEY, KEYS[1]]);
    prop_oneof![names.prop_map(str::to_owned), "[a-c\"\\\\\\[\\]{}:, ]{0,3}"]
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<i32>().prop_map(Value::from),
        "[a-c\"\\\\\\[\\]{}:, ]{0,6}".prop_map(Value::from),
        proptest::collection::vec(0_u32..200_000, 0..100).prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::vec((key(), inner), 0..4)
                .prop_map(|fields| Value::Object(fields.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

proptest! {
    #[test]
    fn a_cut_body_says_what_the_whole_says(value in value(), pretty: bool) {
        let body = if pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) }.unwrap();
        let flat = |list: &Value| list.as_array().is_some_and(|list| list.iter().all(Value::is_i64));
        let is_cut = |key: &&&str| value.pointer(&pointer(key)).is_some_and(|value| value.is_object() || flat(value));
        assert_same(&body, KEYS.iter().filter(is_cut).count());
    }

    #[test]
    fn no_bytes_are_too_strange(body in proptest::collection::vec(any::<u8>(), 0..64)) {
        let body = [b"{\"a\":[".as_slice(), &body].concat();
        let opens = |text: &[u8]| matches!(text.first(), Some(b'[' | b'{'));
        prop_assert!(CutBody::new(&body, KEYS).values().into_iter().flatten().all(opens));
    }

    #[test]
    fn broken_json_is_told_from_whole(at in 0_usize..200, with in "[\\[\\]{}\",:0-9a-c\\\\]") {
        let mut body = json!({"a": {"b": [1, 2, {"c": "\\"}]}, KEY: [1, 2, 3], "d": ["x", [4]]}).to_string();
        let at = at % body.len();
        body.replace_range(at..=at, &with);
        let whole = serde_json::from_str::<Value>(&body).ok();
        // A list that is broken itself is found by whoever reads it.
        prop_assert_eq!(read(&body).0, whole, "{}", body);
    }
}
