//! Every metric that a dashboard or a rule asks for exists in a scrape of couplet at work.

#![expect(clippy::unwrap_used, reason = "a test that panics has reported")]

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use couplet::metrics::vllm;
use couplet::sim::Faults;
use serde_json::{Value, json};
use support::chat::chat;
use support::couplet::Couplet;
use support::http::{self, Events};
use support::sim::Engine;
use support::{pool, scrape, tiny};

const DIR: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/dashboards");
const TEXT: &str = "</think>\n\nOne, two, three.";
/// Looks like a call, and is none.
const NO_CALL: &str = "</think>\n\n<tool_call>\n{\"name\": ping}\n</tool_call>";
/// What stands before the names of our metrics, and of those that Prometheus' client adds for the process.
const PREFIXES: [&str; 2] = ["couplet_", "process_"];

/// The dashboards, by file name.
fn dashboards() -> BTreeMap<String, Value> {
    let files = fs::read_dir(Path::new(DIR).join("grafana")).unwrap().map(|entry| entry.unwrap().path());
    let boards = files.filter(|path| path.extension().is_some_and(|ending| ending == "json"));
    let read = |path: std::path::PathBuf| {
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        (name, serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap())
    };
    boards.map(read).collect()
}

fn panels(board: &Value) -> &[Value] {
    board["panels"].as_array().unwrap()
}

/// What the panels and variables of a dashboard ask for.
fn queries(board: &Value) -> Vec<&str> {
    let targets = panels(board).iter().flat_map(|panel| panel["targets"].as_array().into_iter().flatten());
    let variables = board["templating"]["list"].as_array().unwrap().iter();
    let variables = variables.filter(|variable| variable["type"] == "query").map(|variable| &variable["query"]);
    targets.map(|target| &target["expr"]).chain(variables).map(|query| query.as_str().unwrap()).collect()
}

/// The metrics that a query names.
fn metrics(query: &str) -> BTreeSet<String> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | ':');
    let words = query.split(|c: char| !is_name(c));
    words.filter(|word| PREFIXES.iter().any(|prefix| word.starts_with(prefix))).map(str::to_owned).collect()
}

/// A row of the table of metrics.
struct Row {
    kind: String,
    labels: BTreeSet<String>,
    meaning: String,
    panel: String,
}

/// The README's table of metrics, by name.
fn table(readme: &str) -> BTreeMap<String, Row> {
    let rows = readme.lines().filter(|line| PREFIXES.iter().any(|prefix| line.starts_with(&format!("| `{prefix}"))));
    let read = |line: &str| {
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        let [name, kind, labels, meaning, panel] = cells.try_into().unwrap_or_else(|_| panic!("no row: {line}"));
        let labels = labels.split(", ").filter(|label| !label.is_empty()).map(|label| label.replace('`', ""));
        let [kind, meaning, panel] = [kind, meaning, panel].map(str::to_owned);
        (name.replace('`', ""), Row { kind, labels: labels.collect(), meaning, panel })
    };
    rows.map(read).collect()
}

/// The dashboards that have a panel of a metric, or of its buckets.
fn shown_in(boards: &BTreeMap<String, Value>, name: &str) -> BTreeSet<String> {
    let asks = |query: &str| {
        metrics(query)
            .iter()
            .any(|asked| asked.strip_prefix(name).is_some_and(|rest| ["", "_bucket", "_sum", "_count"].contains(&rest)))
    };
    let has = |board: &&Value| {
        let targets = panels(board).iter().flat_map(|panel| panel["targets"].as_array().into_iter().flatten());
        targets.map(|target| target["expr"].as_str().unwrap()).any(asks)
    };
    let of = |name: &str| name.trim_end_matches(".json").to_owned();
    boards.iter().filter(|(_, board)| has(board)).map(|(name, _)| of(name)).collect()
}

/// The names in a scrape.
fn scraped(text: &str) -> BTreeSet<String> {
    let series = text.lines().filter(|line| !line.starts_with('#'));
    series.map(|line| line.split(['{', ' ']).next().unwrap().to_owned()).collect()
}

async fn post(couplet: &Couplet, path: &str, body: &Value) {
    http::post(&format!("{}{path}", couplet.url), body).await;
}

