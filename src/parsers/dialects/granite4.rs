//! Granite 4's tool calls.
//!
//! ```text
//! <tool_call>
//! {"name": "get_weather", "arguments": {"city": "Paris"}}
//! </tool_call>
//! ```
//!
//! Emitted by IBM's Granite 4. A call is said when it is complete; one that is none, or was cut, is content, and so is text
//! between and after calls. In a whole answer one malformed call makes the whole text content.

use super::super::engine::{Act, Block, Body, By, Grammar, Ids, Manners, Mode, block, on, whole};
use super::super::registry::Definition;

pub(in crate::parsers) static DIALECT: Definition = Definition {
    tool_names: &["granite4"],
    reasoning_names: &[],
    families: "Granite 4",
    needs: &[],
    tools: Some(|setup| GRAMMAR.compile(setup)),
    reasoning: None,
};

const OPEN: &str = "<tool_call>";
const CLOSE: &str = "</tool_call>";

static GRAMMAR: Grammar = Grammar {
    marks: &[(OPEN, By::Text), (CLOSE, By::Text)],
    moves: &[on(Mode::Content, OPEN, &[Act::Begin], Mode::Body), on(Mode::Body, CLOSE, &[Act::End], Mode::Content)],
    body: Body::Block(Block { calls: block::object, ids: Ids::Random, drops_cut: false }),
    manners: Manners { joined: true, ..Manners::PLAIN },
    whole: whole::strict,
};
