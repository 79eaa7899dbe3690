//! Muse Glimmer: messages of reasoning, content and tool calls.
//!
//! ```text
//!  to=self<|message|>The user wants the weather.<|eom|><|start|>assistant to=user<|message|>It is sunny.<|eot|>
//! ```
//!
//! Emitted by Muse Glimmer. As Muse's ([`muse`]), but a message to nobody is content, and every value that is JSON is read as
//! such. Tokens of reasoning do not count.

use super::super::engine::Mode;
use super::super::engine::messages::Messages;
use super::super::registry::Definition;
use super::muse::{self, Framed};

pub(in crate::parsers) static DIALECT: Definition = Definition {
    tool_names: &["muse_glimmer"],
    reasoning_names: &["muse_glimmer"],
    families: "Muse Glimmer",
    needs: &[],
    tools: Some(|setup| MESSAGES.compile(setup)),
    reasoning: Some(|setup| Box::new(Framed::new(|_| false, setup))),
};

static MESSAGES: Messages = Messages { addressed, calls: |text, out| muse::calls(text, false, out), ..muse::MESSAGES };

fn addressed(to: Option<&str>) -> Mode {
    match to {
        Some("self") => Mode::Think,
        None | Some("user") => Mode::Content,
        Some("developer") => Mode::Between,
        Some(_) => Mode::Body,
    }
}
