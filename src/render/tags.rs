//! Structural tags: the grammar under which an engine lets a model write tool calls in its own syntax.
//!
//! In: the syntax of a tool parser, tools, and whether a call may or must come. Out: the JSON that xgrammar reads
//! (format: xgrammar's structural tags, as vLLM 0.33 writes them). A syntax is a row of [`syntax`]; the few that no row
//! can say have a function of their own.

use serde_json::{Value, json};

use crate::api::chat::Tool;

/// Whether calls may or must come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Choice {
    /// They may.
    Auto,
    /// At least one must.
    Required,
    /// Exactly one, of the one tool given.
    Forced,
}

/// A tool, and whether its schema binds the arguments.
#[derive(Debug, Clone, Copy)]
pub(super) struct BoundTool<'a> {
    pub(super) tool: &'a Tool,
    pub(super) strict: bool,
}

impl BoundTool<'_> {
    fn name(&self) -> &str {
        &self.tool.function.name
    }

    /// The schema of the arguments; `true` is any JSON.
    fn schema(&self) -> Value {
        match &self.tool.function.parameters {
            Some(parameters) if self.strict => Value::Object(parameters.clone()),
            _ => Value::Bool(true),
        }
    }
}

/// Neither may appear in plain text beside calls.
const THINK: [&str; 2] = ["<think>", "</think>"];

/// What stands around all calls of a reply.
struct Section {
    begin: &'static str,
    end: &'static str,
    /// What comes before the section where a call must come.
    lead: &'static str,
    /// Between calls.
    separator: &'static str,
    /// A sequence of constants and calls, or one tag around the calls.
    sequence: bool,
    /// A forced call is still written as a list that ends after its first item.
    forced_list: bool,
}

/// How a model writes a call.
struct Syntax {
    /// What begins and ends a call: the name goes between the first two. Several: the model may write either.
    calls: &'static [[&'static str; 3]],
    /// How the arguments are written.
    style: &'static str,
    /// Before the arguments: a number and this constant.
    numbered: Option<&'static str>,
    /// What begins a call, or the section.
    trigger: &'static str,
    section: Option<Section>,
    /// What plain text must not have beside calls.
    excludes: &'static [&'static str],
    /// Calls that must come are a list without separator, instead of text that has one at least.
    listed: bool,
}

/// Most syntaxes differ from this in a few fields.
const PLAIN: Syntax =
    Syntax { calls: &[], style: "json", numbered: None, trigger: "", section: None, excludes: &THINK, listed: false };

const SECTION: Section = Section { begin: "", end: "", lead: "", separator: "", sequence: true, forced_list: false };

