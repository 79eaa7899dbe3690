//! `auto`: which dialects a model speaks, told from its files.
//!
//! A model that calls tools names its marks in its chat template, or has them as tokens; what it calls itself
//! (`model_type`) only decides where two families share marks. The first rule that fits wins, so special marks stand
//! before common ones.

use super::{Kind, Vocabulary, registry};

/// What is known of a model.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    /// `model_type` of config.json.
    pub model_type: &'a str,
    /// The text of its chat templates.
    pub template: &'a str,
    /// Its tokens.
    pub vocabulary: &'a Vocabulary,
}

/// A parser and the reason for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// The parser's name.
    pub name: &'static str,
    /// The mark or type that decided.
    pub why: String,
}

/// One rule: all of its conditions must hold.
struct Rule {
    name: &'static str,
    /// Types that it is for; any where empty.
    types: &'static [&'static str],
    /// Marks that the template or the vocabulary must have.
    marks: &'static [&'static str],
    /// Words that the template itself must have: a vocabulary may come from another family.
    template: &'static [&'static str],
    /// Words that the template must not have.
    unless: &'static [&'static str],
}

const fn rule(name: &'static str, types: &'static [&'static str], marks: &'static [&'static str]) -> Rule {
    Rule { name, types, marks, template: &[], unless: &[] }
}

const TOOLS: &[Rule] = &[
    rule("openai", &["gpt_oss"], &[]),
    rule("deepseek_v41", &["deepseek_v41"], &[]),
    rule("deepseek_v4", &["deepseek_v4"], &[]),
    rule("deepseek_v32", &["deepseek_v32"], &[]),
    rule("kimi_k3", &["kimi_k3"], &[]),
    rule("kimi_k2", &[], &["<|tool_calls_section_begin|>"]),
    rule("deepseek_v3", &[], &["<｜tool▁calls▁begin｜>", "```json"]),
    rule("deepseek_v31", &[], &["<｜tool▁calls▁begin｜>"]),
    rule("minimax_m3", &["minimax_m3"], &[]),
    rule("minimax_m2", &[], &["<minimax:tool_call>"]),
    rule("seed_oss", &[], &["<seed:tool_call>"]),
    rule("glm47", &["glm4_moe_lite"], &["<arg_key>"]),
    rule("glm45", &[], &["<arg_key>"]),
    rule("cohere_command4", &["cohere4"], &["<|START_ACTION|>"]),
    rule("cohere_command3", &[], &["<|START_ACTION|>"]),
    rule("llama4_pythonic", &[], &["<|python_start|>"]),
    rule("lfm2", &[], &["<|tool_call_start|>"]),
    rule("functiongemma", &[], &["<start_function_call>"]),
    rule("gemma4", &[], &["<|tool_call>"]),
    Rule { unless: &["<TOOLCALL>"], ..rule("mistral", &[], &["[TOOL_CALLS]"]) },
    rule("longcat", &[], &["<longcat_tool_call>"]),
    rule("apertus", &["apertus"], &[]),
    rule("hunyuan_a13b", &["hunyuan_v1_moe"], &["<tool_calls>"]),
    rule("internlm", &["internlm2", "internlm3"], &["<|plugin|>"]),
    rule("jamba", &["jamba"], &["<tool_calls>"]),
    rule("olmo3", &["olmo2", "olmo3"], &["<function_calls>"]),
    rule("step3", &["step3_vl", "step3_text"], &["<｜tool_calls_begin｜>"]),
    rule("ernie45", &["ernie4_5", "ernie4_5_moe"], &["<tool_call>"]),
    rule("granite", &["granite", "granitemoe"], &["<|tool_call|>"]),
    rule("granite4", &["granite", "granitemoe", "granitemoehybrid"], &["<tool_call>"]),
    rule("phi4_mini_json", &[], &["<|tool_call|>", "<|tool|>"]),
    rule("step3p5", &["step3p5"], &["<function="]),
    rule("step5", &["step5"], &["<function="]),
    rule("mimo", &["mimo", "mimo_v2_flash"], &["<function="]),
    rule("qwen3_coder", &[], &["<function=", "<parameter="]),
    // Fine-tunes of Llama keep its tokens and call tools in their own way.
    Rule { template: &["<tool_call>"], ..rule("hermes", &[], &[]) },
    Rule { template: &["<|start_header_id|>"], ..rule("llama3_json", &[], &["<|python_tag|>"]) },
    rule("hermes", &[], &["<tool_call>"]),
];

const REASONING: &[Rule] = &[
    rule("openai_gptoss", &["gpt_oss"], &[]),
    rule("deepseek_v41", &["deepseek_v41"], &[]),
    rule("deepseek_v4", &["deepseek_v4"], &[]),
    rule("kimi_k3", &["kimi_k3"], &[]),
    rule("kimi_k2", &[], &["<|tool_calls_section_begin|>", "<think>"]),
    rule("deepseek_v3", &[], &["<｜tool▁calls▁begin｜>", "thinking"]),
    rule("deepseek_r1", &["deepseek_v3", "deepseek_v2"], &["<think>"]),
    rule("minimax_m3", &["minimax_m3"], &[]),
    rule("minimax_m2", &[], &["<minimax:tool_call>"]),
    rule("seed_oss", &[], &["<seed:think>"]),
    rule("glm45", &[], &["<arg_key>", "<think>"]),
    rule("cohere_command3", &[], &["<|START_THINKING|>"]),
    rule("gemma4", &[], &["<|tool_call>", "<|channel>"]),
    Rule { template: &["[THINK]"], ..rule("mistral", &[], &[]) },
    rule("hunyuan_a13b", &["hunyuan_v1_moe"], &["<think>"]),
    rule("olmo3", &["olmo2", "olmo3"], &["<think>"]),
    rule("step3", &["step3_vl", "step3_text"], &["<think>"]),
    rule("ernie45", &["ernie4_5", "ernie4_5_moe"], &["<think>"]),
    rule("granite", &["granite", "granitemoe"], &["Here is my thought process"]),
    rule("step3p5", &["step3p5"], &["<think>"]),
    rule("mimo", &["mimo", "mimo_v2_flash"], &["<think>"]),
    rule("qwen3", &[], &["enable_thinking", "<think>"]),
    Rule { unless: &["content.split('</think>')"], ..rule("deepseek_r1", &["qwen2", "llama"], &["<think>\\n"]) },
];

/// The tool parser of a model; `None` where no rule fits.
pub fn tools(facts: Facts<'_>) -> Option<Choice> {
    choose(TOOLS, facts, Kind::Tool)
}

/// The reasoning parser of a model; `None` where no rule fits.
pub fn reasoning(facts: Facts<'_>) -> Option<Choice> {
    choose(REASONING, facts, Kind::Reasoning)
}

fn choose(rules: &[Rule], facts: Facts<'_>, kind: Kind) -> Option<Choice> {
    let served = registry();
    let is_served = |name: &str| {
        served.iter().any(|entry| {
            (entry.kind == kind || entry.kind == Kind::Both) && (entry.name == name || entry.aliases.contains(&name))
        })
    };
    let found = rules.iter().find(|rule| rule.fits(facts) && is_served(rule.name))?;
    let marks: Vec<&str> = found.marks.iter().chain(found.template).copied().collect();
    let why = match marks.as_slice() {
        [] => format!("model_type is {}", facts.model_type),
        marks => format!("the model knows {}", marks.join(" and ")),
    };
    Some(Choice { name: found.name, why })
}

impl Rule {
    fn fits(&self, facts: Facts<'_>) -> bool {
        let knows = |mark: &&str| facts.template.contains(*mark) || facts.vocabulary.ids.contains_key(*mark);
        (self.types.is_empty() || self.types.contains(&facts.model_type))
            && self.marks.iter().all(knows)
            && self.template.iter().all(|word| facts.template.contains(word))
            && !self.unless.iter().any(|word| facts.template.contains(word))
    }
}
