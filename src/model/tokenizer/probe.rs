//! Proves, at load, that the fast tokenizer gives the ids of the exact one.
//!
//! The probe set covers prose, code, CJK and other scripts, emoji, runs of whitespace, digits, every added token, and
//! what this model's own template writes. One difference, and the fast tokenizer is not used.

use serde_json::Value;

use super::{Path, ids_of};

/// Texts that tokenizers are known to disagree on.
const PROBES: [&str; 24] = [
    "Hello, world! It's a test; they'll've done it, I'd say 'twas fine.",
    "The quick brown fox jumps over the lazy dog. THE QUICK BROWN FOX.",
    "fn main() {\n    let x: Vec<u32> = (0..10).map(|i| i * 2).collect();\n\tprintln!(\"{x:?}\");\n}\n",
    "def f(a, b=None):\n    \"\"\"Doc.\"\"\"\n    return {**a, 'k': [1, 2.5e-3, 0x1F]} if b else a\n\n\n",
    "{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Zürich\", \"unit\": null}}",
    "SELECT * FROM t WHERE a>=1 AND b!='x'; -- done",
    "今日は天気がいいですね。明日は雨が降るかもしれません。東京都港区",
    "中文分词测试：这是一个很长的句子，没有空格，包含标点符号。繁體字也要測試",
    "한국어 문장입니다. 띄어쓰기가 있습니다.",
    "Привет, мир! Как дела? Съешь ещё этих мягких французских булок",
    "مرحبا بالعالم، كيف حالك؟ ١٢٣٤",
    "שלום עולם हिन्दी में एक वाक्य है। ภาษาไทยไม่มีช่องว่าง",
    "👩‍👩‍👧‍👦🏳️‍🌈 emoji 😀😁😂🤣 ☃️ ✈️ 🇨🇭",
    "e\u{301} é \u{fb01} Ⅷ ① ｆｕｌｌ ½ ² \u{200b}zero\u{200d}width\u{feff} nbsp\u{a0}x \u{2028}y",
    "   leading and trailing   \t\n\n\n   \r\n mid \t\t tabs \n \n",
    "a  b   c    d     e      f       g        h",
    "1 12 123 1234 12345 1234567890 3.14159 1,000,000 2024-01-31T23:59:59Z",
    "!!! ??? ... --- === *** ((())) [[[]]] {{{}}} <<<>>> ||| &&& %%% $$$ ### @@@ ~~~ ```",
    "https://example.com/a/b?c=d&e=f#g user@example.org C:\\path\\file.txt /usr/bin/env",
    "camelCase snake_case SCREAMING_CASE kebab-case iOS7 x86_64 aB1cD2",
    "\u{0}\u{1}\u{7f}\u{80}\u{ff}\u{fffd} control",
    "İıſß ǅ ﷺ 𝒳 𐍈 🧪",
    "</s> <s> <unk> [INST] x [/INST] <|im_start|> <|end|> <think> </think> <tool_call>",
    "n't N'T 'S 'Re we'Ve  ' '  \" “quotes” ‘single’ — – … •",
];

/// The fast tokenizer, if it proves equal.
pub(super) fn fast_if_equal(
    json: Value,
    exact: &tokenizers::Tokenizer,
    segment_cache_bytes: usize,
    templates: &[String],
) -> (Option<fastokens::Tokenizer>, Path) {
    // A thread of its own: what a thread that encodes keeps (tables of tens of megabytes) goes with it, and what stays is
    // not strewn between the pieces of the JSON that goes.
    let made = std::thread::scope(|scope| {
        scope.spawn(|| make_and_compare(json, exact, segment_cache_bytes, templates)).join()
    });
    made.unwrap_or_else(|_| (None, Path::Exact { reason: "fastokens panicked".to_owned() }))
}

fn make_and_compare(
    json: Value,
    exact: &tokenizers::Tokenizer,
    segment_cache_bytes: usize,
    templates: &[String],
) -> (Option<fastokens::Tokenizer>, Path) {
    let added: Vec<String> = exact.get_added_tokens_decoder().into_values().map(|token| token.content).collect();
    let mut fast = match fastokens::Tokenizer::from_json(json) {
        Ok(fast) => fast,
        Err(error) => return (None, Path::Exact { reason: format!("fastokens cannot read tokenizer.json: {error}") }),
    };
    let texts = probe_texts(&added, templates);
    if let Some(reason) = first_difference(&fast, exact, &texts) {
        return (None, Path::Exact { reason });
    }
    if segment_cache_bytes > 0 {
        fast.enable_segment_cache(segment_cache_bytes);
    }
    (Some(fast), Path::Fast { probes: texts.len() })
}

/// Where the two disagree: a token, or the ids of a text.
fn first_difference(fast: &fastokens::Tokenizer, exact: &tokenizers::Tokenizer, texts: &[String]) -> Option<String> {
    let same_token = |token: &str, id: u32| {
        fast.token_to_id(token) == Some(id) && fast.id_to_token(id) == exact.id_to_token(id).as_deref()
    };
    if let Some((token, _)) = exact.get_vocab(true).iter().find(|(token, id)| !same_token(token, **id)) {
        return Some(format!("fastokens has another id for the token {token:?}"));
    }
    let differs = |text: &&String| {
        let wanted = ids_of(exact, text).ok();
        wanted.is_none() || wanted != fast.encode(text).ok()
    };
    let text: String = texts.iter().find(differs)?.chars().take(40).collect();
    Some(format!("fastokens gives other ids for {text:?}"))
}

fn probe_texts(added: &[String], templates: &[String]) -> Vec<String> {
    let mut texts: Vec<String> = PROBES.iter().map(|text| (*text).to_owned()).collect();
    texts.push(PROBES.join("\n"));
    texts.push(PROBES.join(""));
    texts.push(String::new());
    texts.push(" ".to_owned());
    for chunk in added.chunks(64) {
        texts.push(chunk.join(""));
        texts.push(chunk.join(" x "));
        texts.push(chunk.join("\n"));
    }
    texts.extend_from_slice(templates);
    texts
}