fn syntax(model: &str) -> Option<Syntax> {
    Some(match model {
        "hermes" => Syntax {
            calls: &[
                ["<tool_call>\n{\"name\": \"", "\", \"arguments\": ", "}\n</tool_call>"],
                ["<tool_call>{\"name\": \"", "\", \"arguments\": ", "}</tool_call>"],
            ],
            trigger: "<tool_call>",
            excludes: &[],
            listed: true,
            ..PLAIN
        },
        "longcat" => Syntax {
            calls: &[
                ["<longcat_tool_call>\n{\"name\": \"", "\", \"arguments\": ", "}\n</longcat_tool_call>"],
                ["<longcat_tool_call>{\"name\": \"", "\", \"arguments\": ", "}</longcat_tool_call>"],
            ],
            trigger: "<longcat_tool_call>",
            excludes: &[],
            listed: true,
            ..PLAIN
        },
        "llama" => Syntax { calls: &[["{\"name\": \"", "\", \"parameters\": ", "}"]], trigger: "{\"name\": ", ..PLAIN },
        "qwen_3_coder" => Syntax {
            calls: &[["<tool_call>\n<function=", ">\n", "\n</function>\n</tool_call>"]],
            style: "qwen_xml",
            trigger: "<tool_call>\n<function=",
            ..PLAIN
        },
        "mimo" => Syntax {
            calls: &[["<tool_call><function=", ">", "</function></tool_call>"]],
            style: "qwen_xml",
            trigger: "<tool_call>",
            excludes: &["<think>", "</think>", "</tool_call>", "<function="],
            ..PLAIN
        },
        "kimi" => Syntax {
            calls: &[["<|tool_call_begin|>functions.", ":", "<|tool_call_end|>"]],
            numbered: Some("<|tool_call_argument_begin|>"),
            trigger: "<|tool_calls_section_begin|>",
            section: Some(Section {
                begin: "<|tool_calls_section_begin|>",
                end: "<|tool_calls_section_end|>",
                ..SECTION
            }),
            excludes: &["<think>", "</think>", "<|tool_call_begin|>"],
            ..PLAIN
        },
        "deepseek_r1" => Syntax {
            calls: &[["<｜tool▁call▁begin｜>function<｜tool▁sep｜>", "\n```json\n", "\n```<｜tool▁call▁end｜>"]],
            trigger: "<｜tool▁calls▁begin｜>",
            section: Some(Section {
                begin: "<｜tool▁calls▁begin｜>",
                end: "<｜tool▁calls▁end｜>",
                separator: "\n",
                sequence: false,
                ..SECTION
            }),
            ..PLAIN
        },
        "deepseek_v3_1" => Syntax {
            calls: &[["<｜tool▁call▁begin｜>", "<｜tool▁sep｜>", "<｜tool▁call▁end｜>"]],
            trigger: "<｜tool▁calls▁begin｜>",
            section: Some(Section {
                begin: "<｜tool▁calls▁begin｜>",
                end: "<｜tool▁calls▁end｜>",
                sequence: false,
                ..SECTION
            }),
            ..PLAIN
        },
        "deepseek_v3_2" => Syntax {
            calls: &[["<｜DSML｜invoke name=\"", "\">\n", "</｜DSML｜invoke>\n"]],
            style: "deepseek_xml",
            trigger: "<｜DSML｜function_calls>",
            section: Some(Section {
                begin: "<｜DSML｜function_calls>\n",
                end: "</｜DSML｜function_calls>",
                lead: "\n\n",
                ..SECTION
            }),
            ..PLAIN
        },
        "deepseek_v4" => Syntax {
            calls: &[["<｜DSML｜invoke name=\"", "\">\n", "</｜DSML｜invoke>\n"]],
            style: "deepseek_xml",
            trigger: "<｜DSML｜tool_calls>",
            section: Some(Section {
                begin: "<｜DSML｜tool_calls>\n",
                end: "</｜DSML｜tool_calls>",
                lead: "\n\n",
                ..SECTION
            }),
            ..PLAIN
        },
        "deepseek_v4_1" => Syntax {
            calls: &[["<｜DSML｜ invoke name=\"", "\">\n", "</｜DSML｜ invoke>\n"]],
            style: "deepseek_v4_1_xml",
            trigger: "<｜DSML｜ calls>",
            section: Some(Section {
                begin: "<｜DSML｜ calls>\n", end: "</｜DSML｜ calls>", lead: "\n\n", ..SECTION
            }),
            ..PLAIN
        },
        "minimax" => Syntax {
            calls: &[["<invoke name=\"", "\">\n", "</invoke>\n"]],
            style: "minimax_xml",
            trigger: "<minimax:tool_call>",
            section: Some(Section {
                begin: "<minimax:tool_call>\n",
                end: "</minimax:tool_call>",
                lead: "\n",
                forced_list: true,
                ..SECTION
            }),
            ..PLAIN
        },
        _ => return None,
    })
}

