//! The names that `--tool-call-parser` and `--reasoning-parser` take.

/// What a name selects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A tool dialect.
    Tool,
    /// A reasoning dialect.
    Reasoning,
    /// Both under one name.
    Both,
}

/// One name and what it stands for.
#[derive(Debug, Clone, Copy)]
pub struct Entry {
    /// The name, as vLLM spells it.
    pub name: &'static str,
    /// Other names of the same dialect.
    pub aliases: &'static [&'static str],
    /// Where it may be used.
    pub kind: Kind,
    /// Models that speak it.
    pub families: &'static str,
    /// Tokens that the vocabulary must have.
    pub needs: &'static [&'static str],
}

/// Every dialect, by name.
pub fn registry() -> &'static [Entry] {
    &[]
}
