//! Templates and bodies that mean harm end in a 400, soon, on a small stack, and take no server with them.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::server::{post, post_text};

/// Longest time that a harmful request may take, in an unoptimised build on a busy machine.
const SOON: Duration = Duration::from_secs(20);
/// The stack of a worker thread.
const STACK: usize = 2 << 20;

const CHAT: &str = "/v1/chat/completions/render";

/// Runs on a worker thread's stack.
fn on_small_stack<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, work).unwrap().join().unwrap()
    })
}

/// Status of a chat with this template.
fn with_template(template: &str) -> (u64, Value) {
    let body = json!({"messages": [{"role": "user", "content": "Hi"}], "chat_template": template});
    let start = Instant::now();
    let answer = on_small_stack(|| post(CHAT, &body));
    let shown: String = template.chars().take(60).collect();
    assert!(start.elapsed() < SOON, "{shown} took {:?}", start.elapsed());
    answer
}

fn assert_refused(template: &str) {
    let (status, answer) = with_template(template);
    let shown: String = template.chars().take(80).collect();
    assert_eq!(status, 400, "{shown}");
    assert_eq!(answer["error"]["type"], "BadRequestError", "{shown}");
    let message = answer["error"]["message"].as_str().unwrap();
    assert!(!message.is_empty() && message.len() < 2000, "{shown}: {message:.200}");
}

#[test]
fn endless_loops_are_cut() {
    assert_refused("{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}");
    assert_refused("{% for a in range(99999999999) %}{% endfor %}");
    assert_refused("{{ range(9999999999) | list | length }}");
    assert_refused("{{ range(99999) | list | tojson * 99999 }}");
}

#[test]
fn endless_recursion_is_cut() {
    assert_refused("{% macro m(x) %}{{ m(x + 1) }}{% endmacro %}{{ m(0) }}");
    assert_refused("{% macro m(x) %}{% call m(x) %}{{ caller() }}{% endcall %}{% endmacro %}{{ m(0) }}");
    assert_refused("{% for a in [1] recursive %}{{ loop([1]) }}{% endfor %}");
}

#[test]
fn huge_texts_are_cut() {
    assert_refused("{{ ('x' * 9000000).join('yyyyyyyyyyyyyyyyyyyy' | list) }}");
    assert_refused("{{ 'x' * 99999999999 }}");
    assert_refused("{{ 'x' * 90000000 * 20 }}");
    assert_refused("{% set ns = namespace(s='x') %}{% for a in range(60) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}");
    assert_refused("{% set ns = namespace(s='x') %}{% for a in range(60) %}{% set ns.s = ns.s + ns.s %}{% endfor %}");
    assert_refused(
        "{% set ns = namespace(s='xy') %}{% for a in range(60) %}{% set ns.s = ns.s.replace('x', ns.s) %}{% endfor %}",
    );
    assert_refused(
        "{% set ns = namespace(s='xy') %}{% for a in range(60) %}{% set ns.s = ns.s | replace('x', ns.s) %}{% endfor %}",
    );
    assert_refused(
        "{% set ns = namespace(s='x') %}{% for a in range(60) %}{% set ns.s = [ns.s, ns.s] | join(ns.s) %}{% endfor %}",
    );
    assert_refused(
        "{% set ns = namespace(s='x') %}{% for a in range(60) %}{% set ns.s = ns.s.join([ns.s, ns.s]) %}{% endfor %}",
    );
    assert_refused(
        "{% set ns = namespace(s='x') %}{% for a in range(60) %}{% set ns.s = '%s%s' | format(ns.s, ns.s) %}{% endfor %}",
    );
    assert_refused(
        "{% set ns = namespace(s='x') %}{% for a in range(60) %}{% set ns.s = [ns.s, ns.s] | tojson %}{% endfor %}",
    );
    assert_refused(
        "{% set ns = namespace(s=[1]) %}{% for a in range(60) %}{% set ns.s = ns.s + ns.s %}{% endfor %}{{ ns.s }}",
    );
    assert_refused(
        "{% set ns = namespace(s=[1]) %}{% for a in range(60) %}{% set ns.s = [ns.s, ns.s] %}{% endfor %}{{ ns.s }}",
    );
    assert_refused(
        "{% set ns = namespace(s=[1]) %}{% for a in range(60) %}{% set ns.s = [ns.s, ns.s] %}{% endfor %}{{ ns.s | tojson }}",
    );
    assert_refused("{{ '%999999999d' | format(1) }}");
    assert_refused("{{ [1] | batch(9999999999, 'x') | list | length }}{{ nothing.x.y }}");
}

#[test]
fn values_nested_deeply_are_cut() {
    let nest = "{% set ns = namespace(s=[1]) %}{% for b in range(20) %}{% for a in range(9999) %}{% set ns.s = [ns.s] %}{% endfor %}{% endfor %}";
    assert_refused(&format!("{nest}{{{{ ns.s }}}}"));
    assert_refused(&format!("{nest}{{{{ ns.s | tojson }}}}"));
    assert_refused(&format!("{nest}{{{{ ns.s == [ns.s] }}}}{{{{ nothing.x.y }}}}"));
}

