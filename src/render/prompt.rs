//! The prompt of a request: its template's variables, its text, its ids.

use serde_json::{Map, Value};

use super::conversation;
use super::limits::TokenLimits;
use crate::api::chat::{ChatRequest, Tool, ToolChoice};
use crate::api::error::ApiError;
use crate::api::messages::Message;
use crate::model::Model;
use crate::model::template::value::from_json;
use crate::model::template::{ContentFormat, Dict, LocalTime, Template, TemplateError};

/// What transformers appends to the last message to find its end again.
const CONTINUE_TAG: &str = "CONTINUE_FINAL_MESSAGE_TAG ";
/// Variables that transformers takes as options of its own: they never reach a template.
const OPTIONS: [&str; 12] = [
    "conversation",
    "continue_final_message",
    "tokenize",
    "sanitize_control_tokens",
    "padding",
    "truncation",
    "max_length",
    "return_tensors",
    "return_dict",
    "return_assistant_tokens_mask",
    "tokenizer_kwargs",
    "chat_template",
];

/// A prompt.
#[derive(Debug, Clone)]
pub(super) struct Prompt {
    /// Its text, unless the request gave ids.
    pub(super) text: Option<String>,
    /// Its ids.
    pub(super) ids: Vec<u32>,
    /// The span of each id in the text, in characters, where asked for.
    pub(super) spans: Option<Vec<(usize, usize)>>,
}

/// What the template is asked to write, beside the variables.
pub(super) struct Chat<'a> {
    /// The conversation.
    pub(super) messages: &'a [Message],
    /// Its tools.
    pub(super) tools: Option<&'a [Tool]>,
    /// A template in place of the model's.
    pub(super) template: Option<&'a str>,
    /// Whether the last message is left open.
    pub(super) continue_final_message: bool,
    /// Whether the template opens the reply.
    pub(super) add_generation_prompt: bool,
}

/// Refuses templates in requests unless the server trusts them.
pub(super) fn check_trust(
    model: &Model,
    template: Option<&str>,
    kwargs: Option<&Map<String, Value>>,
) -> Result<(), ApiError> {
    let in_kwargs = kwargs.and_then(|kwargs| kwargs.get("chat_template")).is_some_and(|value| !value.is_null());
    if !model.options().trust_request_chat_template && (template.is_some() || in_kwargs) {
        return Err(ApiError::bad_request(
            "Chat template is passed with request, but --trust-request-chat-template is not set. Refused request \
             with untrusted chat template.",
        ));
    }
    Ok(())
}

/// The effective variables: the server's, the request's, and what the request's own fields say.
pub fn template_kwargs(model: &Model, request: &ChatRequest) -> Map<String, Value> {
    let mut own = request.chat_template_kwargs.clone().unwrap_or_default();
    own.insert("add_generation_prompt".to_owned(), Value::Bool(request.add_generation_prompt));
    own.insert("continue_final_message".to_owned(), Value::Bool(request.continue_final_message));
    if let Some(documents) = &request.documents {
        let documents = documents.iter().map(|document| Value::Object(document.0.clone())).collect();
        own.insert("documents".to_owned(), Value::Array(documents));
    }
    if let Some(effort) = &request.reasoning_effort {
        own.insert("reasoning_effort".to_owned(), Value::from(effort.0.as_str()));
        let given = request.chat_template_kwargs.as_ref().is_some_and(|kwargs| kwargs.contains_key("enable_thinking"));
        if !given {
            own.insert("enable_thinking".to_owned(), Value::Bool(effort.0 != "none"));
        }
    }
    merge_kwargs(model.default_template_kwargs(), own)
}

/// Variables over defaults; null and "auto" count as not given.
pub(super) fn merge_kwargs(defaults: &Map<String, Value>, own: Map<String, Value>) -> Map<String, Value> {
    let mut merged = defaults.clone();
    for (key, value) in own {
        if !value.is_null() && value.as_str() != Some("auto") {
            merged.insert(key, value);
        }
    }
    merged
}

/// True where the server leaves tools out of prompts that may not call them.
pub(super) fn hides_tools(model: &Model, request: &ChatRequest) -> bool {
    model.options().exclude_tools_when_tool_choice_none && request.tool_choice == Some(ToolChoice::None)
}

/// The text that the template writes for a request.
pub(super) fn text_of_request(
    model: &Model,
    request: &ChatRequest,
    kwargs: &Map<String, Value>,
    now: LocalTime,
) -> Result<String, ApiError> {
    let hidden = hides_tools(model, request);
    let chat = Chat {
        messages: &request.messages,
        tools: request.tools.as_deref().filter(|_| !hidden),
        template: request.chat_template.as_deref(),
        continue_final_message: request.continue_final_message,
        add_generation_prompt: request.add_generation_prompt,
    };
    text_of_chat(model, &chat, kwargs, now)
}

