//! RENDER: messages → chat template → token ids → [`GenerateRequest`], and completions' prompts → token ids.
//!
//! In: a model and a checked request. Out: [`Rendered`]: what `/render` returns and an engine takes, and what the
//! coupled path needs beside it. Pure: the moment and the request's id are given. Deliberately absent: HTTP, engines,
//! and the reading of what the model answers.

mod adjust;
mod conversation;
mod harmony;
mod limits;
mod prompt;
mod reasoning;
mod sampling;
mod tags;

use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::api::chat::{ChatRequest, Tool, ToolChoice};
use crate::api::completions::{CompletionRequest, Prompt};
use crate::api::error::ApiError;
use crate::api::generate::GenerateRequest;
use crate::api::tokenize::TokenizeChat;
use crate::model::Model;
use crate::model::template::LocalTime;
use crate::parsers::{self, Dialect};
use limits::TokenLimits;
pub use prompt::template_kwargs;

/// Fields of a request to an engine beside its parameters: a map that grows hashes all of its keys again.
const MOST_WRITTEN: usize = 12;

/// What a rendering is for, and what it must not find out by itself.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The response's id: `chatcmpl-` or `cmpl-` and the `X-Request-Id` header, the body's `request_id`, or a random
    /// tail.
    pub request_id: String,
    /// True where the result goes to an engine: adds the checks that a coupled server makes there.
    pub for_engine: bool,
}

/// A rendered request.
#[derive(Debug, Clone)]
pub struct Rendered {
    /// What `/render` returns and an engine takes.
    pub generate: GenerateRequest,
    /// The prompt's text, where the request gave no ids.
    pub prompt_text: Option<String>,
    /// Effective template variables: the server's, the request's, and the request's own fields.
    pub chat_template_kwargs: Map<String, Value>,
}

/// A chat as its template writes it; its text is not tokenized yet.
#[derive(Debug)]
pub struct Written {
    prompt: WrittenPrompt,
    limits: TokenLimits,
    template_kwargs: Map<String, Value>,
}

#[derive(Debug)]
enum WrittenPrompt {
    Text(String),
    /// Harmony writes ids.
    Encoded(prompt::Prompt),
}

/// Runs the template of a chat. `now` is the moment that templates may print.
pub fn write_chat(model: &Model, request: &ChatRequest, now: LocalTime) -> Result<Written, ApiError> {
    if request.use_beam_search {
        return Err(ApiError::bad_request("Beam search is not supported by the render endpoint"));
    }
    check_tool_parser(model, request)?;
    let template_kwargs = prompt::template_kwargs(model, request);
    let (prompt, limits) = if is_harmony(model) {
        // Harmony knows neither templates nor cutting.
        let tools = request.tools.as_deref().filter(|_| !prompt::hides_tools(model, request));
        let (ids, text) = harmony::prompt(model, &request.messages, tools, request.reasoning_effort.as_ref(), now)?;
        let prompt = prompt::Prompt { text: Some(text), ids, spans: None };
        (WrittenPrompt::Encoded(prompt), TokenLimits::of_harmony(model, request))
    } else {
        prompt::check_trust(model, request.chat_template.as_deref(), request.chat_template_kwargs.as_ref())?;
        let limits = TokenLimits::of_chat(model, request)?;
        (WrittenPrompt::Text(prompt::text_of_request(model, request, &template_kwargs, now)?), limits)
    };
    Ok(Written { prompt, limits, template_kwargs })
}

/// Makes a written chat a request. `dialect` is what the model speaks, where a parser is configured.
pub fn chat(
    model: &Model,
    dialect: Option<&Arc<Dialect>>,
    request: &ChatRequest,
    written: Written,
    settings: &Settings,
) -> Result<Rendered, ApiError> {
    let Written { prompt, limits, template_kwargs } = written;
    let prompt = match prompt {
        WrittenPrompt::Text(text) => prompt::of_text(model, text, &limits)?,
        WrittenPrompt::Encoded(prompt) => prompt,
    };
    let adjusted = adjust::apply(model, request)?;
    let mut rendered = finish(model, prompt, &limits, settings, sampling::chat(request).adjusted(&adjusted))?;
    // Harmony output is read without template variables.
    let read_with = if is_harmony(model) { Map::new() } else { template_kwargs.clone() };
    fill_chat(&mut rendered, request, &read_with);
    fill_reasoning(model, dialect, &mut rendered, request, &template_kwargs);
    rendered.chat_template_kwargs = template_kwargs;
    Ok(rendered)
}

