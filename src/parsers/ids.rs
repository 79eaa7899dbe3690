//! Ids of tool calls, made from the seed of a reply: the same reply read again gets the same ids.

use std::fmt::Write;

/// vLLM's usual shape, `chatcmpl-tool-` and 16 hexadecimal digits.
pub(super) fn random(seed: u64, index: usize) -> String {
    let mut id = String::with_capacity(30);
    let _ = write!(id, "chatcmpl-tool-{:016x}", mix(seed, index));
    id
}

/// xLAM's shape: the call's number in the reply, and 16 hexadecimal digits.
pub(super) fn counted(seed: u64, index: usize) -> String {
    format!("call_{index}_{:016x}", mix(seed, index))
}

/// Mistral's shape: nine letters and digits.
pub(super) fn nine(seed: u64, index: usize) -> String {
    const LETTERS: &[u8; 62] = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    let mut rest = mix(seed, index);
    let mut next = || {
        let letter = LETTERS.get((rest % 62) as usize).copied().unwrap_or(b'0');
        rest /= 62;
        char::from(letter)
    };
    (0..9).map(|_| next()).collect()
}

/// Hunyuan's shape, `call_` and 16 hexadecimal digits.
pub(super) fn call(seed: u64, index: usize) -> String {
    format!("call_{:016x}", mix(seed, index))
}

/// Kimi's shape: the function and the call's number in the conversation.
pub(super) fn numbered(name: &str, number: usize) -> String {
    format!("functions.{name}:{number}")
}

/// SplitMix64: one well mixed number per index.
fn mix(seed: u64, index: usize) -> u64 {
    let step = (index as u64).wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let mut z = seed.wrapping_add(step);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}
