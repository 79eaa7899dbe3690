//! A reply divided into regions by the model's own `response_template`, `<think>\n…</think>\n\n<tool_call>\n…\n</tool_call>`.
//!
//! Reasoning and content go out as they come, a call when its region ends. What the prompt wrote behind its last start
//! anchor belongs to the reply, but is not said again.

mod calls;
mod template;

use super::scan::{Found, Literals, MarkId};
use super::{Ids, Mode, Output, ReadTools, Record, Setup, ToolMemory};
use crate::parsers::message::Answer;
use crate::parsers::{Context, Token, ToolChoice};
use template::{Field, Template, What};

/// A call longer than this is none.
const MAX_CALL: usize = 1024 * 1024;

/// The tool half: it reads all of a reply. Of its memory, `mode` is the region, `name` the text of a call, and `blank` the
/// part of the text that waits which the prompt wrote.
#[derive(Debug)]
pub(in crate::parsers) struct Regions {
    template: Template,
    problem: Option<String>,
    /// What to look for outside of regions that have an opening mark: opening marks first, then what ends the others.
    outside: Literals,
    openings: Vec<Mode>,
    /// What ends the region of a mode.
    inside: Vec<(Mode, Literals)>,
    says_reasoning: bool,
    says_calls: bool,
}

/// What the template sees.
enum Seen<'t> {
    Text(&'t str),
    Opening(&'t str),
    /// The mark, and the text of a call with its opening mark.
    Closing(&'t str, String),
    /// A call that is too long.
    Broken(String),
}

impl Regions {
    /// Reads the model's template. What is wrong with it is its [`problem`](ReadTools::problem).
    pub(in crate::parsers) fn compile(setup: &Setup<'_>) -> Box<dyn ReadTools> {
        let missing = "the model's tokenizer_config.json has no response_template".to_owned();
        let loaded = setup.vocabulary.response_template.as_ref().ok_or(missing);
        let loaded = loaded.and_then(|spec| Template::load(spec).map_err(|why| format!("response_template: {why}")));
        let lacks = |template: &Template| match (setup.beside_reasoning, setup.beside_tools) {
            (true, _) if !template.has(What::Thinking) => Some("response_template: it has no thinking".to_owned()),
            (_, true) if !template.has(What::Calls) => Some("response_template: it has no tool_calls".to_owned()),
            _ => None,
        };
        Box::new(match loaded {
            Ok(template) => {
                let problem = lacks(&template);
                Self::new(template, problem, setup)
            }
            Err(problem) => Self::new(Template::default(), Some(problem), setup),
        })
    }

    fn new(template: Template, problem: Option<String>, setup: &Setup<'_>) -> Self {
        let opening =
            |field: &Field| field.open.iter().map(|mark| (mark.clone(), mode_of(field.what))).collect::<Vec<_>>();
        let openings: Vec<_> = template.fields.iter().flat_map(opening).collect();
        let ends = template.implicit().into_iter().flat_map(|field| field.close.iter().cloned());
        let marks = openings.iter().map(|(mark, _)| mark.clone()).chain(ends);
        let outside = Literals::new(marks.zip(0..).collect::<Vec<_>>());
        let closing = |field: &Field| {
            let marks = field.close.iter().map(|mark| (mark.clone(), 0 as MarkId));
            (mode_of(field.what), Literals::new(marks.collect::<Vec<_>>()))
        };
        let inside = template.fields.iter().filter(|field| !field.open.is_empty()).map(closing).collect();
        let openings = openings.into_iter().map(|(_, mode)| mode).collect();
        let (says_reasoning, says_calls) = (setup.beside_reasoning, setup.beside_tools);
        Self { template, problem, outside, openings, inside, says_reasoning, says_calls }
    }
}

fn mode_of(what: What) -> Mode {
    match what {
        What::Thinking => Mode::Think,
        What::Content => Mode::Content,
        What::Calls => Mode::Body,
    }
}

impl ReadTools for Regions {
    fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }

    fn wants_prompt_text(&self) -> bool {
        true
    }

    fn start(&self, context: &Context) -> ToolMemory {
        let mut memory = ToolMemory { mode: Mode::Preamble, ..ToolMemory::default() };
        let calls = self.may_call(context);
        self.text(&mut memory, self.template.after_anchor(&context.prompt_text), false, calls, &mut |_, _| {});
        memory.blank.clone_from(&memory.held);
        memory
    }

    fn read(&self, memory: &mut ToolMemory, token: Token<'_>, out: &mut Output<'_>) {
        out.note(token.text);
        memory.spoken |= !token.text.is_empty();
        let calls = self.may_call(out.context);
        self.text(memory, token.text, false, calls, &mut |what, seen| self.say(what, seen, calls, out));
    }

    fn finish(&self, memory: &mut ToolMemory, out: &mut Output<'_>) {
        if !memory.spoken {
            return;
        }
        if self.field(memory.mode).is_some_and(|field| self.template.is_closed_by(field, &memory.held)) {
            memory.held.clear();
        }
        let calls = self.may_call(out.context);
        self.text(memory, "", true, calls, &mut |what, seen| self.say(what, seen, calls, out));
        let call = std::mem::take(&mut memory.name);
        if !call.is_empty() {
            self.say(Some(What::Calls), Seen::Closing("", call), calls, out);
        }
    }

    fn joins(&self) -> bool {
        true
    }

    fn forces_json(&self) -> bool {
        false
    }

    fn reads_always(&self) -> bool {
        true
    }

    fn whole(&self, _context: &Context, _record: &Record, said: Answer) -> Answer {
        Answer { settled: true, ..said }
    }
}

impl Regions {
    /// Calls may come; else their regions are content, marks and all.
    fn may_call(&self, context: &Context) -> bool {
        self.says_calls && context.tool_choice != ToolChoice::None
    }

    /// The field of a region that has an opening mark.
    fn field(&self, mode: Mode) -> Option<&Field> {
        self.template.fields.iter().find(|field| !field.open.is_empty() && mode_of(field.what) == mode)
    }

    /// What the text of a region is; nothing, where the template does not say.
    fn what(&self, mode: Mode) -> Option<What> {
        self.field(mode).or_else(|| self.template.implicit()).map(|field| field.what)
    }

    fn literals(&self, mode: Mode) -> &Literals {
        self.inside.iter().find(|(inside, _)| *inside == mode).map_or(&self.outside, |(_, literals)| literals)
    }

    /// Reads text; what may become a mark is kept. With `last` no text follows.
    fn text(
        &self,
        memory: &mut ToolMemory,
        text: &str,
        last: bool,
        calls: bool,
        see: &mut dyn FnMut(Option<What>, Seen<'_>),
    ) {
        let mut held = std::mem::take(&mut memory.held);
        // Text of the prompt is not said: it stands at the start of what waited.
        let mut silent = if held.starts_with(&memory.blank) { memory.blank.len() } else { 0 };
        held.push_str(text);
        let mut rest = held.as_str();
        loop {
            let (at, found) = match self.literals(memory.mode).find(rest, last) {
                Found::Mark { at, len, mark } => (at, Some((len, mark))),
                Found::Maybe { at } => (at, None),
                Found::Nothing => (rest.len(), None),
            };
            let (plain, after) = rest.split_at(at);
            self.plain(memory, plain, &mut silent, calls, see);
            let Some((len, mark)) = found else {
                memory.held = after.to_owned();
                break;
            };
            let (literal, after) = after.split_at(len);
            self.mark(memory, mark, literal, &mut silent, calls, see);
            rest = after;
        }
        memory.blank = memory.held.get(..silent).unwrap_or_default().to_owned();
    }

    fn plain(
        &self,
        memory: &mut ToolMemory,
        text: &str,
        silent: &mut usize,
        calls: bool,
        see: &mut dyn FnMut(Option<What>, Seen<'_>),
    ) {
        let what = self.what(memory.mode);
        if what == Some(What::Calls) && calls {
            memory.name.push_str(text);
            if memory.name.len() > MAX_CALL {
                see(what, Seen::Broken(std::mem::take(&mut memory.name)));
            }
        }
        see(what, Seen::Text(said(text, silent)));
    }

    fn mark(
        &self,
        memory: &mut ToolMemory,
        mark: MarkId,
        literal: &str,
        silent: &mut usize,
        calls: bool,
        see: &mut dyn FnMut(Option<What>, Seen<'_>),
    ) {
        let outside = self.field(memory.mode).is_none();
        let opening = self.openings.get(usize::from(mark)).copied().filter(|_| outside);
        let call = std::mem::take(&mut memory.name);
        let literal_said = said(literal, silent);
        let Some(mode) = opening else {
            see(self.what(memory.mode), Seen::Closing(literal_said, call));
            memory.mode = Mode::Preamble;
            return;
        };
        if !call.is_empty() {
            see(self.what(memory.mode), Seen::Closing("", call));
        }
        memory.mode = mode;
        if mode == Mode::Body && calls {
            literal.clone_into(&mut memory.name);
        }
        see(self.what(mode), Seen::Opening(literal_said));
    }

    fn say(&self, what: Option<What>, seen: Seen<'_>, calls: bool, out: &mut Output<'_>) {
        match (what, seen) {
            (Some(What::Thinking), Seen::Text(text)) if self.says_reasoning => out.events.push_reasoning_text(text),
            (Some(What::Thinking | What::Content), Seen::Text(text)) => out.content(text),
            (Some(What::Calls), Seen::Text(text) | Seen::Opening(text)) if !calls => out.content(text),
            (Some(What::Calls), Seen::Closing(mark, _)) if !calls => out.content(mark),
            (Some(What::Calls), Seen::Closing(mark, call)) => self.call(&call, mark, out),
            (Some(What::Calls), Seen::Broken(text)) => out.give_back(&text),
            _ => {}
        }
    }

    /// Says the calls of a region, or gives back what are none.
    fn call(&self, text: &str, mark: &str, out: &mut Output<'_>) {
        let Some(field) = self.template.field(What::Calls) else { return };
        let opened =
            field.open.iter().filter_map(|open| text.strip_prefix(open.as_str())).min_by_key(|body| body.len());
        match calls::read(field, opened.unwrap_or(text), &out.context.tools) {
            Some(calls) if !calls.is_empty() => {
                for (name, arguments) in calls {
                    out.call(&name, Ids::OfModel);
                    out.arguments(&arguments);
                }
            }
            _ => {
                out.give_back(text);
                out.content(mark);
            }
        }
    }
}

/// The part of a text that the prompt did not write.
fn said<'t>(text: &'t str, silent: &mut usize) -> &'t str {
    let skipped = text.len().min(*silent);
    *silent -= skipped;
    text.get(skipped..).unwrap_or_default()
}