/// The text that the template writes for a chat.
pub(super) fn text_of_chat(
    model: &Model,
    chat: &Chat<'_>,
    kwargs: &Map<String, Value>,
    now: LocalTime,
) -> Result<String, ApiError> {
    let refuse = |error: TemplateError| ApiError::by_template(error.to_string());
    if kwargs.contains_key("tokenize") {
        return Err(ApiError::bad_request("Found unexpected chat template kwargs from request: {'tokenize'}"));
    }
    let requested = chat.template.or_else(|| kwargs.get("chat_template").and_then(Value::as_str));
    let template = model.templates().resolve(requested, chat.tools.is_some()).map_err(refuse)?;
    let wants_parts = match model.options().content_format {
        ContentFormat::Auto => template.wants_parts(),
        ContentFormat::String => false,
        ContentFormat::Openai => true,
    };
    let mut conversation = conversation::build(model, chat.messages, wants_parts)?;
    if !template.knows_developer() {
        conversation::fold_developer(&mut conversation);
    }
    if conversation.is_empty() {
        return Err(ApiError::bad_request(
            "Cannot apply chat template to an empty conversation. Provide at least one message.",
        ));
    }
    let open = if chat.continue_final_message {
        Some(open_last_message(&mut conversation, &template, chat.add_generation_prompt).map_err(refuse)?)
    } else {
        None
    };
    let context = context(model, conversation, chat.tools, kwargs).map_err(refuse)?;
    let text = template.render(context, now).map_err(refuse)?;
    match open {
        Some(last) => cut_at_tag(text, &last).map_err(refuse),
        None => Ok(text),
    }
}

fn context(
    model: &Model,
    conversation: Vec<Dict>,
    tools: Option<&[Tool]>,
    kwargs: &Map<String, Value>,
) -> Result<Dict, TemplateError> {
    if kwargs.contains_key("messages") {
        return Err(TemplateError::new("render() got multiple values for keyword argument 'messages'"));
    }
    let mut context = Dict::with_capacity(kwargs.len() + 12);
    let messages: Vec<minijinja::Value> = conversation.into_iter().map(Dict::into_value).collect();
    context.push("messages", messages);
    let tools = tools.map(|tools| tools.iter().map(|tool| from_json(&tool.to_json())).collect::<Vec<_>>());
    context.push("tools", tools.map_or(minijinja::Value::from(()), minijinja::Value::from));
    context.push("documents", minijinja::Value::from(()));
    for (name, text) in model.encoder().specials() {
        context.set(name, minijinja::Value::from(text.as_str()));
    }
    for (name, value) in kwargs {
        if !OPTIONS.contains(&name.as_str()) {
            context.set(name, from_json(value));
        }
    }
    Ok(context)
}

/// Marks the end of the last message; gives its text before the mark.
fn open_last_message(
    conversation: &mut [Dict],
    template: &Template,
    add_generation_prompt: bool,
) -> Result<String, TemplateError> {
    if add_generation_prompt {
        return Err(TemplateError::new(
            "continue_final_message and add_generation_prompt are not compatible. Use continue_final_message when \
             you want the model to continue the final message, and add_generation_prompt when you want to add a \
             header that will prompt it to start a new assistant message instead.",
        ));
    }
    let missing =
        || TemplateError::new("continue_final_message is set but the final message has no \"content\" to continue!");
    let last = conversation.last_mut().ok_or_else(missing)?;
    let content = last.get("content").filter(|content| !content.is_none()).cloned().ok_or_else(missing)?;
    if !template.mentions("content") {
        return Err(TemplateError::new(
            "continue_final_message is set to \"content\" but this is not an accepted field in the chat_template",
        ));
    }
    if let Some(text) = content.as_str() {
        last.set("content", format!("{text}{CONTINUE_TAG}"));
        return Ok(text.to_owned());
    }
    let mut parts: Vec<minijinja::Value> = content.try_iter().map(Iterator::collect).unwrap_or_default();
    for part in parts.iter_mut().rev() {
        let Some(mut dict) = part.downcast_object_ref::<Dict>().cloned() else { continue };
        let Some(text) = dict.get("text").and_then(|text| text.as_str().map(str::to_owned)) else { continue };
        dict.set("text", format!("{text}{CONTINUE_TAG}"));
        *part = dict.into_value();
        last.set("content", parts);
        return Ok(text);
    }
    Err(TemplateError::new(
        "continue_final_message is set but we could not find any text to continue in the final message!",
    ))
}

/// Cuts the text at the mark that ends the last message.
fn cut_at_tag(text: String, last: &str) -> Result<String, TemplateError> {
    let tag = CONTINUE_TAG.trim();
    let at = text.rfind(tag).filter(|_| text.contains(last.trim())).ok_or_else(|| {
        TemplateError::new(
            "continue_final_message is set but the final message does not appear in the chat after applying the \
             chat template! This can happen if the chat template deletes portions of the final message. Please \
             verify the chat template and final message in your chat to ensure they are compatible.",
        )
    })?;
    let (before, after) = text.split_at(at);
    Ok(if after.starts_with(CONTINUE_TAG) { before } else { before.trim_end() }.to_owned())
}

/// The prompt that a text makes.
pub(super) fn of_text(model: &Model, text: String, limits: &TokenLimits) -> Result<Prompt, ApiError> {
    let checked = limits.check_text(model, &text)?;
    let (ids, spans) = limits.encode(model, checked)?;
    Ok(Prompt { text: Some(text), ids, spans: limits.spans.then_some(spans) })
}

/// The prompt that ids make.
pub(super) fn of_ids(_: &Model, ids: &[u32], limits: &TokenLimits) -> Result<Prompt, ApiError> {
    Ok(Prompt { text: None, ids: limits.cut_ids(ids)?, spans: None })
}
