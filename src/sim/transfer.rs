//! A KV connector, as far as a proxy sees it: vLLM's NixlConnector, which pulls.
//!
//! A prefill request says `do_remote_decode`; its answer names the blocks that hold the prompt and where they are. A decode
//! request carries what that answer said, and computes only the rest. The simulated block ids are hashes of the prompt, so
//! that a decode request with the blocks of another prompt is noticed.

use std::hash::{DefaultHasher, Hash, Hasher};

use serde::Deserialize;
use serde_json::{Value, json};

use super::request::{Job, invalid};
use crate::api::error::ApiError;

/// Tokens of a block.
const BLOCK: usize = 16;

/// What a request wants of the connector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Transfer {
    /// Its prompt will be decoded elsewhere.
    Out,
    /// Its prompt was computed elsewhere.
    In,
}

/// `kv_transfer_params` of a request.
#[derive(Deserialize)]
struct Params {
    #[serde(default)]
    do_remote_decode: bool,
    #[serde(default)]
    do_remote_prefill: bool,
    remote_block_ids: Option<Vec<Vec<u64>>>,
    remote_engine_id: Option<String>,
    remote_request_id: Option<String>,
    remote_host: Option<String>,
    remote_port: Option<u16>,
    tp_size: Option<u32>,
}

/// Reads and checks the parameters. A real engine would compute the prompt itself, or fail later, where a simulated one says
/// what is wrong.
pub(super) fn read(params: &Value, prompt: &[u32], max_tokens: Option<i64>) -> Result<Option<Transfer>, ApiError> {
    let params = Params::deserialize(params).map_err(|error| wrong(&error.to_string()))?;
    match (params.do_remote_decode, params.do_remote_prefill) {
        (false, false) => Ok(None),
        (true, true) => Err(wrong("both directions are asked for")),
        (true, false) if max_tokens != Some(1) => Err(wrong("a prefill request has max_tokens 1")),
        (true, false) => Ok(Some(Transfer::Out)),
        (false, true) => {
            let told = params.remote_engine_id.is_some()
                && params.remote_request_id.is_some()
                && params.remote_host.is_some()
                && params.remote_port.is_some()
                && params.tp_size.is_some();
            if !told {
                return Err(wrong("it does not say where the blocks are"));
            }
            if params.remote_block_ids != Some(vec![blocks(prompt)]) {
                return Err(wrong("the blocks are those of another prompt"));
            }
            Ok(Some(Transfer::In))
        }
    }
}

/// What the answer to a prefill request says.
pub(super) fn told(job: &Job) -> Option<Value> {
    (job.transfer == Some(Transfer::Out)).then(|| {
        json!({
            "do_remote_prefill": true, "do_remote_decode": false, "remote_block_ids": [blocks(&job.prompt)],
            "remote_engine_id": "simulated", "remote_request_id": job.id, "remote_host": "127.0.0.1", "remote_port": 5600,
            "tp_size": 1, "remote_num_tokens": job.prompt.len(),
        })
    })
}

/// Tokens of a prompt that the engine computes itself: of one that comes from elsewhere only the last.
pub(super) fn computed(job: &Job) -> usize {
    if job.transfer == Some(Transfer::In) { 1 } else { job.prompt.len() }
}

fn blocks(prompt: &[u32]) -> Vec<u64> {
    let mut hasher = DefaultHasher::new();
    let block = |block: &[u32]| {
        block.hash(&mut hasher);
        hasher.finish() >> 11 // as many bits as every JSON reader keeps
    };
    prompt.chunks(BLOCK).map(block).collect()
}

fn wrong(reason: &str) -> ApiError {
    invalid("kv_transfer_params", reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_decode_request_carries_what_the_answer_to_its_prefill_said() {
        let prompt: Vec<u32> = (0..40).collect();
        let out = json!({"do_remote_decode": true, "do_remote_prefill": false, "remote_engine_id": null});
        assert_eq!(read(&out, &prompt, Some(1)).unwrap(), Some(Transfer::Out));
        assert!(read(&out, &prompt, Some(2)).is_err());
        let mut back = json!({
            "do_remote_prefill": true, "remote_block_ids": [blocks(&prompt)], "remote_engine_id": "e",
            "remote_request_id": "r", "remote_host": "h", "remote_port": 1, "tp_size": 1,
        });
        assert_eq!(read(&back, &prompt, None).unwrap(), Some(Transfer::In));
        assert!(read(&back, &prompt[1..], None).is_err());
        back["remote_host"] = Value::Null;
        assert!(read(&back, &prompt, None).is_err());
    }
}
