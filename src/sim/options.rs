//! The flags of `couplet sim`.

use std::net::IpAddr;
use std::time::Duration;

use clap::{Args, Parser, ValueEnum};

use super::faults::Faults;

/// How the simulated engine behaves. [`Options::default`] is what the command line gives without flags.
#[derive(Debug, Clone, Args)]
pub struct Options {
    /// Address to listen on.
    #[arg(long, default_value = "127.0.0.1")]
    pub host: IpAddr,
    /// Port to listen on; 0 takes a free one.
    #[arg(long, default_value_t = 8200)]
    pub port: u16,
    /// Names under which the model is served.
    #[arg(long, value_name = "NAME", default_value = "sim", num_args = 1..)]
    pub model_name: Vec<String>,
    /// LoRA adapters that are loaded. They say what the model says.
    #[arg(long, value_name = "NAME", num_args = 1..)]
    pub lora_name: Vec<String>,
    /// Tokens of prompt and output together.
    #[arg(long, value_name = "N", default_value_t = 32_768)]
    pub max_model_len: u32,
    /// Sequences that run at once; more wait in a queue. Also the largest `n`.
    #[arg(long, value_name = "N", default_value_t = 128)]
    pub max_num_seqs: u32,
    /// Most candidates per position that `logprobs` may ask for.
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub max_logprobs: u32,
    /// Number of token ids. The default fits Qwen3.
    #[arg(long, value_name = "N", default_value_t = 151_936)]
    pub vocab_size: u32,
    /// The ids that end a reply, the model's EOS first. The lowest also tells where special tokens begin.
    #[arg(long, value_name = "ID", default_values_t = [151_645, 151_643], value_delimiter = ',', num_args = 1..)]
    pub eos_token_id: Vec<u32>,
    /// What to say when a request carries no script.
    #[arg(long, value_enum, default_value_t = Reply::Echo)]
    pub reply: Reply,
    /// Time to the first token.
    #[arg(long, value_name = "MS", default_value = "0", value_parser = milliseconds)]
    pub ttft: Duration,
    /// Time from one token to the next.
    #[arg(long, value_name = "MS", default_value = "0", value_parser = milliseconds)]
    pub itl: Duration,
    /// How far a gap between tokens may be off, in both directions (uniform).
    #[arg(long, value_name = "MS", default_value = "0", value_parser = milliseconds)]
    pub itl_jitter: Duration,
    /// Tokens per event. An event leaves when its last token is due.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub chunk_tokens: u32,
    /// Seed of random ids, logprobs and jitter.
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// Simulate `--enable-scale-out` instead of `--tokens-only`: no `/abort_requests`, EOS without a stop reason, and
    /// stop strings and grammars are accepted (and have no effect).
    #[arg(long)]
    pub scale_out: bool,
    /// Write logprobs as engines before 0.32 did: `token: "token_id:198"` instead of `token_id: 198`.
    #[arg(long)]
    pub legacy_logprobs: bool,
    /// Simulate a KV connector: prompts may be computed for, or come from, another engine. Without it, `kv_transfer_params`
    /// have no effect.
    #[arg(long)]
    pub kv_connector: bool,
    /// Faults that every request meets.
    #[command(flatten)]
    pub faults: Faults,
}

/// What the engine says when a request carries no script.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Reply {
    /// The prompt's last message, then EOS. Without a tokenizer this is a guess: the ordinary ids before the prompt's last
    /// EOS id, without their header, which ends where the id after that EOS, or else the prompt's last id, is first seen
    /// (ChatML: the newline after the role). A prompt without EOS is repeated whole. Nothing to echo: random.
    Echo,
    /// Pseudo-random ordinary ids until `max_tokens`.
    Random,
}

#[derive(Parser)]
struct Defaults {
    #[command(flatten)]
    options: Options,
}

impl Default for Options {
    fn default() -> Self {
        Defaults::parse_from(["sim"]).options
    }
}

impl Options {
    /// The first id that counts as special: the lowest EOS id, as tokenizers put their special tokens last.
    pub(super) fn first_special(&self) -> u32 {
        self.eos_token_id.iter().copied().min().unwrap_or(self.vocab_size)
    }
}

fn milliseconds(text: &str) -> Result<Duration, String> {
    let ms: f64 = text.parse().map_err(|_| format!("{text:?} is not a number of milliseconds"))?;
    Duration::try_from_secs_f64(ms / 1000.0).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_those_of_the_command_line() {
        let options = Options::default();
        assert_eq!(options.model_name, ["sim"]);
        assert_eq!(options.eos_token_id, [151_645, 151_643]);
        assert_eq!(options.first_special(), 151_643);
    }

    #[test]
    fn durations_take_fractions_and_refuse_nonsense() {
        assert_eq!(milliseconds("0.5"), Ok(Duration::from_micros(500)));
        assert!(milliseconds("-1").is_err());
        assert!(milliseconds("soon").is_err());
    }
}