/// Renders a completion: one result per prompt.
pub fn completions(model: &Model, request: &CompletionRequest, settings: &Settings) -> Result<Vec<Rendered>, ApiError> {
    if request.use_beam_search {
        return Err(ApiError::bad_request("Beam search is not supported by the render endpoint"));
    }
    check_suffix(request)?;
    let limits = TokenLimits::of_completion(model, request)?;
    let prompts = prompts_of(model, request, &limits, settings.for_engine)?;
    let many = prompts.len() > 1;
    let mut out = Vec::with_capacity(prompts.len());
    for (i, prompt) in prompts.into_iter().enumerate() {
        let mut rendered = finish(model, prompt, &limits, settings, sampling::completion(request))?;
        let id = &settings.request_id;
        if many {
            rendered.generate.request_id = format!("{id}-{i}");
        }
        fill_common(&mut rendered.generate, &Common::of_completion(request));
        out.push(rendered);
    }
    Ok(out)
}

fn prompts_of(
    model: &Model,
    request: &CompletionRequest,
    limits: &TokenLimits,
    for_engine: bool,
) -> Result<Vec<prompt::Prompt>, ApiError> {
    if request.prompt_embeds.is_some() {
        return Err(ApiError::bad_param(
            "prompt_embeds",
            "You must set `--enable-prompt-embeds` to input `prompt_embeds` (parameter=prompt_embeds)",
        ));
    }
    // vLLM's coupled server does not name the parameter, its render server does.
    let one_at_least = || {
        let message = "You must pass at least one prompt";
        if for_engine { ApiError::bad_request(message) } else { crate::api::validate::bad_param("prompt", message) }
    };
    match request.prompt.as_ref().ok_or_else(one_at_least)? {
        Prompt::Text(text) => Ok(vec![prompt::of_text(model, text.clone(), limits)?]),
        Prompt::Texts(texts) => texts.iter().map(|text| prompt::of_text(model, text.clone(), limits)).collect(),
        Prompt::Ids(ids) if ids.is_empty() => Err(one_at_least()),
        Prompt::Ids(ids) => Ok(vec![prompt::of_ids(model, ids, limits)?]),
        Prompt::IdLists(lists) => lists.iter().map(|ids| prompt::of_ids(model, ids, limits)).collect(),
    }
}

fn check_suffix(request: &CompletionRequest) -> Result<(), ApiError> {
    if request.suffix.is_none() {
        return Ok(());
    }
    let refuse = |message: &str| Err(ApiError::bad_param("suffix", message));
    if request.echo == Some(true) {
        return refuse("Echo is unsupported with suffix.");
    }
    if request.prompt_embeds.is_some() {
        return refuse("suffix is not supported with prompt_embeds");
    }
    if request.truncate_prompt_tokens.is_some() {
        return refuse("suffix is not supported with truncate_prompt_tokens");
    }
    match &request.prompt {
        Some(Prompt::Text(_) | Prompt::Texts(_)) => {
            refuse("suffix is only supported for models with FIM completion rendering")
        }
        _ => refuse("suffix requires text prompt input for FIM completion rendering"),
    }
}

/// Without a tool parser, and unless the model speaks harmony, a request may not ask for tool calls.
fn check_tool_parser(model: &Model, request: &ChatRequest) -> Result<(), ApiError> {
    let options = model.options();
    // vLLM takes the tool parser up only together with automatic tool choice.
    if is_harmony(model) || options.tool_parser.is_some() && options.enable_auto_tool_choice {
        return Ok(());
    }
    match &request.tool_choice {
        None | Some(ToolChoice::None) => Ok(()),
        Some(ToolChoice::Auto) if options.enable_auto_tool_choice => Ok(()),
        Some(ToolChoice::Auto) => Err(ApiError::bad_request(
            "\"auto\" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set",
        )),
        Some(choice) => {
            let shown = match choice {
                ToolChoice::Named(name) => format!("function \"{name}\""),
                other => other.to_json().to_string(),
            };
            Err(ApiError::bad_request(format!("tool_choice={shown} requires --tool-call-parser to be set")))
        }
    }
}

