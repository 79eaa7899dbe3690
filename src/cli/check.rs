//! `couplet check`: whether couplet would serve with these settings, as a table.
//!
//! Loads everything that `serve` loads, renders a chat of several turns with a tool as a client's would be, and asks the
//! engines what they are. Every line says what was found; one that is wrong says why, and makes the exit code 1.

use std::fmt::{Display, Write};
use std::process::ExitCode;
use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use serde_json::{Value, json};

use super::serve::ServeArgs;
use crate::app::{App, StartError};
use crate::endpoints::{self, Context, Served};
use crate::engine::Engine;
use crate::model::tokenizer::Path;
use crate::parsers::auto::Choice;

/// An engine that is up answers at once.
const ENGINE_TIMEOUT: Duration = Duration::from_secs(5);
/// Exit code where something is wrong.
const WRONG: u8 = 1;

/// How a check went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Ok,
    /// Works, and may not be what was meant.
    Note,
    /// Does not work.
    Wrong,
}

/// One line of the table.
struct Row {
    what: &'static str,
    verdict: Verdict,
    told: String,
}

impl Row {
    fn new(what: &'static str, verdict: Verdict, told: impl Display) -> Self {
        Self { what, verdict, told: told.to_string() }
    }
}

/// Checks, and prints the table.
pub fn run(args: ServeArgs) -> ExitCode {
    let rows = checked(args).unwrap_or_else(|error| vec![Row::new("start", Verdict::Wrong, error)]);
    print(&table(&rows));
    if rows.iter().any(|row| row.verdict == Verdict::Wrong) { ExitCode::from(WRONG) } else { ExitCode::SUCCESS }
}

fn checked(args: ServeArgs) -> Result<Vec<Row>, StartError> {
    let app = App::load(args.settings()?)?;
    let (context, runtime) = (app.context(), super::runtime()?);
    let unanswered = runtime.block_on(app.look());
    let mut rows: Vec<Row> =
        unanswered.into_iter().map(|problem| Row::new("discovery", Verdict::Wrong, problem)).collect();
    for served in &context.models {
        rows.push(model(served));
        rows.push(tokenizer(served));
        rows.extend(chats(&context, served));
        rows.extend(parsers(served));
        rows.extend(runtime.block_on(engines(served)));
    }
    Ok(rows)
}

fn model(served: &Served) -> Row {
    let model = &served.model;
    let (name, context, tokens) = (served.name(), model.max_model_len(), model.vocabulary().len());
    Row::new("model", Verdict::Ok, format!("{name}: a context of {context} tokens, a vocabulary of {tokens}"))
}

fn tokenizer(served: &Served) -> Row {
    match served.model.encoder().path() {
        Path::Fast { probes } => {
            let told = format!("fast: the vocabulary and {probes} texts have the ids of the exact one");
            Row::new("tokenizer", Verdict::Ok, told)
        }
        Path::Exact { reason } => Row::new("tokenizer", Verdict::Note, format!("exact, which is slower: {reason}")),
    }
}

/// A chat with turns and a tool; where the template refuses the tool, one without, so that the cause is told.
fn chats(context: &Context, served: &Served) -> Vec<Row> {
    let tool_verdict = if served.auto_tools() { Verdict::Wrong } else { Verdict::Note };
    let row = |what, verdict, answer: Result<usize, String>| match answer {
        Ok(tokens) => Row::new(what, Verdict::Ok, format!("renders to {tokens} tokens")),
        Err(reason) => Row::new(what, verdict, reason),
    };
    let plain = render(context, &plain_chat(served));
    if plain.is_err() {
        return vec![row("chat", Verdict::Wrong, plain)];
    }
    vec![row("chat", Verdict::Wrong, plain), row("tool chat", tool_verdict, render(context, &tool_chat(served)))]
}

fn plain_chat(served: &Served) -> Value {
    json!({"model": served.name(), "messages": [
        {"role": "user", "content": "Is it cold in Paris?"},
        {"role": "assistant", "content": "Shall I look?"},
        {"role": "user", "content": "Yes."},
    ]})
}

