//! The reasoning half as data: an opening and a closing mark.

use super::marks::LOOKALIKE;
use super::scan::{Found, Literals, MarkId};
use super::{By, Marks, Piece, ReadReasoning, ReasoningMemory, Setup};
use crate::parsers::{Context, Events, Token};

/// How a reply begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::parsers) enum Start {
    /// In reasoning, with or without an opening mark.
    Inside,
    /// In content, until an opening mark.
    Outside,
    /// Nothing is reasoning; marks are content.
    Never,
}

/// What marks are where they make no sense: an opening mark in open reasoning, a closing mark after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::parsers) enum Stray {
    /// Text like any other.
    Text,
    /// Nothing.
    Dropped,
    /// Nothing at the start of the reply, text elsewhere.
    DroppedFirst,
}

/// How often an opening mark in content begins reasoning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::parsers) enum Reopens {
    /// Never.
    Never,
    /// Only at the very start of the reply.
    AtStart,
    /// Once: the first.
    Once,
    /// Always.
    Always,
}

/// Where a whole answer without reasoning has an empty one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::parsers) enum Empty {
    /// Nowhere.
    Never,
    /// Where an opening mark was read, or the reply began inside.
    Opened,
    /// Always.
    Always,
}

/// Which tokens count as reasoning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::parsers) enum Counting {
    /// Those between an opening mark that the model wrote and its closing mark.
    Marked,
    /// Those whose text was reasoning.
    Read,
}

/// Reasoning between two marks.
#[derive(Debug, Clone, Copy)]
pub(in crate::parsers) struct Thinking {
    pub(in crate::parsers) open: &'static str,
    pub(in crate::parsers) close: &'static str,
    /// What makes the two marks marks.
    pub(in crate::parsers) by: By,
    /// Marks around content, dropped after the reasoning.
    pub(in crate::parsers) around: &'static [&'static str],
    /// Marks that are dropped wherever they stand.
    pub(in crate::parsers) drops: &'static [(&'static str, By)],
    /// Line breaks that are spelled out become real ones.
    pub(in crate::parsers) recovers_newlines: bool,
    /// Marks of tool calls that end reasoning by themselves; the tool half reads them.
    pub(in crate::parsers) calls: &'static [&'static str],
    /// The tool half sees the closing mark, too.
    pub(in crate::parsers) passes_close: bool,
    pub(in crate::parsers) start: fn(&Context) -> Start,
    pub(in crate::parsers) stray: Stray,
    /// An opening mark in content begins reasoning again.
    pub(in crate::parsers) reopens: Reopens,
    /// A prompt that ends inside reasoning is followed, though replies begin in content.
    pub(in crate::parsers) follows_prompt: bool,
    pub(in crate::parsers) counting: Counting,
    /// For what vLLM reads with its engine: special tokens that are no marks disappear, and reasoning waits at the start
    /// of these words, as it does for its own marks.
    pub(in crate::parsers) words: Option<&'static [&'static str]>,
    /// Tokens that begin or end a turn: what the prompt says before them is of an earlier turn.
    pub(in crate::parsers) turns: &'static [&'static str],
    /// An empty `reasoning` is sent for tokens without text.
    pub(in crate::parsers) says_empty: bool,
    /// White space at the end of the reasoning is dropped.
    pub(in crate::parsers) trims: bool,
    /// Other spellings of the two marks.
    pub(in crate::parsers) spellings: &'static [(&'static str, &'static str)],
    /// What the model writes behind an opening mark, which is no reasoning.
    pub(in crate::parsers) title: &'static str,
    /// Line breaks at the start of the content are dropped.
    pub(in crate::parsers) strips: bool,
    /// What begins like this and may have become a mark is dropped at the end of the reply; empty where nothing is.
    pub(in crate::parsers) drops_cut: &'static str,
    /// Whether a reply that would have no content has its reasoning as content.
    pub(in crate::parsers) promotes: fn(&Context) -> bool,
    /// Where a whole answer has an empty reasoning, not null.
    pub(in crate::parsers) empty_whole: Empty,
}

/// White space at the end of reasoning that is kept back at most.
const MAX_BLANK: usize = 1024;

/// Reasoning that is kept at most to become content.
const MAX_KEPT: usize = 256 * 1024;

const OPEN: MarkId = 0;
const CLOSE: MarkId = 1;

