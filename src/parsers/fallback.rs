//! What looked like a call and became content, counted by why.

/// Why what looked like a call is content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fallback {
    /// It is no call as the format writes one.
    Malformed,
    /// The reply ended inside it.
    Unfinished,
    /// It is of a function that the request does not have, in a format that calls only those.
    Unknown,
}

impl Fallback {
    /// Every reason.
    pub const ALL: [Self; 3] = [Self::Malformed, Self::Unfinished, Self::Unknown];

    /// Its name in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Malformed => "malformed_call",
            Self::Unfinished => "unfinished_call",
            Self::Unknown => "unknown_tool",
        }
    }
}

/// How often that was, by reason.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Fallbacks([u32; Fallback::ALL.len()]);

impl Fallbacks {
    /// True where nothing became content.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The reasons that there were, and how often.
    pub fn iter(&self) -> impl Iterator<Item = (Fallback, u32)> {
        Fallback::ALL.into_iter().zip(self.0).filter(|(_, count)| *count > 0)
    }

    pub(super) fn add(&mut self, reason: Fallback) {
        let count = &mut self.0[reason as usize];
        *count = count.saturating_add(1);
    }
}