/// Values that share parts are small, and take forever to compare or print.
#[test]
fn values_that_share_their_parts_are_cut() {
    let lists = "{% set ns = namespace(a=[1], b=[1]) %}{% for i in range(60) %}{% set ns.a = [ns.a, ns.a] %}{% set ns.b = [ns.b, ns.b] %}{% endfor %}";
    let maps = "{% set ns = namespace(a=1, b=1) %}{% for i in range(60) %}{% set ns.a = {'x': ns.a, 'y': ns.a} %}{% set ns.b = dict(x=ns.b, y=ns.b) %}{% endfor %}";
    let tuples = "{% set ns = namespace(a=1, b=1) %}{% for i in range(60) %}{% set ns.a = ns.a, ns.a %}{% set ns.b = (ns.b, ns.b) %}{% endfor %}";
    let zips = "{% set ns = namespace(a=[1], b=[1]) %}{% for i in range(60) %}{% set ns.a = ns.a|zip(ns.a) %}{% set ns.b = ns.b|zip(ns.b) %}{% endfor %}";
    let products = "{% set ns = namespace(a=[1], b=[1]) %}{% for i in range(60) %}{% set ns.a = [ns.a] * 99 %}{% set ns.b = [ns.b] * 99 %}{% endfor %}";
    for built in [lists, maps, tuples, zips, products] {
        for used in ["{{ ns.a == ns.b }}", "{{ ns.a ~ 'x' }}", "{{ {ns.a: 1} }}", "{{ [ns.a, ns.b] | sort }}"] {
            assert_refused(&format!("{built}{used}"));
        }
    }
}

/// A namespace inside itself has no end; the engine would run out of stack.
#[test]
fn namespaces_inside_themselves_are_refused() {
    let two = "{% set a = namespace() %}{% set b = namespace() %}{% set a.x = b %}{% set b.x = a %}{{ a == b }}";
    assert_refused(two);
    for used in ["{{ a ~ '' }}", "{{ {a: 1} }}", "{{ '%s' | format(a) }}", "{{ a }}"] {
        assert_refused(&format!("{{% set a = namespace() %}}{{% set a.x = [a] %}}{used}"));
        assert_refused(&format!("{{% set a = namespace() %}}{{% set b = namespace(y=a) %}}{{% set a.x = b %}}{used}"));
    }
}

#[test]
fn sources_nested_deeply_are_refused() {
    assert_refused(&format!("{{{{ {}1{} }}}}", "(".repeat(50_000), ")".repeat(50_000)));
    assert_refused(&"{% if true %}".repeat(50_000));
    assert_refused(&"{% for a in b %}".repeat(50_000));
    assert_refused(&format!("{{{{ {}{} }}}}", "[".repeat(50_000), "]".repeat(50_000)));
}

/// Long chains are no nesting: they render, or are refused, without a crash.
#[test]
fn long_chains_do_not_crash() {
    for template in [
        format!("{{{{ {}1 }}}}", "not ".repeat(50_000)),
        format!("{{{{ {}1 }}}}", "-".repeat(50_000)),
        format!("{{{{ 1{} }}}}", " + 1".repeat(20_000)),
        format!("{{{{ 'a'{} }}}}", " ~ 'a'".repeat(20_000)),
        format!("{{{{ x{} }}}}", ".x".repeat(20_000)),
        format!("{{{{ 1{} }}}}", "|int".repeat(20_000)),
        format!("{{{{ 1{} }}}}", " or 1".repeat(20_000)),
        format!("{{% if a %}}{}{{% endif %}}", "{% elif b %}".repeat(20_000)),
    ] {
        let (status, _) = with_template(&template);
        assert!(status == 200 || status == 400);
    }
}

#[test]
fn bodies_that_are_no_requests_are_refused() {
    let deep = format!(r#"{{"messages": {}{}}}"#, "[".repeat(100_000), "]".repeat(100_000));
    let deep_objects = r#"{"a":"#.repeat(100_000);
    let bodies = [
        "",
        " ",
        "{",
        "nul",
        "[]",
        "1",
        "\"x\"",
        "{}",
        r#"{"messages": 1}"#,
        r#"{"messages": [1]}"#,
        r#"{"messages": [{}]}"#,
        r#"{"messages": [{"role": "user", "content": "\ud800"}]}"#,
        r#"{"messages": [{"role": "user", "content": "x"}], "temperature": NaN}"#,
        r#"{"messages": [{"role": "user", "content": "x"}], "temperature": 1e999}"#,
        r#"{"messages": [{"role": "user", "content": "x"}], "max_tokens": 1e400}"#,
        r#"{"messages": [{"role": "user", "content": "x"}], "max_tokens": -99999999999999999999999999}"#,
        r#"{"messages": [{"role": "user", "content": "x"}], "logit_bias": {"99999999999999999999": 1}}"#,
        &deep,
        &deep_objects,
    ];
    for body in bodies {
        let (status, answer) = on_small_stack(|| post_text(CHAT, body));
        let shown: String = body.chars().take(100).collect();
        assert!(status == 400 || status == 422, "{shown}: {status} {answer}");
        on_small_stack(|| post_text("/v1/completions/render", body));
        on_small_stack(|| post_text("/tokenize", body));
        on_small_stack(|| post_text("/detokenize", body));
    }
}

/// A message of a megabyte renders; one that cannot fit is refused without being encoded.
#[test]
fn long_messages_are_measured_first() {
    let body = json!({"messages": [{"role": "user", "content": "word ".repeat(1 << 20)}]});
    let start = Instant::now();
    let (status, answer) = post(CHAT, &body);
    assert_eq!((status, &answer["error"]["param"]), (400, &json!("input_text")), "{answer}");
    assert!(start.elapsed() < SOON);
}