fn tool_chat(served: &Served) -> Value {
    // An id that Mistral's templates take, too.
    let call = json!({"id": "cpl000001", "type": "function", "function": {
        "name": "get_weather", "arguments": "{\"city\": \"Paris\", \"days\": 1}",
    }});
    json!({
        "model": served.name(),
        "messages": [
            {"role": "user", "content": "Is it cold in Paris?"},
            {"role": "assistant", "content": null, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "cpl000001", "content": "{\"celsius\": 3}"},
            {"role": "assistant", "content": "Yes, 3 degrees."},
            {"role": "user", "content": "And tomorrow?"},
        ],
        "tools": [{"type": "function", "function": {
            "name": "get_weather",
            "description": "The forecast for a city.",
            "parameters": {"type": "object", "required": ["city"], "properties": {
                "city": {"type": "string", "description": "Its name."}, "days": {"type": "integer"},
            }},
        }}],
        "tool_choice": if served.auto_tools() { "auto" } else { "none" },
    })
}

/// How many tokens a chat renders to.
fn render(context: &Context, body: &Value) -> Result<usize, String> {
    let answer = endpoints::render::chat(context, &HeaderMap::new(), &Bytes::from(body.to_string()))
        .map_err(|error| error.body.message().to_owned())?;
    let answer: Value = serde_json::from_slice(&answer).map_err(|error| error.to_string())?;
    answer["token_ids"].as_array().map(Vec::len).ok_or_else(|| "no token ids".to_owned())
}

/// The parsers in use, and those that the model's files suggest.
fn parsers(served: &Served) -> [Row; 2] {
    let options = served.model.options();
    let [tools, reasoning] = served.model.fitting_parsers();
    [
        parser("tool calls", options.tool_parser.as_deref(), tools),
        parser("reasoning", options.reasoning_parser.as_deref(), reasoning),
    ]
}

fn parser(what: &'static str, used: Option<&str>, fitting: Option<Choice>) -> Row {
    match (used, fitting) {
        (Some(used), Some(Choice { name, why })) if used == name => {
            Row::new(what, Verdict::Ok, format!("{used} ({why})"))
        }
        (Some(used), Some(Choice { name, why })) => {
            Row::new(what, Verdict::Note, format!("{used}; the model's files suggest {name} ({why})"))
        }
        (Some(used), None) => Row::new(what, Verdict::Ok, format!("{used}; the model's files suggest none")),
        (None, Some(Choice { name, why })) => {
            Row::new(what, Verdict::Note, format!("no parser; the model's files suggest {name} ({why})"))
        }
        (None, None) => Row::new(what, Verdict::Ok, "no parser"),
    }
}

async fn engines(served: &Served) -> Vec<Row> {
    let Some(pool) = &served.pool else {
        return vec![Row::new("engine", Verdict::Note, "none: only the render and derender routes are served")];
    };
    let members = pool.members();
    if members.is_empty() {
        return vec![Row::new("engine", Verdict::Wrong, "DNS tells of no engine")];
    }
    futures_util::future::join_all(members.iter().map(|member| engine(&member.engine))).await
}

async fn engine(engine: &Engine) -> Row {
    let url = engine.url();
    match tokio::time::timeout(ENGINE_TIMEOUT, engine.probe()).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => return Row::new("engine", Verdict::Wrong, error),
        Err(_) => {
            let told = format!("{url}: no answer within {} s", ENGINE_TIMEOUT.as_secs());
            return Row::new("engine", Verdict::Wrong, told);
        }
    }
    let (capabilities, fit) = (engine.capabilities(), engine.fit());
    if let Some(reason) = &fit.misfit {
        return Row::new("engine", Verdict::Wrong, format!("{url}: {reason}"));
    }
    let names: Vec<&str> = capabilities.models.iter().map(|model| model.id.as_str()).collect();
    let told = format!("{url}: {:?}, serves {}", capabilities.kind, names.join(", "));
    match &fit.warning {
        Some(warning) => Row::new("engine", Verdict::Note, format!("{told}; {warning}")),
        None => Row::new("engine", Verdict::Ok, told),
    }
}

fn table(rows: &[Row]) -> String {
    let mut out = String::new();
    for Row { what, verdict, told } in rows {
        let verdict = match verdict {
            Verdict::Ok => "ok",
            Verdict::Note => "note",
            Verdict::Wrong => "WRONG",
        };
        // A reason of several lines stays in its column.
        let told = told.replace('\n', &format!("\n{:<18}", ""));
        let _ = writeln!(out, "{what:<11} {verdict:<5} {told}");
    }
    out
}

#[expect(clippy::print_stdout, reason = "the answer of a command")]
fn print(text: &str) {
    print!("{text}");
}
