//! The names that `--tool-call-parser` and `--reasoning-parser` take. A new dialect adds its line to [`DIALECTS`].

use super::dialects::*;
use super::engine::{ReadReasoning, ReadTools, Setup};

/// Every dialect.
static DIALECTS: &[&Definition] = &[
    &apertus::DIALECT,
    &cohere_command3::DIALECT,
    &cohere_command4::DIALECT,
    &beam::DIALECT,
    &deepseek_r1::DIALECT,
    &deepseek_v31::DIALECT,
    &deepseek_v32::DIALECT,
    &deepseek_v3::DIALECT,
    &deepseek_v41::DIALECT,
    &deepseek_v4::DIALECT,
    &dots::DIALECT,
    &ernie45::DIALECT,
    &functiongemma::DIALECT,
    &gemma4::DIALECT,
    &gigachat3::DIALECT,
    &glm45::DIALECT,
    &granite4::DIALECT,
    &granite::DIALECT,
    &granite_20b_fc::DIALECT,
    &granite_thinking_parser::DIALECT,
    &hermes::DIALECT,
    &hf::DIALECT,
    &holo2::DIALECT,
    &hunyuan_a13b::DIALECT,
    &hy_v3::DIALECT,
    &hy_v4::DIALECT,
    &inkling::DIALECT,
    &internlm::DIALECT,
    &jamba::DIALECT,
    &k2_horizon::DIALECT,
    &kimi_k2::DIALECT,
    &kimi_k3::DIALECT,
    &lfm2::DIALECT,
    &ling3::DIALECT,
    &llama3_json::DIALECT,
    &llama4_pythonic::DIALECT,
    &longcat::DIALECT,
    &mimo::DIALECT,
    &minicpm5::DIALECT,
    &minicpmv::DIALECT,
    &minimax_m2::DIALECT,
    &minimax_m2_append_think::DIALECT,
    &minimax_m3::DIALECT,
    &mistral::DIALECT,
    &muse::DIALECT,
    &muse_glimmer::DIALECT,
    &nemotron_v3::DIALECT,
    &olmo3::DIALECT,
    &openai::DIALECT,
    &phi4_mini_json::DIALECT,
    &plamo3::DIALECT,
    &poolside_v1::DIALECT,
    &pythonic::DIALECT,
    &qwen3::DIALECT,
    &qwen3_coder::DIALECT,
    &seed_oss::DIALECT,
    &step3::DIALECT,
    &step3p5::DIALECT,
    &step5::DIALECT,
    &xlam::DIALECT,
];

/// Makes a tool half.
pub(super) type Tools = fn(&Setup<'_>) -> Box<dyn ReadTools>;

/// Makes a reasoning half.
pub(super) type Reasoning = fn(&Setup<'_>) -> Box<dyn ReadReasoning>;

/// What a dialect's file tells the registry.
#[derive(Debug)]
pub(super) struct Definition {
    /// Names of the tool half, the main one first.
    pub(super) tool_names: &'static [&'static str],
    /// Names of the reasoning half, the main one first.
    pub(super) reasoning_names: &'static [&'static str],
    /// Models that speak it.
    pub(super) families: &'static str,
    /// Tokens that the vocabulary must have.
    pub(super) needs: &'static [&'static str],
    pub(super) tools: Option<Tools>,
    pub(super) reasoning: Option<Reasoning>,
}

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
#[derive(Debug, Clone)]
pub struct Entry {
    /// The name, as vLLM spells it.
    pub name: &'static str,
    /// Other names of the same dialect.
    pub aliases: Vec<&'static str>,
    /// Where it may be used.
    pub kind: Kind,
    /// Models that speak it.
    pub families: &'static str,
    /// Tokens that the vocabulary must have.
    pub needs: &'static [&'static str],
}

/// Every name, in order.
pub fn registry() -> Vec<Entry> {
    let mut entries: Vec<Entry> = DIALECTS.iter().flat_map(|dialect| entries_of(dialect)).collect();
    entries.sort_by_key(|entry| entry.name);
    entries
}

fn entries_of(dialect: &'static Definition) -> Vec<Entry> {
    let (tools, reasoning) = (dialect.tool_names, dialect.reasoning_names);
    let mut names: Vec<_> = tools.iter().chain(reasoning).copied().collect();
    names.sort_unstable();
    names.dedup();
    let entry = |name: &'static str| Entry {
        name,
        aliases: names.iter().copied().filter(|other| *other != name).collect(),
        kind: match (tools.contains(&name), reasoning.contains(&name)) {
            (true, true) => Kind::Both,
            (true, false) => Kind::Tool,
            (false, _) => Kind::Reasoning,
        },
        families: dialect.families,
        needs: dialect.needs,
    };
    names.iter().map(|name| entry(name)).collect()
}

/// The tool half of this name, and the tokens that it needs.
pub(super) fn tools_named(name: &str) -> Option<(Tools, &'static [&'static str])> {
    DIALECTS
        .iter()
        .find(|dialect| dialect.tool_names.contains(&name))
        .and_then(|dialect| Some((dialect.tools?, dialect.needs)))
}

/// The reasoning half of this name, if it is not its tool half that says the reasoning; and the tokens that it needs.
pub(super) fn reasoning_named(name: &str) -> Option<(Option<Reasoning>, &'static [&'static str])> {
    let found = DIALECTS.iter().find(|dialect| dialect.reasoning_names.contains(&name));
    found.map(|dialect| (dialect.reasoning, dialect.needs))
}

/// The names most like this one.
pub(super) fn closest(name: &str, tools: bool) -> Vec<&'static str> {
    let names = |dialect: &&'static Definition| if tools { dialect.tool_names } else { dialect.reasoning_names };
    let mut all: Vec<_> = DIALECTS.iter().flat_map(names).map(|known| (distance(name, known), *known)).collect();
    all.sort_unstable();
    all.into_iter().take(3).map(|(_, known)| known).collect()
}

/// Edits that make one name the other.
fn distance(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.to_lowercase().chars().collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (i, a) in left.to_lowercase().chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in right.iter().enumerate() {
            let replaced = diagonal + usize::from(a != *b);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closest_names_come_first() {
        assert_eq!(closest("hermez", true)[0], "hermes");
        assert_eq!(closest("qwen", false)[0], "qwen3");
    }
}
