//! Tokenizer classes that transformers builds anew instead of taking tokenizer.json as it is.
//!
//! In: tokenizer.json as JSON, `model_type` and `tokenizer_class`. Out: the JSON that the class would have written:
//! normalizer, pre-tokenizer and decoder of the class around the file's vocabulary. Which class is taken when the two
//! names disagree is transformers' rule (AutoTokenizer, 5.20).

use serde_json::{Map, Value, json};

/// The classes that rebuild. Every other class takes the file as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    /// The file as it is.
    File,
    /// Metaspace in place of the normalizer, byte fallback.
    Llama,
    /// NFC and Qwen's split.
    Qwen2,
    /// As `Qwen2`, marks counted with letters.
    Qwen35,
    /// Spaces replaced, split at spaces.
    Gemma,
    /// NFC, digits one by one.
    Cohere,
    /// GPT-2's byte level.
    Gpt2,
    /// As `Gpt2`, with NFC.
    GptNeox,
}

const QWEN2_SPLIT: &str =
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const QWEN35_SPLIT: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// Model types whose own class wins over the one that tokenizer_config.json names.
const OWN_CLASS_WINS: [&str; 5] = ["qwen2", "qwen3_5", "qwen3_5_moe", "qwen3_5_moe_text", "qwen4_exp"];

impl Class {
    /// The class that AutoTokenizer takes.
    pub(crate) fn resolve(model_type: &str, named: Option<&str>) -> Self {
        let named = named.map(|name| name.strip_suffix("Fast").unwrap_or(name));
        let registered = registered(model_type);
        match (registered, named) {
            (Some(registered), Some(named)) if registered != named => {
                if registered == "TokenizersBackend" {
                    Self::File
                } else if OWN_CLASS_WINS.contains(&model_type) {
                    Self::by_name(registered)
                } else {
                    Self::by_name(named)
                }
            }
            (_, Some(named)) => Self::by_name(named),
            (Some(registered), None) => Self::by_name(registered),
            (None, None) => Self::File,
        }
    }

    fn by_name(name: &str) -> Self {
        match name {
            "LlamaTokenizer" => Self::Llama,
            "Qwen2Tokenizer" => Self::Qwen2,
            "Qwen3_5Tokenizer" => Self::Qwen35,
            "GemmaTokenizer" => Self::Gemma,
            "CohereTokenizer" => Self::Cohere,
            "GPT2Tokenizer" => Self::Gpt2,
            "GPTNeoXTokenizer" => Self::GptNeox,
            _ => Self::File,
        }
    }