/// gpt-oss speaks harmony, which vLLM renders without a template.
fn is_harmony(model: &Model) -> bool {
    model.config().model_type == "gpt_oss"
}

/// The ids of a text, of any length.
pub fn tokenize_text(model: &Model, text: &str, add_special: bool) -> Result<Vec<u32>, ApiError> {
    Ok(prompt::of_text(model, text.to_owned(), &TokenLimits::none(add_special))?.ids)
}

/// The ids of a chat, of any length.
pub fn tokenize_chat(model: &Model, request: &TokenizeChat, now: LocalTime) -> Result<Vec<u32>, ApiError> {
    if is_harmony(model) {
        let tools = request.tools.as_deref().filter(|tools| !tools.is_empty());
        return Ok(harmony::prompt(model, &request.messages, tools, None, now)?.0);
    }
    prompt::check_trust(model, request.chat_template.as_deref(), request.chat_template_kwargs.as_ref())?;
    let mut own = request.chat_template_kwargs.clone().unwrap_or_default();
    own.insert("add_generation_prompt".to_owned(), Value::Bool(request.add_generation_prompt));
    own.insert("continue_final_message".to_owned(), Value::Bool(request.continue_final_message));
    let kwargs = prompt::merge_kwargs(model.default_template_kwargs(), own);
    let chat = prompt::Chat {
        messages: &request.messages,
        tools: request.tools.as_deref(),
        template: request.chat_template.as_deref(),
        continue_final_message: request.continue_final_message,
        add_generation_prompt: request.add_generation_prompt,
    };
    let text = prompt::text_of_chat(model, &chat, &kwargs, now)?;
    tokenize_text(model, &text, request.add_special_tokens)
}

/// Turns a prompt into a request: limits, sampling parameters, and the engine's own checks where asked for.
fn finish(
    model: &Model,
    prompt: prompt::Prompt,
    limits: &TokenLimits,
    settings: &Settings,
    source: sampling::Source<'_>,
) -> Result<Rendered, ApiError> {
    if prompt.ids.is_empty() {
        return Err(ApiError::bad_request("No token_ids rendered"));
    }
    let max_tokens = limits.max_tokens(model, prompt.ids.len())?;
    let sampling_params = sampling::params(model, &source, max_tokens)?;
    if settings.for_engine {
        sampling::check_for_engine(model, &source)?;
        limits::check_vocabulary(model, &prompt.ids)?;
    }
    let mut request = GenerateRequest {
        request_id: settings.request_id.clone(),
        token_ids: prompt.ids,
        sampling_params,
        model: source.model.map(str::to_owned),
        rest: Map::with_capacity(MOST_WRITTEN),
    };
    if let Some(spans) = prompt.spans {
        request.rest.insert("token_offsets".to_owned(), json!(spans));
    }
    Ok(Rendered { generate: request, prompt_text: prompt.text, chat_template_kwargs: Map::new() })
}

/// Fields of the result that chats and completions fill alike.
struct Common<'a> {
    return_token_ids: Option<bool>,
    stream: bool,
    stream_options: Option<Value>,
    cache_salt: Option<&'a str>,
    priority: i64,
    kv_transfer_params: Option<&'a Map<String, Value>>,
    ec_transfer_params: Option<&'a Map<String, Value>>,
}

macro_rules! common {
    ($request:expr) => {{
        let stream = $request.stream == Some(true);
        Common {
            return_token_ids: $request.return_token_ids,
            stream,
            stream_options: $request.stream_options.as_ref().filter(|_| stream).map(|options| options.to_json()),
            cache_salt: $request.cache_salt.as_ref().map(|salt| salt.0.as_str()),
            priority: $request.priority.0,
            kv_transfer_params: $request.kv_transfer_params.as_ref(),
            ec_transfer_params: $request.ec_transfer_params.as_ref(),
        }
    }};
}

impl<'a> Common<'a> {
    fn of_chat(request: &'a ChatRequest) -> Self {
        common!(request)
    }

