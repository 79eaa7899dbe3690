//! Harmony, the prompt format of gpt-oss. vLLM writes it without a template, so it is written here.
//!
//! In: messages, tools, reasoning effort and the date. Out: token ids, and their text. Special tokens are placed by id;
//! all text is encoded as ordinary text, so that no message can spell one. Format: OpenAI's harmony, headers as vLLM
//! 0.33 keeps them.

use serde_json::{Map, Value};

use crate::api::chat::{ReasoningEffort, Tool};
use crate::api::error::ApiError;
use crate::api::messages::Message;
use crate::api::python;
use crate::api::validate::bad_param;
use crate::model::Model;
use crate::model::template::LocalTime;
use crate::model::tokenizer::EncodeError;

/// Roles that harmony knows.
const ROLES: [&str; 5] = ["user", "assistant", "system", "developer", "tool"];

/// The prompt of a chat: its ids and its text.
pub(super) fn prompt(
    model: &Model,
    messages: &[Message],
    tools: Option<&[Tool]>,
    effort: Option<&ReasoningEffort>,
    now: LocalTime,
) -> Result<(Vec<u32>, String), ApiError> {
    let mut out = Vec::new();
    let (instructions, rest) = leading_instructions(messages);
    let instructions = instructions.filter(|text| !text.is_empty() || tools.is_some());
    out.push(Part::plain("system", system(effort, tools.is_some(), now)?));
    if instructions.is_some() || tools.is_some() {
        out.push(Part::plain("developer", developer(instructions.as_deref(), tools)));
    }
    let names = tool_names(rest);
    for message in rest {
        push(message, &names, &mut out)?;
    }
    drop_old_analysis(&mut out);
    write(model, &out).map_err(|error| ApiError::internal(error.to_string()))
}

/// One harmony message.
#[derive(Debug, Clone)]
struct Part {
    author: String,
    recipient: Option<String>,
    channel: Option<&'static str>,
    is_call: bool,
    content: Vec<String>,
}

impl Part {
    fn plain(author: &str, content: String) -> Self {
        Self { author: author.to_owned(), recipient: None, channel: None, is_call: false, content: vec![content] }
    }

    fn on(channel: &'static str, content: Vec<String>) -> Self {
        Self { author: "assistant".to_owned(), recipient: None, channel: Some(channel), is_call: false, content }
    }
}

/// The text of a first system or developer message, and the messages after it.
fn leading_instructions(messages: &[Message]) -> (Option<String>, &[Message]) {
    match messages.split_first() {
        Some((first, rest)) if matches!(first.role(), "system" | "developer") => (flat_text(first), rest),
        _ => (None, messages),
    }
}

/// The texts of a content, one after the other; `None` where there is none.
fn flat_text(message: &Message) -> Option<String> {
    match message.get("content")? {
        Value::String(text) => Some(text.clone()),
        Value::Array(parts) => {
            let text = |part: &Value| part.as_str().or_else(|| part.get("text")?.as_str()).map(str::to_owned);
            let texts: Vec<String> = parts.iter().filter_map(text).collect();
            (!texts.is_empty()).then(|| texts.concat())
        }
        _ => None,
    }
}

fn system(effort: Option<&ReasoningEffort>, with_tools: bool, now: LocalTime) -> Result<String, ApiError> {
    let effort = match effort.map(|effort| effort.0.as_str()) {
        None => "medium",
        Some(known @ ("low" | "medium" | "high")) => known,
        Some("none") => {
            return Err(bad_param("reasoning_effort", "Harmony does not support reasoning_effort='none'"));
        }
        Some(other) => {
            return Err(bad_param(
                "reasoning_effort",
                &format!(
                    "reasoning_effort='{other}' is not supported by Harmony. Supported values are: high, medium, low."
                ),
            ));
        }
    };
    let calls = if with_tools { "\nCalls to these tools must go to the commentary channel: 'functions'." } else { "" };
    Ok(format!(
        "You are ChatGPT, a large language model trained by OpenAI.\nKnowledge cutoff: 2024-06\nCurrent date: {}\n\n\
         Reasoning: {effort}\n\n# Valid channels: analysis, commentary, final. Channel must be included for every \
         message.{calls}",
        now.strftime("%Y-%m-%d")
    ))
}

