//! One file per dialect: the format with an example, who emits it, where it comes from, and the data that reads it.

pub(super) mod deepseek_r1;
pub(super) mod deepseek_v3;
pub(super) mod deepseek_v31;
pub(super) mod deepseek_v32;
pub(super) mod deepseek_v4;
pub(super) mod deepseek_v41;
pub(super) mod ernie45;
pub(super) mod glm45;
pub(super) mod hermes;
pub(super) mod holo2;
pub(super) mod kimi_k2;
pub(super) mod ling3;
pub(super) mod mimo;
pub(super) mod minimax_m2;
pub(super) mod minimax_m2_append_think;
pub(super) mod minimax_m3;
pub(super) mod nemotron_v3;
pub(super) mod plamo3;
pub(super) mod poolside_v1;
pub(super) mod qwen3;
pub(super) mod qwen3_coder;
pub(super) mod seed_oss;
pub(super) mod step3;
pub(super) mod step3p5;
pub(super) mod step5;