impl Thinking {
    /// Looks the marks up in a vocabulary.
    pub(in crate::parsers) fn compile(&'static self, setup: &Setup<'_>) -> Box<dyn ReadReasoning> {
        let vocabulary = setup.vocabulary;
        let mut list = vec![(self.open, self.by), (self.close, self.by)];
        let by = if self.by == By::Text { By::Text } else { By::Token };
        list.extend(self.calls.iter().chain(self.around).map(|mark| (*mark, by)));
        list.extend(self.drops);
        let mut marks = Marks::new(&list, vocabulary);
        let spellings = |kind: MarkId| {
            let all = self.spellings.iter().flat_map(|(open, close)| [(*open, OPEN), (*close, CLOSE)]);
            all.filter(move |(_, mark)| *mark <= kind)
        };
        let around = CLOSE + 1 + self.calls.len() as MarkId;
        let drops = around + self.around.len() as MarkId;
        let own = match (self.reopens, self.stray) {
            (Reopens::Never, Stray::Text) => OPEN..OPEN,
            (Reopens::Never, _) => CLOSE..CLOSE + 1,
            (Reopens::AtStart, _) => OPEN..CLOSE,
            _ => OPEN..CLOSE + 1,
        };
        let outside = marks.literals_and(own.chain(around..list.len() as MarkId), spellings(OPEN));
        let settled = marks.literals(around..list.len() as MarkId);
        if let Some(words) = self.words {
            marks = marks.dropping_specials(vocabulary, &[]).waiting_for(vocabulary, words);
        }
        let inside = marks.literals_and(0..list.len() as MarkId, spellings(CLOSE));
        let in_prompt = [self.open, self.close].map(|text| vocabulary.ids.get(text).copied());
        let turns = self.turns.iter().filter_map(|text| vocabulary.ids.get(*text).copied()).collect();
        Box::new(Compiled { thinking: self, marks, inside, outside, settled, turns, around, drops, in_prompt })
    }
}

#[derive(Debug)]
struct Compiled {
    thinking: &'static Thinking,
    marks: Marks,
    inside: Literals,
    outside: Literals,
    /// After reasoning that cannot begin again.
    settled: Literals,
    turns: Vec<u32>,
    /// The first of the marks around content.
    around: MarkId,
    /// The first of the marks that are dropped.
    drops: MarkId,
    /// The tokens of the two marks, as the prompt may have them.
    in_prompt: [Option<u32>; 2],
}

impl ReadReasoning for Compiled {
    fn is_on(&self, context: &Context) -> bool {
        (self.thinking.start)(context) != Start::Never
    }

    fn start(&self, context: &Context) -> ReasoningMemory {
        let start = (self.thinking.start)(context);
        let may_follow = start == Start::Outside && self.thinking.follows_prompt;
        let follows = may_follow && self.opened_by_prompt(context);
        let inside = follows || start == Start::Inside && !self.ended_by_prompt(context);
        let keeps = (self.thinking.promotes)(context);
        ReasoningMemory { inside, keeps, opened: follows, ..ReasoningMemory::default() }
    }

    /// The last mark of this turn decides.
    fn ended_by_prompt(&self, context: &Context) -> bool {
        let start = (self.thinking.start)(context);
        for id in context.prompt_token_ids.iter().rev() {
            match self.marks.of_token(*id) {
                Some(OPEN) => return start != Start::Inside,
                Some(mark) if mark < self.drops => return true,
                _ if self.turns.contains(id) => break,
                _ => {}
            }
        }
        start != Start::Inside
    }

    fn reads(&self, context: &Context) -> bool {
        let reads_content = self.thinking.reopens != Reopens::Never || !self.thinking.drops.is_empty();
        self.is_on(context) && (reads_content || !self.ended_by_prompt(context))
    }

