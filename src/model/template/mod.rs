//! Chat templates, run as transformers and vLLM run them, on minijinja.
//!
//! In: the template's source, or the lists of templates that a model has. Out: compiled templates that render a context
//! to text, and what vLLM reads off their source. Deliberately absent: messages (`render` makes the context) and clocks
//! (the moment is given).

mod detect;
mod foreign;
mod functions;
mod probe;
mod source;
mod text;
mod time;
pub mod value;
mod walk;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex};

use minijinja::machinery::parse;
use minijinja::syntax::SyntaxConfig;
use minijinja::{Environment, ErrorKind};

use super::files::ModelFiles;
use super::tokenizer::files::TokenizerParts;
use super::{LoadError, LoadOptions};
use serde_json::Value as Json;

pub use time::LocalTime;
pub use value::Dict;

/// Compiled templates that came with requests; beyond this number all are forgotten.
const MAX_REQUEST_TEMPLATES: usize = 64;
/// Longest source from a request, in bytes.
const MAX_SOURCE: usize = 256 << 10;
/// Stack for what may nest as deep as a source is long; only what is used of it takes memory.
const DEEP_STACK: usize = 256 << 20;
/// The name under which each environment holds its one template.
const NAME: &str = "chat template";

/// How content reaches a template.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ContentFormat {
    /// As the template's source suggests.
    #[default]
    Auto,
    /// One text per message.
    String,
    /// OpenAI's list of parts.
    Openai,
}

/// Why a template gave no text. Always the client's or the template's doing: a 400.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{0}")]
pub struct TemplateError(String);

impl TemplateError {
    /// With any text.
    pub fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}

impl From<minijinja::Error> for TemplateError {
    fn from(error: minijinja::Error) -> Self {
        let detail = error.detail().unwrap_or_default();
        Self(match error.kind() {
            ErrorKind::OutOfFuel => "the chat template ran for too long or wrote too much".to_owned(),
            ErrorKind::UndefinedError => format!("undefined value: {detail}"),
            _ if detail.contains("recursion limit") => "maximum recursion depth exceeded".to_owned(),
            _ if detail.is_empty() => error.kind().to_string(),
            _ => detail.to_owned(),
        })
    }
}

/// A compiled template and what its source says.
pub struct Template {
    env: Environment<'static>,
    source: String,
    wants_parts: bool,
    knows_developer: bool,
    from_request: bool,
}

impl fmt::Debug for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Template").field("wants_parts", &self.wants_parts).finish_non_exhaustive()
    }
}

impl Template {
    /// Compiles a source of the model's or the server's own.
    pub fn compile(source: &str) -> Result<Self, TemplateError> {
        Self::compile_from(source, false)
    }

    /// Compiles a source that came with a request and may mean harm.
    pub fn compile_foreign(source: &str) -> Result<Self, TemplateError> {
        if source.len() > MAX_SOURCE {
            let message = format!("the chat template has {} bytes, more than {MAX_SOURCE}", source.len());
            return Err(TemplateError::new(message));
        }
        on_deep_stack(|| Self::compile_from(source, true))
    }

    fn compile_from(source: &str, from_request: bool) -> Result<Self, TemplateError> {
        let syntax = syntax();
        let plain = source::without_generation_tags(source);
        let rewritten = source::as_python(&plain, &syntax, from_request)?;
        let wants_parts = detect::wants_parts(&parse(&plain, NAME, syntax.clone())?);
        let knows_developer = source.contains("\"developer\"") || source.contains("'developer'");
        let mut env = functions::environment(syntax);
        if from_request {
            foreign::bound(&mut env);
        }
        env.add_template_owned(NAME, rewritten)?;
        Ok(Self { env, source: source.to_owned(), wants_parts, knows_developer, from_request })
    }

    /// True where the template loops over the parts of a content; else it wants text.
    pub fn wants_parts(&self) -> bool {
        self.wants_parts
    }

    /// True where the template mentions the role `developer`.
    pub fn knows_developer(&self) -> bool {
        self.knows_developer
    }

    /// The text that was compiled.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// True where the source has this text in it.
    pub fn mentions(&self, text: &str) -> bool {
        self.source.contains(text)
    }

    /// Renders. `now` is the moment that `strftime_now` prints.
    pub fn render(&self, mut context: Dict, now: LocalTime) -> Result<String, TemplateError> {
        context.set("strftime_now", functions::strftime_now(now));
        let context = context.into_value();
        let render = move || Ok(self.env.get_template(NAME)?.render(context)?);
        // What a foreign template builds may nest without end, and is dropped level by level.
        if self.from_request { on_deep_stack(render) } else { render() }
    }
}

/// Runs work whose recursion follows what a stranger wrote.
fn on_deep_stack<T: Send>(work: impl FnOnce() -> Result<T, TemplateError> + Send) -> Result<T, TemplateError> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(DEEP_STACK).spawn_scoped(scope, work);
        let thread = thread.map_err(|error| TemplateError::new(format!("no thread for the chat template: {error}")))?;
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn syntax() -> SyntaxConfig {
    // Without delimiters there is nothing that could be wrong with it.
    SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build().unwrap_or_default()
}