fn developer(instructions: Option<&str>, tools: Option<&[Tool]>) -> String {
    let mut sections = Vec::new();
    if let Some(instructions) = instructions {
        sections.push(format!("# Instructions\n\n{instructions}"));
    }
    if let Some(tools) = tools {
        sections.push(format!("# Tools\n\n## functions\n\nnamespace functions {{\n\n{}}} // namespace functions", {
            tools.iter().map(function).collect::<String>()
        }));
    }
    sections.join("\n\n")
}

fn function(tool: &Tool) -> String {
    let description = tool.function.description.as_deref().unwrap_or_default();
    let comment: String = description.lines().map(|line| format!("// {line}\n")).collect();
    let name = &tool.function.name;
    let argument = match &tool.function.parameters {
        Some(parameters) => format!("_: {}", type_of_object(parameters, "")),
        None => String::new(),
    };
    format!("{comment}type {name} = ({argument}) => any;\n\n")
}

/// A JSON schema as the TypeScript type that harmony shows to the model.
fn type_of(schema: &Value, indent: &str) -> String {
    schema.as_object().map_or_else(|| "any".to_owned(), |schema| type_of_object(schema, indent))
}

fn type_of_object(schema: &Map<String, Value>, indent: &str) -> String {
    if let Some(variants) = schema.get("oneOf").and_then(Value::as_array) {
        return variants.iter().map(|variant| union_line(variant, indent)).collect::<Vec<_>>().join("\n");
    }
    match schema.get("type") {
        Some(Value::Array(kinds)) if !kinds.is_empty() => {
            let name =
                |kind: &Value| kind.as_str().map(|kind| if kind == "integer" { "number" } else { kind }.to_owned());
            kinds.iter().filter_map(name).collect::<Vec<_>>().join(" | ")
        }
        Some(Value::String(kind)) => match kind.as_str() {
            "object" => object_type(schema, indent),
            "string" => match enum_values(schema) {
                Some(values) => {
                    let texts = values.iter().filter_map(Value::as_str).map(|text| format!("\"{text}\""));
                    texts.collect::<Vec<_>>().join(" | ")
                }
                None => "string".to_owned(),
            },
            "number" | "integer" => "number".to_owned(),
            "boolean" => "boolean".to_owned(),
            "array" => match schema.get("items") {
                Some(items) => format!("{}[]", type_of(items, indent)),
                None => "Array<any>".to_owned(),
            },
            _ => "any".to_owned(),
        },
        _ => "any".to_owned(),
    }
}

fn enum_values(schema: &Map<String, Value>) -> Option<&Vec<Value>> {
    schema.get("enum").and_then(Value::as_array).filter(|values| !values.is_empty())
}

fn union_line(variant: &Value, indent: &str) -> String {
    let mut line = format!("{indent} | {}", type_of(variant, &format!("{indent}   ")));
    if variant.get("nullable") == Some(&Value::Bool(true)) && !line.contains("null") {
        line.push_str(" | null");
    }
    let description = variant.get("description").and_then(Value::as_str).map(str::to_owned);
    let default = variant.as_object().and_then(default_text);
    let comments: Vec<String> = description.into_iter().chain(default).collect();
    if !comments.is_empty() {
        line.push_str(&format!(" // {}", comments.join(" ")));
    }
    line
}

fn object_type(schema: &Map<String, Value>, indent: &str) -> String {
    let mut out = String::new();
    if let Some(description) = schema.get("description").and_then(Value::as_str) {
        out.push_str(&format!("{indent}// {description}\n"));
    }
    out.push_str("{\n");
    let required = |key: &str| {
        let listed = schema.get("required").and_then(Value::as_array);
        listed.is_some_and(|listed| listed.iter().any(|name| name.as_str() == Some(key)))
    };
    for (key, property) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        write_property(key, property, required(key), indent, &mut out);
    }
    out.push_str(&format!("{indent}}}"));
    out
}

