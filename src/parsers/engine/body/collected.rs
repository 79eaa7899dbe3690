//! A body that means something only when it is complete: it is collected and made into arguments at its end.

use serde::{Deserialize, Serialize};

use super::super::Output;
use super::super::memory::is_default;
use crate::parsers::Context;

/// What is longer than this is cut here.
const MAX_TEXT: usize = 1024 * 1024;

/// Makes arguments of a body.
#[derive(Debug, Clone, Copy)]
pub(in crate::parsers) struct Collected {
    /// The JSON of the arguments, given the function and the text of the body.
    pub(in crate::parsers) arguments: fn(&Context, &str, &str) -> String,
}

/// What was collected.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(in crate::parsers) struct CollectedMemory {
    #[serde(rename = "f", skip_serializing_if = "is_default")]
    function: String,
    #[serde(rename = "t", skip_serializing_if = "is_default")]
    text: String,
}

impl CollectedMemory {
    pub(super) fn named(&mut self, function: &str) {
        function.clone_into(&mut self.function);
    }

    pub(super) fn read(&mut self, text: &str) {
        if self.text.len() < MAX_TEXT {
            self.text.push_str(text);
        }
    }
}

impl Collected {
    pub(super) fn end(&self, memory: &CollectedMemory, out: &mut Output<'_>) {
        let arguments = (self.arguments)(out.context, &memory.function, &memory.text);
        out.arguments(&arguments);
    }
}