/// couplet after a bit of everything: streams, whole answers, refusals, a fallback, a failing engine, a client that left.
async fn busy() -> (Couplet, Vec<Engine>) {
    let faulty = pool::engine(Faults { die_after_tokens: Some(2), ..Faults::default() }).await;
    let (good, slow) = (pool::slow_engine(1, 20).await, pool::slow_engine(1, 30).await);
    let couplet = Couplet::with_config(&format!(
        "models:\n  - model: {}\n    served_model_name: [tiny]\n    tool_call_parser: hermes\n    reasoning_parser: qwen3\n    \
         enable_auto_tool_choice: true\n    trust_request_chat_template: true\n    engines:\n      - {{url: \"{}\"}}\n      \
         - {{url: \"{}\"}}\n      - {{url: \"{}\"}}\n    pool: {{policy: round_robin, requests_per_minute: 12}}\n",
        tiny::DIR,
        good.url,
        slow.url,
        faulty.url
    ));
    let streamed = json!({"stream": true});
    for text in [TEXT, NO_CALL, TEXT, NO_CALL] {
        let tool = json!([{"type": "function", "function": {"name": "f", "parameters": {}}}]);
        post(&couplet, "/v1/chat/completions", &chat(text, json!({"tools": tool}))).await;
        post(&couplet, "/v1/chat/completions", &chat(text, streamed.clone())).await;
    }
    let template = json!({"chat_template": "{{ raise_exception('no') }}"});
    post(&couplet, "/v1/chat/completions", &chat(TEXT, template)).await;
    for _ in 0..3 {
        let url = format!("{}/v1/chat/completions", couplet.url);
        Events::open(&url, &chat(TEXT, streamed.clone())).await.next().await.unwrap();
    }
    post(&couplet, "/v1/completions", &json!({"model": "tiny", "prompt": "a"})).await;
    post(&couplet, "/v1/completions", &json!({"model": "tiny", "prompt": "a"})).await;
    pool::metric_becomes(&couplet, "couplet_aborts_total", "cause=\"client\"", 3.0).await;
    (couplet, vec![faulty, good, slow])
}

#[tokio::test]
async fn every_metric_that_is_asked_for_exists() {
    let (couplet, _engines) = busy().await;
    let there = scraped(&http::get(&format!("{}/metrics", couplet.url)).await.text);
    let boards = dashboards();
    let rules = fs::read_to_string(Path::new(DIR).join("rules.yml")).unwrap();
    let asked = boards.values().flat_map(queries).chain([rules.as_str()]).flat_map(metrics);
    let asked: BTreeSet<String> = asked.collect();
    assert!(asked.len() > 20, "{asked:?}");
    let missing: Vec<&String> = asked.difference(&there).collect();
    assert!(missing.is_empty(), "asked for and not there: {missing:?}");
}

/// The table names what is in a scrape, with its kind, its labels and its meaning, and says where each has its panel.
#[tokio::test]
async fn the_readme_tells_what_a_scrape_has() {
    let (couplet, _engines) = busy().await;
    let there = scrape::families(&scrape::scrape(&couplet).await);
    let readme = fs::read_to_string(Path::new(DIR).join("README.md")).unwrap();
    let (told, boards) = (table(&readme), dashboards());
    assert_eq!(told.keys().collect::<Vec<_>>(), there.keys().collect::<Vec<_>>());
    for (name, row) in told {
        let family = &there[&name];
        assert_eq!((&row.kind, &row.labels, &row.meaning), (&family.kind, &family.labels, &family.help), "{name}");
        let boards = shown_in(&boards, &name);
        let said: BTreeSet<String> = row.panel.split(", ").map(str::to_owned).collect();
        let has_reason = boards.is_empty() && row.panel.starts_with("no: ") && row.panel.len() > 20;
        assert!(
            has_reason || said == boards,
            "{name}: the table says {:?}, and its panels are in {boards:?}",
            row.panel
        );
    }
    for (ours, theirs) in vllm::SAME {
        assert!(readme.contains(&format!("| `{theirs}` | `{ours}` |")), "no row of {theirs}");
    }
}

#[test]
fn panels_are_told_apart_and_each_asks_for_something() {
    let boards = dashboards();
    assert_eq!(boards.keys().collect::<Vec<_>>(), ["engines.json", "overview.json"]);
    let uids: BTreeSet<&str> = boards.values().map(|board| board["uid"].as_str().unwrap()).collect();
    assert_eq!(uids.len(), boards.len());
    for (name, board) in &boards {
        let ids: BTreeSet<u64> = panels(board).iter().map(|panel| panel["id"].as_u64().unwrap()).collect();
        assert_eq!(ids.len(), panels(board).len(), "{name}");
        for panel in panels(board).iter().filter(|panel| panel["type"] != "row") {
            assert!(!panel["targets"].as_array().unwrap().is_empty(), "{name}: {}", panel["title"]);
        }
        for query in queries(board) {
            assert!(!metrics(query).is_empty(), "{name}: {query}");
        }
    }
}