fn write_property(key: &str, property: &Value, required: bool, indent: &str, out: &mut String) {
    let text = |name: &str| property.get(name).and_then(Value::as_str);
    if let Some(title) = text("title") {
        out.push_str(&format!("{indent}// {title}\n{indent}//\n"));
    }
    if let Some(description) = text("description") {
        out.push_str(&format!("{indent}// {description}\n"));
    }
    let examples = property.get("examples").and_then(Value::as_array).filter(|examples| !examples.is_empty());
    if let Some(examples) = examples {
        out.push_str(&format!("{indent}// Examples:\n"));
        for example in examples.iter().filter_map(Value::as_str) {
            out.push_str(&format!("{indent}// - \"{example}\"\n"));
        }
    }
    let mark = if required { "" } else { "?" };
    let default = property.as_object().and_then(default_text);
    if let Some(variants) = property.get("oneOf").and_then(Value::as_array) {
        if let Some(default) = default {
            out.push_str(&format!("{indent}// {default}\n"));
        }
        out.push_str(&format!("{indent}{key}{mark}:\n"));
        for variant in variants {
            out.push_str(&union_line(variant, indent));
            out.push('\n');
        }
        out.push_str(&format!("{indent},\n"));
        return;
    }
    let mut kind = type_of(property, &format!("{indent}    "));
    if property.get("nullable") == Some(&Value::Bool(true)) && !kind.contains("null") {
        kind.push_str(" | null");
    }
    out.push_str(&format!("{indent}{key}{mark}: {kind},"));
    if let Some(default) = default {
        out.push_str(&format!(" // {default}"));
    }
    out.push('\n');
}

fn default_text(schema: &Map<String, Value>) -> Option<String> {
    let default = schema.get("default")?;
    Some(match default {
        Value::String(text) if enum_values(schema).is_none() => format!("default: \"{text}\""),
        Value::String(text) => format!("default: {text}"),
        Value::Number(number) if python::is_float(number.as_str()) => {
            let float = crate::api::validate::float(number);
            format!("default: {}", serde_json::to_string(&float).unwrap_or_default())
        }
        other => format!("default: {other}"),
    })
}

/// Tool calls of the conversation: id → function name.
fn tool_names(messages: &[Message]) -> Vec<(&str, &str)> {
    let calls = messages.iter().filter_map(|message| message.get("tool_calls")?.as_array()).flatten();
    calls
        .map(|call| {
            let name = call.get("function").and_then(|function| function.get("name")?.as_str());
            (call.get("id").and_then(Value::as_str).unwrap_or_default(), name.unwrap_or_default())
        })
        .collect()
}

/// Writes one message of the request as harmony messages.
fn push(message: &Message, names: &[(&str, &str)], out: &mut Vec<Part>) -> Result<(), ApiError> {
    let role = message.role();
    let reasoning = message.get("reasoning").and_then(Value::as_str).filter(|text| !text.is_empty());
    let calls = message.get("tool_calls").and_then(Value::as_array).filter(|calls| !calls.is_empty());
    if let ("assistant", Some(calls)) = (role, calls) {
        let content = flat_text(message).filter(|text| !text.is_empty());
        out.extend(content.map(|text| Part::on("commentary", vec![text])));
        out.extend(reasoning.map(|text| Part::on("analysis", vec![text.to_owned()])));
        out.extend(calls.iter().map(call_part));
        return Ok(());
    }
    if role == "tool" {
        let id = message.get("tool_call_id").and_then(Value::as_str).unwrap_or_default();
        let name = names.iter().rev().find(|(known, _)| *known == id).map_or("", |(_, name)| name);
        let content = vec![flat_text(message).unwrap_or_default()];
        let recipient = Some("assistant".to_owned());
        let author = format!("functions.{name}");
        out.push(Part { author, recipient, channel: Some("commentary"), is_call: false, content });
        return Ok(());
    }
    if role == "assistant" {
        out.extend(reasoning.map(|text| Part::on("analysis", vec![text.to_owned()])));
        let content = texts(message);
        if content.first().is_some_and(|text| !text.is_empty()) {
            out.push(Part::on("final", content));
        }
        return Ok(());
    }
    if matches!(role, "system" | "developer") {
        out.extend(flat_text(message).map(|text| Part::plain("developer", developer(Some(&text), None))));
        return Ok(());
    }
    if !ROLES.contains(&role) {
        return Err(bad_role(role));
    }
    out.push(Part { content: texts(message), ..Part::plain(role, String::new()) });
    Ok(())
}