    fn read(&self, memory: &mut ReasoningMemory, token: Token<'_>, say: &mut dyn FnMut(Piece<'_>)) {
        if let Some(mark) = token.id.and_then(|id| self.marks.of_token(id)) {
            self.text(memory, "", true, say);
            self.mark(memory, mark, token, say);
        } else if token.id.is_some_and(|id| self.marks.drops(id)) {
            self.text(memory, "", true, say);
        } else {
            self.plain(memory, token, say);
        }
    }

    fn count(&self, memory: &mut ReasoningMemory, id: u32) {
        let counts = match (self.thinking.counting, self.marks.of_token(id)) {
            (Counting::Marked, Some(OPEN)) => {
                memory.depth = memory.depth.saturating_add(1);
                false
            }
            (Counting::Marked, Some(CLOSE)) => {
                memory.depth = memory.depth.saturating_sub(1);
                false
            }
            (Counting::Marked, _) => memory.depth > 0,
            (Counting::Read, None) => memory.inside && !self.marks.drops(id),
            (Counting::Read, Some(_)) => false,
        };
        memory.tokens = memory.tokens.saturating_add(usize::from(counts));
    }

    fn finish(&self, memory: &mut ReasoningMemory, say: &mut dyn FnMut(Piece<'_>)) {
        let cut = self.thinking.drops_cut;
        if memory.inside && !cut.is_empty() && memory.held.starts_with(cut) {
            memory.held.clear();
        }
        self.text(memory, "", true, say);
        if memory.inside {
            say(Piece::Rest(Token { id: None, text: &std::mem::take(&mut memory.kept) }));
        } else if !self.thinking.around.is_empty() && !memory.wrapped {
            say(Piece::Rest(Token { id: None, text: &std::mem::take(&mut memory.blank) }));
        }
    }

    fn says_empty(&self, chunk: &[Token<'_>]) -> bool {
        let is_mark = |token: &Token<'_>| matches!(token.id.and_then(|id| self.marks.of_token(id)), Some(OPEN | CLOSE));
        self.thinking.says_empty && !matches!(chunk, [token] if is_mark(token))
    }

    fn passes(&self, context: &Context, memory: &ReasoningMemory) -> bool {
        let outside = (self.thinking.start)(context) == Start::Outside && !memory.opened;
        !outside && (!self.thinking.strips || memory.stripped)
    }

    fn is_engine(&self) -> bool {
        self.thinking.words.is_some()
    }

    fn polish(&self, memory: &mut ReasoningMemory, events: &mut Events, last: bool) {
        if self.thinking.recovers_newlines {
            let ends = last || events.content().is_some() || events.calls().next().is_some();
            let [reasoning, content] = &mut memory.newlines;
            events.polish_reasoning(|text| reasoning.read(text, ends));
            events.polish_content(|text| content.read(text, last));
        }
    }

    fn whole(
        &self,
        context: &Context,
        memory: &ReasoningMemory,
        reasoning: String,
        rest: String,
    ) -> (Option<String>, Option<String>) {
        let keep = |text: String, empty: bool| (empty || !text.is_empty()).then_some(text);
        let empty = match self.thinking.empty_whole {
            Empty::Never => false,
            Empty::Opened => memory.opened || (self.thinking.start)(context) == Start::Inside,
            Empty::Always => true,
        };
        let (reasoning, rest) = (keep(reasoning, empty), keep(rest, false));
        let blank = rest.as_ref().is_none_or(|rest| rest.trim().is_empty());
        if blank && (self.thinking.promotes)(context) { (rest, reasoning) } else { (reasoning, rest) }
    }
}

impl Compiled {
    /// The prompt ends inside reasoning.
    fn opened_by_prompt(&self, context: &Context) -> bool {
        let [open, close] = self.in_prompt;
        let marks = context.prompt_token_ids.iter().rev().map(|id| Some(*id));
        marks.into_iter().find(|id| *id == open || *id == close) == Some(open) && open.is_some()
    }

    /// Holds back what may be the title; returns false where the text is to be said.
    fn is_title(&self, memory: &mut ReasoningMemory, text: &str, say: &mut dyn FnMut(Piece<'_>)) -> bool {
        if !memory.titled || text.is_empty() {
            return false;
        }
        let mut all = std::mem::take(&mut memory.title);
        all.push_str(text);
        if self.thinking.title.starts_with(&all) && all.len() < self.thinking.title.len() {
            memory.title = all;
            return true;
        }
        memory.titled = false;
        let rest = all.strip_prefix(self.thinking.title).unwrap_or(&all);
        self.say(memory, Token { id: None, text: rest }, say);
        true
    }

    /// Reads a token that is no mark. It stays a token, since the tool half may know it, unless a mark may stand in it.
    fn plain(&self, memory: &mut ReasoningMemory, token: Token<'_>, say: &mut dyn FnMut(Piece<'_>)) {
        if !memory.held.is_empty() && !self.continues(memory, token.text) {
            self.text(memory, "", true, say);
        }
        let literals = self.literals(memory);
        if memory.held.is_empty() && literals.find(token.text, false) == Found::Nothing {
            return self.say(memory, token, say);
        }
        self.text(memory, token.text, false, say);
    }

    /// Whether what was held back may still become a mark, or is one, with this text behind it.
    fn continues(&self, memory: &ReasoningMemory, text: &str) -> bool {
        let all = memory.held.clone() + text;
        match self.literals(memory).find(&all, false) {
            Found::Mark { at, .. } | Found::Maybe { at } => at < memory.held.len(),
            Found::Nothing => false,
        }
    }

    /// Says content. Where marks may stand around it, white space outside of them is nothing.
    fn say_rest(&self, memory: &mut ReasoningMemory, mut token: Token<'_>, say: &mut dyn FnMut(Piece<'_>)) {
        if self.thinking.strips && !memory.stripped {
            token.text = token.text.trim_start_matches('\n');
            memory.stripped = !token.text.is_empty();
            if !memory.stripped {
                return;
            }
        }
        if self.thinking.around.is_empty() || memory.blank.len() > MAX_BLANK {
            return say(Piece::Rest(token));
        }
        let (solid, blank) = token.text.split_at(token.text.trim_end().len());
        if !solid.is_empty() {
            say(Piece::Rest(Token { id: None, text: &std::mem::take(&mut memory.blank) }));
            let id = token.id.filter(|_| blank.is_empty());
            say(Piece::Rest(Token { id, text: solid }));
        }
        memory.blank.push_str(blank);
    }

    /// What to look for in text.
    fn literals(&self, memory: &ReasoningMemory) -> &Literals {
        match self.thinking.reopens {
            _ if memory.inside => &self.inside,
            Reopens::AtStart if !self.reopens(memory) => &self.settled,
            Reopens::Once if !self.reopens(memory) && !self.drops_close(memory) => &self.settled,
            _ => &self.outside,
        }
    }

    fn reopens(&self, memory: &ReasoningMemory) -> bool {
        match self.thinking.reopens {
            Reopens::Never => false,
            Reopens::AtStart => !memory.opened && !memory.spoken,
            Reopens::Once => !memory.opened,
            Reopens::Always => true,
        }
    }

    fn drops_close(&self, memory: &ReasoningMemory) -> bool {
        match self.thinking.stray {
            Stray::Text => false,
            Stray::Dropped => true,
            Stray::DroppedFirst => !memory.opened && !memory.spoken,
        }
    }

    fn say(&self, memory: &mut ReasoningMemory, token: Token<'_>, say: &mut dyn FnMut(Piece<'_>)) {
        memory.spoken |= !token.text.is_empty();
        if !memory.inside {
            return self.say_rest(memory, token, say);
        }
        if self.is_title(memory, token.text, say) {
            return;
        }
        if memory.keeps && memory.kept.len() < MAX_KEPT {
            memory.kept.push_str(token.text);
        }
        if !self.thinking.trims {
            return say(Piece::Reasoning(token.text));
        }
        let solid = token.text.trim_end();
        if !solid.is_empty() {
            say(Piece::Reasoning(&std::mem::take(&mut memory.blank)));
            say(Piece::Reasoning(solid));
        }
        if memory.blank.len() < MAX_BLANK {
            memory.blank.push_str(token.text.split_at(solid.len()).1);
        }
    }

    /// Reads text that may hold marks.
    fn text(&self, memory: &mut ReasoningMemory, text: &str, last: bool, say: &mut dyn FnMut(Piece<'_>)) {
        let mut all = std::mem::take(&mut memory.held);
        all.push_str(text);
        let mut rest = all.as_str();
        loop {
            let literals = self.literals(memory);
            let (at, len, mark) = match literals.find(rest, last) {
                Found::Nothing => (rest.len(), 0, None),
                Found::Maybe { at } => (at, 0, None),
                Found::Mark { at, len, mark } => (at, len, Some(mark)),
            };
            let (plain, after) = rest.split_at(at);
            if !plain.is_empty() {
                self.say(memory, Token { id: None, text: plain }, say);
            }
            let Some(mark) = mark else {
                // What was said may have ended the place where the mark could stand.
                let still = plain.is_empty() || self.literals(memory).find(after, last) != Found::Nothing;
                if still || after.is_empty() {
                    memory.held.push_str(after);
                    return;
                }
                rest = after;
                continue;
            };
            let (literal, after) = after.split_at(len);
            self.mark(memory, mark, Token { id: None, text: literal }, say);
            rest = after;
        }
    }

    fn mark(&self, memory: &mut ReasoningMemory, mark: MarkId, token: Token<'_>, say: &mut dyn FnMut(Piece<'_>)) {
        match (memory.inside, mark) {
            (_, mark) if mark >= self.drops && mark != LOOKALIKE => {}
            (true, OPEN) if !memory.opened => {
                memory.opened = true;
                memory.titled = !self.thinking.title.is_empty();
            }
            (true, OPEN) if self.thinking.stray == Stray::Text => self.say(memory, token, say),
            (true, OPEN) => {}
            (true, CLOSE) => {
                memory.inside = false;
                if self.thinking.passes_close {
                    say(Piece::Rest(token));
                }
            }
            (true, mark) if mark >= self.around => self.say(memory, token, say),
            (true, _) => {
                memory.inside = false;
                say(Piece::Rest(token));
            }
            (false, OPEN) if self.reopens(memory) => {
                (memory.inside, memory.opened) = (true, true);
                memory.titled = !self.thinking.title.is_empty();
            }
            (false, CLOSE) if self.drops_close(memory) => {}
            (false, mark) if mark >= self.around && mark != LOOKALIKE => {
                let blank = std::mem::take(&mut memory.blank);
                if memory.wrapped && mark > self.around {
                    say(Piece::Rest(Token { id: None, text: &blank }));
                }
                memory.wrapped = true;
            }
            (false, _) => {
                memory.stripped |= self.thinking.strips;
                say(Piece::Rest(token));
            }
        }
    }
}
