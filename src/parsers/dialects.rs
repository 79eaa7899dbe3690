//! One file per dialect: the format with an example, who emits it, where it comes from, and the data that reads it.

pub(super) mod deepseek_r1;
pub(super) mod hermes;
pub(super) mod qwen3;