fn bad_role(role: &str) -> ApiError {
    let shown = python::str_repr(role);
    ApiError::bad_request(format!(
        "1 validation error for Author\nrole\n  Input should be 'user', 'assistant', 'system', 'developer' or 'tool' \
         [type=enum, input_value={shown}, input_type=str]"
    ))
}

/// The texts of a content, part by part.
fn texts(message: &Message) -> Vec<String> {
    let text = |part: &Value| part.get("text").and_then(Value::as_str).unwrap_or_default().to_owned();
    match message.get("content") {
        Some(Value::String(text)) => vec![text.clone()],
        Some(Value::Array(parts)) if !parts.is_empty() => parts.iter().map(text).collect(),
        _ => vec![String::new()],
    }
}

fn call_part(call: &Value) -> Part {
    let function = call.get("function");
    let text = |key: &str| function.and_then(|function| function.get(key)?.as_str()).unwrap_or_default().to_owned();
    Part {
        recipient: Some(format!("functions.{}", text("name"))),
        is_call: true,
        ..Part::on("commentary", vec![text("arguments")])
    }
}

/// Thoughts before the last final answer are dropped.
fn drop_old_analysis(parts: &mut Vec<Part>) {
    let Some(last) = parts.iter().rposition(|part| part.author == "assistant" && part.channel == Some("final")) else {
        return;
    };
    let mut index = 0;
    parts.retain(|part| {
        let keep = index >= last || part.channel != Some("analysis");
        index += 1;
        keep
    });
}

/// Ids and text of a prompt in the making.
struct Writer<'a> {
    model: &'a Model,
    ids: Vec<u32>,
    text: String,
}

impl Writer<'_> {
    fn special(&mut self, token: &str) -> Result<(), EncodeError> {
        let id = self.model.encoder().token_to_id(token);
        self.ids.push(id.ok_or_else(|| EncodeError::new(format!("the vocabulary has no {token}")))?);
        self.text.push_str(token);
        Ok(())
    }

    fn plain(&mut self, text: &str) -> Result<(), EncodeError> {
        self.ids.extend(self.model.encoder().encode_ordinary(text)?);
        self.text.push_str(text);
        Ok(())
    }

    fn part(&mut self, part: &Part) -> Result<(), EncodeError> {
        self.special("<|start|>")?;
        match (&part.recipient, part.is_call) {
            (Some(recipient), true) => self.plain(&format!("{} to={recipient}", part.author))?,
            _ => self.plain(&part.author)?,
        }
        if let Some(channel) = part.channel {
            self.special("<|channel|>")?;
            match (&part.recipient, part.is_call) {
                (_, true) => self.plain(&format!("{channel} json"))?,
                (Some(recipient), false) => self.plain(&format!("{channel} to={recipient}"))?,
                (None, false) => self.plain(channel)?,
            }
        }
        self.special("<|message|>")?;
        for text in &part.content {
            self.plain(text)?;
        }
        self.special(if part.is_call { "<|call|>" } else { "<|end|>" })
    }
}

fn write(model: &Model, parts: &[Part]) -> Result<(Vec<u32>, String), EncodeError> {
    let mut writer = Writer { model, ids: Vec::new(), text: String::new() };
    for part in parts {
        writer.part(part)?;
    }
    writer.special("<|start|>")?;
    writer.plain("assistant")?;
    Ok((writer.ids, writer.text))
}