    /// The named special tokens that the class has where the configuration says nothing.
    pub(crate) fn default_specials(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::File => &[],
            Self::Llama => &[("bos_token", "<s>"), ("eos_token", "</s>"), ("unk_token", "<unk>")],
            Self::Qwen2 | Self::Qwen35 => {
                &[("eos_token", "<|endoftext|>"), ("unk_token", "<|endoftext|>"), ("pad_token", "<|endoftext|>")]
            }
            Self::Gemma => &[
                ("bos_token", "<bos>"),
                ("eos_token", "<eos>"),
                ("unk_token", "<unk>"),
                ("pad_token", "<pad>"),
                ("mask_token", "<mask>"),
            ],
            Self::Cohere => &[
                ("bos_token", "<BOS_TOKEN>"),
                ("eos_token", "<|END_OF_TURN_TOKEN|>"),
                ("unk_token", "<UNK>"),
                ("sep_token", "<SEP>"),
                ("pad_token", "<PAD>"),
                ("cls_token", "<CLS>"),
                ("mask_token", "<MASK_TOKEN>"),
            ],
            Self::Gpt2 | Self::GptNeox => {
                &[("bos_token", "<|endoftext|>"), ("eos_token", "<|endoftext|>"), ("unk_token", "<|endoftext|>")]
            }
        }
    }

    /// Rewrites tokenizer.json as the class builds it. `config` is tokenizer_config.json, `unk` the unknown token.
    pub(crate) fn rebuild(self, file: &mut Map<String, Value>, config: &Map<String, Value>, unk: Option<&str>) {
        let prefix_space = config.get("add_prefix_space").and_then(Value::as_bool);
        let byte_level = |add_prefix_space: bool, use_regex: bool| json!({"type": "ByteLevel", "add_prefix_space": add_prefix_space, "trim_offsets": true, "use_regex": use_regex});
        let split = |pattern: &str| {
            json!({"type": "Sequence", "pretokenizers": [
                {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": false},
                byte_level(prefix_space.unwrap_or(false), false),
            ]})
        };
        let nfc = json!({"type": "NFC"});
        let (normalizer, pre_tokenizer, decoder, model) = match self {
            Self::File => return,
            Self::Llama => {
                let legacy = config.get("legacy").and_then(Value::as_bool).unwrap_or(false);
                let spaced = prefix_space.unwrap_or(true);
                let scheme = if !spaced {
                    "never"
                } else if legacy {
                    "always"
                } else {
                    "first"
                };
                let pre = json!({"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": false});
                let mut steps = vec![
                    json!({"type": "Replace", "pattern": {"String": "▁"}, "content": " "}),
                    json!({"type": "ByteFallback"}),
                    json!({"type": "Fuse"}),
                ];
                if spaced {
                    steps.push(json!({"type": "Strip", "content": " ", "start": 1, "stop": 0}));
                }
                let model = json!({"unk_token": null, "fuse_unk": true, "byte_fallback": true});
                (Value::Null, pre, json!({"type": "Sequence", "decoders": steps}), model)
            }
            Self::Qwen2 | Self::Qwen35 => {
                let pattern = if self == Self::Qwen2 { QWEN2_SPLIT } else { QWEN35_SPLIT };
                let model = json!({"unk_token": null, "fuse_unk": false, "byte_fallback": false});
                (nfc, split(pattern), byte_level(true, true), model)
            }
            Self::Gemma => {
                let pre = json!({"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious", "invert": false});
                let decoder = json!({"type": "Sequence", "decoders": [
                    {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
                    {"type": "ByteFallback"},
                    {"type": "Fuse"},
                ]});
                let normalizer = json!({"type": "Replace", "pattern": {"String": " "}, "content": "▁"});
                (normalizer, pre, decoder, json!({"unk_token": unk, "fuse_unk": true, "byte_fallback": true}))
            }
            Self::Cohere => {
                let pre = json!({"type": "Sequence", "pretokenizers": [
                    {"type": "Digits", "individual_digits": true},
                    byte_level(prefix_space.unwrap_or(false), true),
                ]});
                let model = json!({"unk_token": null, "fuse_unk": false, "byte_fallback": false});
                (nfc, pre, byte_level(prefix_space.unwrap_or(false), true), model)
            }
            Self::Gpt2 | Self::GptNeox => {
                let normalizer = if self == Self::Gpt2 { Value::Null } else { nfc };
                let model = json!({"unk_token": null, "fuse_unk": false, "byte_fallback": false});
                (normalizer, byte_level(prefix_space.unwrap_or(false), true), byte_level(true, true), model)
            }
        };
        file.insert("normalizer".to_owned(), normalizer);
        file.insert("pre_tokenizer".to_owned(), pre_tokenizer);
        file.insert("decoder".to_owned(), decoder);
        if let (Some(Value::Object(target)), Value::Object(source)) = (file.get_mut("model"), model) {
            target.extend(source);
            target.insert("dropout".to_owned(), Value::Null);
        }
    }
}

/// The class that transformers registers for a model type; `TokenizersBackend` takes the file as it is.
fn registered(model_type: &str) -> Option<&'static str> {
    let class = match model_type {
        "idefics" | "idefics2" => "LlamaTokenizer",
        "audioflamingo3" | "colqwen2" | "hunyuan_vl" | "internvl" | "lighton_ocr" | "ovis2" | "qianfan_ocr"
        | "qwen2" | "qwen2_5_omni" | "qwen2_5_vl" | "qwen2_audio" | "qwen2_moe" | "qwen2_vl" | "qwen3"
        | "qwen3_asr" | "qwen3_moe" | "qwen3_next" | "qwen3_omni_moe" | "qwen3_vl" | "qwen3_vl_moe" => "Qwen2Tokenizer",
        "qwen3_5" | "qwen3_5_moe" | "qwen3_5_moe_text" | "qwen3_5_text" | "qwen4_exp" => "Qwen3_5Tokenizer",
        "gemma" | "gemma2" | "gemma3" | "gemma3_text" | "gemma3n" | "gemma3n_text" | "recurrent_gemma"
        | "shieldgemma2" | "t5gemma" | "zaya" => "GemmaTokenizer",
        "aya_vision" | "cohere" | "cohere2" => "CohereTokenizer",
        "codegen" | "dbrx" | "gpt2" | "gpt_neo" | "gptj" | "jais2" | "opt" | "phi" | "starcoder2" => "GPT2Tokenizer",
        "falcon_mamba" | "gpt_neox" | "mamba" | "mamba2" | "mpt" | "olmo" | "olmoe" | "rwkv" | "xlstm" => {
            "GPTNeoXTokenizer"
        }
        "arctic" | "aria" | "chameleon" | "cohere_asr" | "deepseek_ocr" | "deepseek_v2" | "deepseek_v3"
        | "deepseek_v32" | "deepseek_v4" | "deepseek_vl" | "deepseek_vl_v2" | "ernie4_5" | "ernie4_5_moe"
        | "flex_olmo" | "fuyu" | "glm" | "glm4" | "glm4_moe" | "glm4_moe_lite" | "glm4v" | "glm4v_moe"
        | "gpt_bigcode" | "granite" | "granitemoe" | "granitemoehybrid" | "granitemoeshared" | "hyperclovax"
        | "internlm2" | "jamba" | "janus" | "kimi_k25" | "kimi_linear" | "llava" | "llava_next" | "mimo_v2_flash"
        | "minicpm3" | "minicpmv" | "minimax_m2" | "ministral" | "ministral3" | "mistral" | "mistral3" | "mixtral"
        | "modernbert" | "molmo" | "molmo2" | "nemotron" | "nvfp4" | "olmo2" | "olmo3" | "olmo_hybrid" | "opencua"
        | "openvla" | "paddleocr_vl" | "persimmon" | "phi3" | "phi3_v" | "phimoe" | "pixtral" | "smolvlm"
        | "stablelm" | "step3_vl" | "step3p5" | "vipllava" | "voxtral" => "TokenizersBackend",
        _ => return None,
    };
    Some(class)
}