/// The templates of a model: one, or several by name.
pub struct ChatTemplates {
    given: Option<Arc<Template>>,
    own: HashMap<String, Arc<Template>>,
    from_requests: Mutex<HashMap<String, Arc<Template>>>,
}

impl fmt::Debug for ChatTemplates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChatTemplates").field("own", &self.own.keys()).finish_non_exhaustive()
    }
}

impl ChatTemplates {
    pub(crate) fn load(files: &ModelFiles, options: &LoadOptions, parts: &TokenizerParts) -> Result<Self, LoadError> {
        let mut own = HashMap::new();
        for (name, place, source) in own_sources(files, parts)? {
            let template = Template::compile(&source)
                .map_err(|error| LoadError::broken(&place, format!("template `{name}`: {error}")))?;
            own.insert(name, Arc::new(template));
        }
        let given = match &options.chat_template {
            Some(given) => Some(load_given(given, &own)?),
            None => None,
        };
        Ok(Self { given, own, from_requests: Mutex::new(HashMap::new()) })
    }

    /// The template for a request: the request's own, the server's, or the model's, which may have one for tools.
    pub fn resolve(&self, requested: Option<&str>, with_tools: bool) -> Result<Arc<Template>, TemplateError> {
        if let Some(requested) = requested.filter(|text| !text.is_empty()) {
            return match self.own.get(requested) {
                Some(named) if self.own.len() > 1 => Ok(named.clone()),
                _ => self.compiled(requested),
            };
        }
        if let Some(given) = &self.given {
            return Ok(given.clone());
        }
        let tool_use = with_tools.then(|| self.own.get("tool_use")).flatten();
        tool_use.or_else(|| self.own.get("default")).cloned().ok_or_else(|| {
            TemplateError::new(
                "As of transformers v4.44, default chat template is no longer allowed, so you must provide a chat \
                 template if the tokenizer does not define one.",
            )
        })
    }

    /// True where the server or the model has a template.
    pub fn any(&self) -> bool {
        self.given.is_some() || !self.own.is_empty()
    }

    fn compiled(&self, source: &str) -> Result<Arc<Template>, TemplateError> {
        let lock = || self.from_requests.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(known) = lock().get(source) {
            return Ok(known.clone());
        }
        let template = Arc::new(Template::compile_foreign(source)?);
        let mut cache = lock();
        if cache.len() >= MAX_REQUEST_TEMPLATES {
            cache.clear();
        }
        cache.insert(source.to_owned(), template.clone());
        Ok(template)
    }

    /// What the templates write and what they are, to compare tokenizers on. `specials` are their variables.
    pub(crate) fn probe_texts(&self, specials: &[(String, String)]) -> Vec<String> {
        let templates = self.given.iter().chain(self.own.values());
        templates
            .flat_map(|template| [Some(template.source.clone()), probe::text(template, specials)])
            .flatten()
            .collect()
    }
}

/// The model's own templates: (name, file, source). Files of their own win over tokenizer_config.json.
fn own_sources(
    files: &ModelFiles,
    parts: &TokenizerParts,
) -> Result<Vec<(String, std::path::PathBuf, String)>, LoadError> {
    let mut found = Vec::new();
    if let Some(file) = files.optional("chat_template.jinja")? {
        found.push(("default".to_owned(), file.path, file.text));
    }
    for (name, file) in files.templates_in("additional_chat_templates")? {
        found.push((name, file.path, file.text));
    }
    if !found.is_empty() {
        return Ok(found);
    }
    let config_path = parts.path.with_file_name("tokenizer_config.json");
    match parts.config.get("chat_template") {
        Some(Json::String(source)) => found.push(("default".to_owned(), config_path, source.clone())),
        Some(Json::Array(list)) => {
            for entry in list {
                if let (Some(name), Some(source)) = (text_of(entry, "name"), text_of(entry, "template")) {
                    found.push((name, config_path.clone(), source));
                }
            }
        }
        _ => {}
    }
    if found.is_empty()
        && let Some(file) = files.optional("chat_template.json")?
        && let Some(source) = text_of(&file.json()?, "chat_template")
    {
        found.push(("default".to_owned(), file.path, source));
    }
    Ok(found)
}

fn text_of(object: &Json, key: &str) -> Option<String> {
    object.get(key).and_then(Json::as_str).map(str::to_owned)
}

/// `--chat-template`: a file, the name of one of the model's templates, or the text itself.
fn load_given(given: &str, own: &HashMap<String, Arc<Template>>) -> Result<Arc<Template>, LoadError> {
    let is_text = given.contains(['{', '}', '\n']);
    if let Some(named) = own.get(given).filter(|_| own.len() > 1) {
        return Ok(named.clone());
    }
    let source = match std::fs::read_to_string(given) {
        Ok(text) => text,
        Err(_) if is_text => given.to_owned(),
        Err(error) => {
            return Err(LoadError::Setting {
                setting: "--chat-template",
                reason: format!("{given}: {error}; give a file that exists, or the template's text"),
            });
        }
    };
    let template = Template::compile(&source).map_err(|error| LoadError::Setting {
        setting: "--chat-template",
        reason: format!("does not compile: {error}"),
    })?;
    Ok(Arc::new(template))
}
