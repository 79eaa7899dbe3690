//! A body that a list was cut out of says the same as the whole.

use couplet::api::cut::CutBody;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

const KEY: &str = "prompt_token_ids";

/// What the cut body and its list say together, and whether there was a list to cut.
fn read(body: &str) -> (Option<Value>, bool) {
    let cut = CutBody::new(body.as_bytes(), KEY);
    let list = cut.list().map(serde_json::from_str::<Value>);
    let cuts = list.is_some();
    let rest = cut.parse::<Value>().ok();
    let whole = match list {
        None => rest,
        Some(Err(_)) => None,
        Some(Ok(list)) => rest.map(|mut rest| {
            if rest[KEY].is_null() {
                rest[KEY] = list;
            }
            rest
        }),
    };
    (whole, cuts)
}

fn assert_same(body: &str, cuts: bool) {
    let whole = serde_json::from_str::<Value>(body).ok();
    assert_eq!(read(body), (whole, cuts), "{body}");
}

#[test]
fn the_outermost_list_of_numbers_is_cut() {
    assert_same(r#"{"prompt_token_ids": [1, 2, 3]}"#, true);
    assert_same(
        "{ \"a\" :\n\"x\\\"\\\\\" ,\t\"prompt_token_ids\"\r\n: [ 1 ,\n2 ] , \"b\": {\"c\": [1, [2], \"]\"]} }",
        true,
    );
    assert_same(r#"{"a": {"prompt_token_ids": [9]}, "prompt_token_ids": []}"#, true);
    assert_same(r#"{"a": "\"prompt_token_ids\": [9]", "b": [[1], {"x": -1.5e3}], "prompt_token_ids": [-1]}"#, true);
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
        assert_same(body, false);
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
        assert!(CutBody::new(body.as_bytes(), KEY).parse::<Value>().is_err(), "{body}");
    }
    assert_eq!(read(r#"{"prompt_token_ids": [1 2]}"#).0, None);
    assert_eq!(read(r#"{"prompt_token_ids": [1,,2]}"#).0, None);
}

fn key() -> impl Strategy<Value = String> {
    prop_oneof![Just(KEY.to_owned()), "[a-c\"\\\\\\[\\]{}:, ]{0,3}"]
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
        assert_same(&body, value.is_object() && value.get(KEY).is_some_and(flat));
    }

    #[test]
    fn no_bytes_are_too_strange(body in proptest::collection::vec(any::<u8>(), 0..64)) {
        let body = [b"{\"a\":[".as_slice(), &body].concat();
        prop_assert!(CutBody::new(&body, KEY).list().is_none_or(|list| list.starts_with('[')));
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
