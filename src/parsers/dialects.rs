//! One file per dialect: the format with an example, who emits it, where it comes from, and the data that reads it.

pub(super) mod apertus;
pub(super) mod deepseek_r1;
pub(super) mod gigachat3;
pub(super) mod granite;
pub(super) mod granite4;
pub(super) mod granite_20b_fc;
pub(super) mod hermes;
pub(super) mod internlm;
pub(super) mod jamba;
pub(super) mod lfm2;
pub(super) mod llama3_json;
pub(super) mod llama4_pythonic;
pub(super) mod longcat;
pub(super) mod mimo;
pub(super) mod nemotron_v3;
pub(super) mod olmo3;
pub(super) mod phi4_mini_json;
pub(super) mod pythonic;
pub(super) mod qwen3;
pub(super) mod qwen3_coder;
pub(super) mod seed_oss;
pub(super) mod step3p5;
pub(super) mod step5;
pub(super) mod xlam;
