//! Muse Glimmer: messages of reasoning, content and tool calls.
//!
//! ```text
//!  to=self<|message|>The user wants the weather.<|eom|><|start|>assistant to=user<|message|>It is sunny.<|eot|>
//! ```
//!
//! Emitted by Muse Glimmer. As Muse's ([`muse`](super::muse)), but a message to nobody is content, and every value that is JSON
//! is read as such.

use super::super::engine::Mode;
use super::super::registry::Definition;
use super::muse::{Framed, Messages};

pub(in crate::parsers) static DIALECT: Definition = Definition {
    tool_names: &["muse_glimmer"],
    reasoning_names: &["muse_glimmer"],
    families: "Muse Glimmer",
    needs: &[],
    tools: Some(|setup| Box::new(Messages::new(setup, addressed, false))),
    reasoning: Some(|_| Box::new(Framed("muse_glimmer"))),
};

fn addressed(to: Option<&str>) -> Mode {
    match to {
        Some("self") => Mode::Name,
        None | Some("user") => Mode::Content,
        Some(_) => Mode::Body,
    }
}
