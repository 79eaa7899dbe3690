//! Where vLLM's parsers differ in more than their marks.

use super::{Ids, Mode};

/// How a tool half behaves.
#[derive(Debug, Clone, Copy)]
pub(in crate::parsers) struct Manners {
    /// For what vLLM reads with its engine: special tokens that are no marks disappear, but for these.
    pub(in crate::parsers) engine: Option<&'static [&'static str]>,
    /// What text waits for in vLLM's lexer, beside the marks that are text.
    pub(in crate::parsers) lexer: Lexer,
    /// Marks of reasoning that are dropped in content, where a reasoning half was configured, too.
    pub(in crate::parsers) strays: &'static [&'static str],
    /// What becomes of white space before the first call, if there is nothing else.
    pub(in crate::parsers) blank: Blank,
    /// A call's head and its first arguments share an entry when they share a chunk.
    pub(in crate::parsers) joined: bool,
    /// A call's head has empty arguments.
    pub(in crate::parsers) empty_head: bool,
    /// What becomes of a call of a function that the request does not have.
    pub(in crate::parsers) unknown: Unknown,
    pub(in crate::parsers) ids: Ids,
    /// The mode in which a reply begins.
    pub(in crate::parsers) start: Mode,
    /// The mode in which a reply begins that has to call.
    pub(in crate::parsers) start_forced: Option<Mode>,
    /// The body ends by itself, and then this mode follows; or only marks end it.
    pub(in crate::parsers) closes: Option<Mode>,
    /// Text after a call is content, but for what separates it from another one; else it is dropped.
    pub(in crate::parsers) says_after: bool,
    /// White space at the end of reasoning and content waits for more of it.
    pub(in crate::parsers) holds_tail: bool,
    /// What ends the arguments has an entry of its own.
    pub(in crate::parsers) ends_apart: bool,
    /// After the calls, chunks that say nothing have an empty content.
    pub(in crate::parsers) says_end: bool,
    /// Every entry of a call says its type, not only the first.
    pub(in crate::parsers) types_entries: bool,
    /// `required` and named choices make the model write plain JSON.
    pub(in crate::parsers) forces_json: bool,
    /// It reads even where no call may come or only the reasoning of its name was configured: its marks are never content.
    pub(in crate::parsers) always: bool,
    /// Every chunk of content is said, were it empty.
    pub(in crate::parsers) says_empty: bool,
    /// What begins like this and may have become a mark is dropped at the end of the reply; empty where nothing is.
    pub(in crate::parsers) drops_cut: &'static str,
}

/// What text waits for that is no mark in the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::parsers) enum Lexer {
    /// Nothing.
    None,
    /// The characters of marks that are tokens.
    Tokens,
    /// The characters of any mark, wherever that has a meaning.
    Marks,
}

/// What becomes of white space that no other content precedes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::parsers) enum Blank {
    /// It is content.
    Said,
    /// It is content, but waits for other content or a call.
    Held,
    /// It waits for other content; a call makes it nothing.
    Dropped,
}

/// What becomes of a call of a function that the request does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::parsers) enum Unknown {
    /// It is a call.
    Called,
    /// It is dropped.
    Dropped,
    /// It is given back as content.
    GivenBack,
}

impl Manners {
    /// How a parser behaves that was written by hand.
    pub(in crate::parsers) const PLAIN: Self = Self {
        engine: None,
        lexer: Lexer::None,
        strays: &[],
        blank: Blank::Said,
        joined: false,
        unknown: Unknown::Called,
        empty_head: false,
        ids: Ids::Random,
        start: Mode::Content,
        start_forced: None,
        closes: None,
        says_after: false,
        holds_tail: false,
        ends_apart: false,
        says_end: false,
        types_entries: false,
        forces_json: true,
        always: false,
        says_empty: false,
        drops_cut: "",
    };

    /// How vLLM's engine behaves.
    pub(in crate::parsers) const ENGINE: Self = Self {
        engine: Some(&[]),
        lexer: Lexer::Marks,
        blank: Blank::Dropped,
        joined: true,
        ids: Ids::OfModel,
        ..Self::PLAIN
    };
}