/// The format for a syntax, or `None` where that syntax is not known.
pub(super) fn format(model: &str, tools: &[BoundTool<'_>], choice: Choice) -> Option<Value> {
    match model {
        "glm_4_7" => Some(glm(tools, choice)),
        "harmony" => Some(harmony(tools, choice)),
        "plamo3" => Some(plamo3(tools, choice)),
        _ => syntax(model).map(|syntax| syntax.format(tools, choice)),
    }
}

impl Syntax {
    fn format(&self, tools: &[BoundTool<'_>], choice: Choice) -> Value {
        let calls: Vec<Value> = tools.iter().flat_map(|tool| self.calls_of(tool)).collect();
        match (&self.section, choice) {
            (Some(section), Choice::Auto) => {
                let list = separated(&calls, section.separator, false);
                triggered(&[self.trigger], vec![tag(section.begin, list, section.end)], self.excludes, false)
            }
            (Some(section), Choice::Required) => section.around(separated(&calls, section.separator, false)),
            (Some(section), Choice::Forced) if section.forced_list => section.around(separated(&calls, "", true)),
            (Some(section), Choice::Forced) if section.sequence => section.around(first(&calls)),
            (Some(section), Choice::Forced) => merged(section, first(&calls)),
            (None, Choice::Auto) => triggered(&[self.trigger], calls, self.excludes, false),
            (None, Choice::Required) if self.listed => separated(&calls, "", false),
            (None, Choice::Required) => triggered(&[self.trigger], calls, self.excludes, true),
            (None, Choice::Forced) if self.listed => separated(&calls, "", true),
            (None, Choice::Forced) => first(&calls),
        }
    }

    fn calls_of(&self, tool: &BoundTool<'_>) -> Vec<Value> {
        let of = |[before, after, end]: &[&str; 3]| {
            let arguments = schema(tool.schema(), self.style);
            let content = match self.numbered {
                Some(constant) => sequence(vec![regex("\\d+"), constant_text(constant), arguments]),
                None => arguments,
            };
            tag(&format!("{before}{}{after}", tool.name()), content, end)
        };
        self.calls.iter().map(of).collect()
    }
}

impl Section {
    fn around(&self, calls: Value) -> Value {
        if !self.sequence {
            return tag(self.begin, calls, self.end);
        }
        sequence(vec![constant_text(&format!("{}{}", self.lead, self.begin)), calls, constant_text(self.end)])
    }
}

/// One call with its section's own begin and end joined to it.
fn merged(section: &Section, call: Value) -> Value {
    let text = |key: &str| call.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (begin, end) = (text("begin"), text("end"));
    let content = call.get("content").cloned().unwrap_or_default();
    tag(&format!("{}{begin}", section.begin), content, &format!("{end}{}", section.end))
}

fn first(calls: &[Value]) -> Value {
    calls.first().cloned().unwrap_or_default()
}

/// Lets every list of calls end after its first.
pub(super) fn limit_to_one(format: &mut Value) {
    match format {
        Value::Object(map) => {
            if map.contains_key("stop_after_first") {
                map.insert("stop_after_first".to_owned(), Value::Bool(true));
            }
            // Schemas are the user's own.
            map.iter_mut().filter(|(key, _)| *key != "json_schema").for_each(|(_, value)| limit_to_one(value));
        }
        Value::Array(items) => items.iter_mut().for_each(limit_to_one),
        _ => {}
    }
}

/// A whole structural tag, as the text that sampling parameters carry.
pub(super) fn structural_tag(format: Value) -> String {
    crate::api::python::dumps(&json!({"type": "structural_tag", "format": format}))
}

/// GLM: calls of tools whose schema does not bind still have their keys and plain types bound.
fn glm(tools: &[BoundTool<'_>], choice: Choice) -> Value {
    const EXCLUDES: [&str; 7] =
        ["<think>", "</think>", "</tool_call>", "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"];
    let call = |tool: &BoundTool<'_>| {
        let begin = format!("<tool_call>{}", tool.name());
        let loose = if tool.strict { None } else { glm_loose(tool) };
        tag(&begin, loose.unwrap_or_else(|| schema(tool.schema(), "glm_xml")), "</tool_call>")
    };
    let calls: Vec<Value> = tools.iter().map(call).collect();
    let all_strict = tools.iter().all(|tool| tool.strict);
    match choice {
        Choice::Auto => triggered(&["<tool_call>"], calls, &EXCLUDES, false),
        Choice::Required if all_strict => triggered(&["<tool_call>"], calls, &EXCLUDES, true),
        Choice::Forced if all_strict => first(&calls),
        Choice::Required => separated(&calls, "", false),
        Choice::Forced => separated(&calls, "", true),
    }
}

/// Key and value pairs in any order, where the schema is a plain object.
fn glm_loose(tool: &BoundTool<'_>) -> Option<Value> {
    let parameters = tool.tool.function.parameters.as_ref()?;
    let special = ["$ref", "allOf", "anyOf", "oneOf", "patternProperties"];
    let open = parameters.get("additionalProperties") == Some(&Value::Bool(true));
    let properties = parameters.get("properties").and_then(Value::as_object).filter(|map| !map.is_empty())?;
    if open || special.iter().any(|key| parameters.contains_key(*key)) {
        return None;
    }
    let pair = |(key, property): (&String, &Value)| {
        sequence(vec![
            constant_text(&format!("<arg_key>{key}</arg_key><arg_value>")),
            glm_value(property),
            constant_text("</arg_value>"),
        ])
    };
    let pairs: Vec<Value> = properties.iter().map(pair).collect();
    Some(json!({"type": "star", "content": one_of(pairs)}))
}

fn glm_value(property: &Value) -> Value {
    const EXCLUDES: [&str; 8] = [
        "<think>",
        "</think>",
        "<tool_call>",
        "</tool_call>",
        "<arg_key>",
        "</arg_key>",
        "<arg_value>",
        "</arg_value>",
    ];
    if let Some(values) = property.get("enum").and_then(Value::as_array) {
        let constant = |value: &Value| match value.as_str() {
            Some(text) => constant_text(text),
            None => constant_text(&crate::api::python::dumps(value)),
        };
        return one_of(values.iter().map(constant).collect());
    }
    match property.get("type") {
        None | Some(Value::Null) => any_text(&EXCLUDES),
        Some(Value::String(kind)) if kind == "string" => any_text(&EXCLUDES),
        Some(Value::Array(kinds)) => {
            let (texts, others): (Vec<&Value>, Vec<&Value>) =
                kinds.iter().partition(|kind| kind.as_str() == Some("string"));
            let mut formats: Vec<Value> = others.iter().map(|kind| glm_value(&json!({"type": kind}))).collect();
            if !texts.is_empty() {
                formats.push(any_text(&EXCLUDES));
            }
            one_of(formats)
        }
        Some(kind) => schema(json!({"type": kind}), "json"),
    }
}

/// The ways in which harmony marks JSON, and where it may put a call.
const HARMONY_JSON: [&str; 2] = [" json", " <|constrain|>json"];
const HARMONY_CHANNELS: [&str; 3] = ["<|channel|>commentary", "<|channel|>analysis", "<|channel|>final"];

fn harmony_end() -> Value {
    json!(["<|end|>", ""])
}

fn harmony(tools: &[BoundTool<'_>], choice: Choice) -> Value {
    let mut tags = Vec::new();
    for tool in tools {
        let name = tool.name();
        for channel_first in [false, true] {
            for constrain in HARMONY_JSON {
                for channel in HARMONY_CHANNELS {
                    let begin = if channel_first {
                        format!("{channel} to=functions.{name}{constrain}<|message|>")
                    } else {
                        format!(" to=functions.{name}{channel}{constrain}<|message|>")
                    };
                    tags.push(tag_with_ends(&begin, schema(tool.schema(), "json"), harmony_end()));
                }
            }
        }
    }
    if choice == Choice::Auto {
        for constrain in HARMONY_JSON.into_iter().chain([""]) {
            let begin = format!("<|channel|>final{constrain}<|message|>");
            tags.push(tag_with_ends(&begin, any_text(&[]), harmony_end()));
        }
    }
    harmony_reply(true, json!({"type": "or", "elements": tags}))
}

/// A harmony reply whose last message has this content.
fn harmony_reply(commentary: bool, content: Value) -> Value {
    let optional = |channel: &str| {
        let message = tag(&format!("<|channel|>{channel}<|message|>"), any_text(&[]), "<|end|>");
        json!({"type": "optional", "content": sequence(vec![message, constant_text("<|start|>assistant")])})
    };
    let mut elements = vec![optional("analysis")];
    if commentary {
        elements.push(optional("commentary"));
    }
    elements.push(content);
    sequence(elements)
}

/// A harmony reply whose final message follows a grammar.
pub(super) fn harmony_final(format: Value) -> Value {
    let is_schema = format.get("type").and_then(Value::as_str) == Some("json_schema");
    let final_tag = |constrain: &str| {
        tag_with_ends(&format!("<|channel|>final{constrain}<|message|>"), format.clone(), harmony_end())
    };
    let content =
        if is_schema { json!({"type": "or", "elements": HARMONY_JSON.map(final_tag)}) } else { final_tag("") };
    harmony_reply(false, content)
}

fn plamo3(tools: &[BoundTool<'_>], choice: Choice) -> Value {
    let call = |tool: &BoundTool<'_>| {
        tag(
            &format!(
                "<|plamo:begin_tool_request:plamo|><|plamo:begin_tool_name:plamo|>{}<|plamo:end_tool_name:plamo|>\
                 <|plamo:begin_tool_arguments:plamo|><|plamo:constrain|>json<|plamo:msg|>",
                tool.name()
            ),
            schema(tool.schema(), "json"),
            "<|plamo:end_tool_arguments:plamo|><|plamo:end_tool_request:plamo|>",
        )
    };
    let calls: Vec<Value> = tools.iter().map(call).collect();
    let end = "<|plamo:end_tool_requests:plamo|>";
    let requests = tag_with_ends(
        "<|plamo:begin_tool_requests:plamo|>",
        separated(&calls, "", choice == Choice::Forced),
        json!([end, format!("{end}<|plamo:tag|>")]),
    );
    match choice {
        Choice::Auto => triggered(&["<|plamo:begin_tool_requests:plamo|>"], vec![requests], &[], false),
        Choice::Required | Choice::Forced => requests,
    }
}

/// Any of these; one alone stands for itself.
pub(super) fn one_of(formats: Vec<Value>) -> Value {
    if formats.len() == 1 { first(&formats) } else { json!({"type": "or", "elements": formats}) }
}

fn tag(begin: &str, content: Value, end: &str) -> Value {
    tag_with_ends(begin, content, Value::from(end))
}

fn tag_with_ends(begin: &str, content: Value, end: Value) -> Value {
    json!({"type": "tag", "begin": begin, "content": content, "end": end})
}

/// Text that a schema describes, written in a style.
pub(super) fn schema(schema: Value, style: &str) -> Value {
    json!({
        "type": "json_schema", "json_schema": schema, "style": style, "any_order": false,
        "max_whitespace_cnt": null, "excludes": [],
    })
}

/// Text that an expression matches.
pub(super) fn regex(pattern: &str) -> Value {
    json!({"type": "regex", "pattern": pattern})
}

/// This text.
pub(super) fn constant_text(text: &str) -> Value {
    json!({"type": "const_string", "value": text})
}

fn any_text(excludes: &[&str]) -> Value {
    json!({"type": "any_text", "excludes": excludes, "max_tokens": null, "max_chars": null})
}

fn sequence(elements: Vec<Value>) -> Value {
    json!({"type": "sequence", "elements": elements})
}

fn separated(tags: &[Value], separator: &str, stop_after_first: bool) -> Value {
    json!({
        "type": "tags_with_separator", "tags": tags, "separator": separator, "at_least_one": true,
        "stop_after_first": stop_after_first,
    })
}

/// Plain text in which tags may, or must, come.
pub(super) fn triggered(triggers: &[&str], tags: Vec<Value>, excludes: &[&str], at_least_one: bool) -> Value {
    json!({
        "type": "triggered_tags", "triggers": triggers, "tags": tags, "at_least_one": at_least_one,
        "stop_after_first": false, "excludes": excludes,
    })
}
