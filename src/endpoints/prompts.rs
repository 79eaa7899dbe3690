//! `--log-prompts`: what models were told and what they said, in the log. Nothing here runs without it.
//!
//! Both are decoded from the tokens, marks included: what the engine saw, not what the client wrote. The target
//! `couplet::prompts` is theirs alone, so that they can be sent elsewhere, or be silenced.

use std::sync::Arc;

use super::{Context, Head};
use crate::metrics::Record;
use crate::model::vocabulary::Vocabulary;

/// The target of these lines.
const TARGET: &str = "couplet::prompts";

/// Collects one request's replies, and logs them when it is dropped: also of a reply that breaks off.
pub(super) struct Transcript {
    record: Arc<Record>,
    vocabulary: Arc<Vocabulary>,
    replies: Vec<Vec<u32>>,
}

impl Transcript {
    /// Logs the prompts of a request that is going to have so many choices; `None` where prompts are not logged.
    pub(super) fn begin<'p>(
        context: &Context,
        head: &Head,
        vocabulary: &Arc<Vocabulary>,
        prompts: impl Iterator<Item = &'p [u32]>,
        choices: usize,
    ) -> Option<Self> {
        if !context.settings.log_prompts {
            return None;
        }
        let id = head.record.id();
        for ids in prompts {
            tracing::info!(target: TARGET, id, tokens = ids.len(), text = vocabulary.decode_ids(ids), "prompt");
        }
        let record = Arc::clone(&head.record);
        Some(Self { record, vocabulary: Arc::clone(vocabulary), replies: vec![Vec::new(); choices] })
    }

    /// A choice goes on with these tokens.
    pub(super) fn said(&mut self, choice: usize, ids: &[u32]) {
        if let Some(reply) = self.replies.get_mut(choice) {
            reply.extend_from_slice(ids);
        }
    }
}

impl Drop for Transcript {
    fn drop(&mut self) {
        let id = self.record.id();
        for (choice, ids) in self.replies.iter().enumerate() {
            let text = self.vocabulary.decode_ids(ids);
            tracing::info!(target: TARGET, id, choice, tokens = ids.len(), text, "reply");
        }
    }
}
