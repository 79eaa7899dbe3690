//! MiniMax M2's reasoning, left in the content.
//!
//! ```text
//! The user wants the weather.</think>It is sunny.
//! ```
//!
//! becomes content with `<think>` put in front: for clients that divide it themselves.

use super::super::engine::{Piece, ReadReasoning, ReasoningMemory};
use super::super::registry::Definition;
use super::super::{Context, Token};

pub(in crate::parsers) static DIALECT: Definition = Definition {
    tool_names: &[],
    reasoning_names: &["minimax_m2_append_think"],
    families: "MiniMax M2, for clients that read <think> themselves",
    needs: &[],
    tools: None,
    reasoning: Some(|_| Box::new(AppendThink)),
};

/// Puts `<think>` before the content.
#[derive(Debug)]
struct AppendThink;

impl AppendThink {
    /// The mark is said once, before the first token.
    fn open(memory: &mut ReasoningMemory, say: &mut dyn FnMut(Piece<'_>)) {
        if !memory.opened {
            memory.opened = true;
            say(Piece::Rest(Token { id: None, text: "<think>" }));
        }
    }
}

impl ReadReasoning for AppendThink {
    fn is_on(&self, _context: &Context) -> bool {
        true
    }

    fn start(&self, _context: &Context) -> ReasoningMemory {
        ReasoningMemory::default()
    }

    fn ended_by_prompt(&self, _context: &Context) -> bool {
        false
    }

    fn count(&self, _memory: &mut ReasoningMemory, _id: u32) {}

    fn read(&self, memory: &mut ReasoningMemory, token: Token<'_>, say: &mut dyn FnMut(Piece<'_>)) {
        Self::open(memory, say);
        say(Piece::Rest(token));
    }

    fn finish(&self, memory: &mut ReasoningMemory, say: &mut dyn FnMut(Piece<'_>)) {
        Self::open(memory, say);
    }

    fn says_empty(&self, _chunk: &[Token<'_>]) -> bool {
        false
    }
}