    fn of_completion(request: &'a CompletionRequest) -> Self {
        common!(request)
    }
}

fn fill_common(request: &mut GenerateRequest, common: &Common<'_>) {
    let rest = &mut request.rest;
    if let Some(flag) = common.return_token_ids {
        rest.insert("return_token_ids".to_owned(), Value::Bool(flag));
    }
    rest.insert("output_mode".to_owned(), Value::from("tokens"));
    rest.insert("stream".to_owned(), Value::Bool(common.stream));
    if let Some(options) = &common.stream_options {
        rest.insert("stream_options".to_owned(), options.clone());
    }
    if let Some(salt) = common.cache_salt {
        rest.insert("cache_salt".to_owned(), Value::from(salt));
    }
    rest.insert("priority".to_owned(), Value::from(common.priority));
    for (key, params) in
        [("kv_transfer_params", common.kv_transfer_params), ("ec_transfer_params", common.ec_transfer_params)]
    {
        if let Some(params) = params.filter(|params| !params.is_empty()) {
            rest.insert(key.to_owned(), Value::Object(params.clone()));
        }
    }
}

fn fill_chat(rendered: &mut Rendered, request: &ChatRequest, template_kwargs: &Map<String, Value>) {
    let context = json!({
        "tools": request.tools.as_ref().map(|tools| tools.iter().map(Tool::to_json).collect::<Vec<_>>()),
        "tool_choice": request.tool_choice.as_ref().map(ToolChoice::to_json),
        "parallel_tool_calls": request.parallel_tool_calls,
        "include_reasoning": request.include_reasoning,
        "chat_template_kwargs": template_kwargs,
        "history_tool_call_cnt": conversation::count_tool_calls(&request.messages),
    });
    fill_common(&mut rendered.generate, &Common::of_chat(request));
    rendered.generate.rest.insert("parse_context".to_owned(), context);
}

/// Whether a grammar may begin at the first token, and what the engine's own reasoning parser needs to know.
fn fill_reasoning(
    model: &Model,
    dialect: Option<&Arc<Dialect>>,
    rendered: &mut Rendered,
    request: &ChatRequest,
    template_kwargs: &Map<String, Value>,
) {
    let ended = reasoning::ended(model, dialect, request, &rendered.generate.token_ids, template_kwargs);
    let rest = &mut rendered.generate.rest;
    if let Some(ended) = ended {
        rest.insert("reasoning_ended".to_owned(), Value::Bool(ended));
    }
    if model.options().reasoning_parser.is_some() {
        rest.insert("reasoning_parser_kwargs".to_owned(), json!({"chat_template_kwargs": template_kwargs}));
    }
}

/// The facts of a request that decide how its output is read. `prompt` is the rendered prompt, `template_kwargs` are
/// the effective template variables, `id_seed` makes the ids of tool calls.
pub fn parser_context(
    request: &ChatRequest,
    prompt: Vec<u32>,
    template_kwargs: Map<String, Value>,
    id_seed: u64,
) -> parsers::Context {
    let tool = |tool: &Tool| parsers::Tool {
        name: tool.function.name.clone(),
        parameters: tool.function.parameters.clone().map_or(Value::Null, Value::Object),
    };
    parsers::Context {
        tools: request.tools.iter().flatten().map(tool).collect(),
        tool_choice: parser_tool_choice(request),
        parallel_tool_calls: request.parallel_tool_calls != Some(false),
        chat_template_kwargs: Arc::new(template_kwargs),
        reasoning_effort: request.reasoning_effort.as_ref().map(|effort| effort.0.clone()),
        prompt_token_ids: prompt,
        prompt_text: String::new(),
        history_tool_calls: conversation::count_tool_calls(&request.messages),
        id_seed,
    }
}

fn parser_tool_choice(request: &ChatRequest) -> parsers::ToolChoice {
    match &request.tool_choice {
        None => parsers::ToolChoice::Null,
        Some(ToolChoice::None) => parsers::ToolChoice::None,
        Some(ToolChoice::Auto) => parsers::ToolChoice::Auto,
        Some(ToolChoice::Required) => parsers::ToolChoice::Required,
        Some(ToolChoice::Named(name)) => parsers::ToolChoice::Named(name.clone()),
    }
}
