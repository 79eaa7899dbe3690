//! Prefill and decode on different engines.
//!
//! The prefill leg computes the prompt and one token, which nobody sees; its answer says where the engine keeps what it
//! computed. The decode leg carries that, so that its engine fetches instead of computing, and answers the client. The
//! protocol is that of vLLM's KV connectors (NixlConnector and those alike): `do_remote_decode` out, what comes back in.
//!
//! Deliberately absent: who keeps blocks for how long; engines free what is never fetched.

use std::sync::Arc;

use futures_util::StreamExt;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::EngineError;
use super::member::Role;
use super::pool::{Errand, Pool};
use crate::api::generate::GenerateRequest;

/// Parameters of the reply that only cost something where nobody reads it; `prompt_logprobs` are asked of one engine that
/// does all.
const REPLY_ONLY: [&str; 6] =
    ["n", "min_tokens", "logprobs", "logprob_token_ids", "structured_outputs", "output_text_buffer_length"];
/// Where the parameters of the connector stand.
const PARAMS: &str = "kv_transfer_params";

impl Pool {
    /// Lets a prefill engine compute the prompt, where the pool has some, and tells `request` where to fetch it. Where all of
    /// them fail, the decode engine does it, or the request fails, as the settings say.
    pub(super) async fn prefill(
        self: &Arc<Self>,
        request: &mut GenerateRequest,
        errand: &Errand,
    ) -> Result<(), EngineError> {
        if !self.has_role(Role::Prefill) || !is_worth_it(request) {
            return Ok(());
        }
        match self.prefill_leg(&leg(request), errand).await {
            Ok(params) => {
                self.metrics().prefilled("ok");
                request.rest.insert(PARAMS.to_owned(), params);
                Ok(())
            }
            Err(error) if self.options().prefill_fallback => {
                self.metrics().prefilled("fallback");
                tracing::warn!(%error, request_id = %request.request_id, "the decode engine computes the prompt itself");
                Ok(())
            }
            Err(error) => {
                self.metrics().prefilled("failed");
                Err(error)
            }
        }
    }

    /// What the prefill engine says of where the prompt is; another one is asked where one fails.
    async fn prefill_leg(self: &Arc<Self>, leg: &GenerateRequest, errand: &Errand) -> Result<Value, EngineError> {
        let (mut tried, mut retries) = (Vec::new(), self.options().max_retries);
        loop {
            let (mut lease, mut attempt) = self.open(leg, errand, Role::Prefill, tried.clone(), retries).await?;
            let answer = self.in_patience(&lease.member.engine, "prefill", attempt.next()).await;
            let error = match answer.and_then(|answer| answer.transpose()) {
                Ok(answer) => match answer.and_then(|answer| params(answer.kv_transfer_params.as_deref()?)) {
                    Some(params) => {
                        lease.succeeded();
                        return Ok(params);
                    }
                    None => EngineError::Garbage {
                        url: lease.id().to_owned(),
                        cause: format!("no {PARAMS}; a prefill engine needs a --kv-transfer-config"),
                    },
                },
                Err(error) => error,
            };
            tried.push(lease.id().to_owned());
            lease.failed(&error);
            if !error.is_engines_fault() || retries == 0 || !self.pays_for_retry() {
                return Err(error);
            }
            self.metrics().retries.inc();
            retries -= 1;
        }
    }
}

/// Whoever sends parameters has its own arrangements, and what is told of the prompt must come from the engine that computed
/// it.
fn is_worth_it(request: &GenerateRequest) -> bool {
    let given = |value: Option<&Value>| value.is_some_and(|value| !value.is_null());
    !given(request.rest.get(PARAMS)) && !given(request.sampling_params.get("prompt_logprobs"))
}

/// The request that only computes the prompt.
fn leg(request: &GenerateRequest) -> GenerateRequest {
    let mut leg = request.clone();
    for key in REPLY_ONLY {
        leg.sampling_params.shift_remove(key);
    }
    leg.sampling_params.insert("max_tokens".to_owned(), json!(1));
    leg.rest.insert("stream".to_owned(), json!(false));
    let params = json!({
        "do_remote_decode": true, "do_remote_prefill": false, "remote_engine_id": null, "remote_block_ids": null,
        "remote_host": null, "remote_port": null,
    });
    leg.rest.insert(PARAMS.to_owned(), params);
    leg
}

/// What goes into the decode leg, as it came; `None` for null and what is no object.
fn params(given: &RawValue) -> Option<Value> {
    Value::deserialize(given).ok().filter(Value::is_object)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(rest: Value) -> GenerateRequest {
        let sampling = json!({"n": 2, "max_tokens": 50, "min_tokens": 7, "temperature": 0.5, "logprobs": 3});
        GenerateRequest {
            request_id: "chatcmpl-1".to_owned(),
            token_ids: vec![1, 2, 3],
            sampling_params: sampling.as_object().cloned().unwrap_or_default(),
            model: None,
            rest: rest.as_object().cloned().unwrap_or_default(),
        }
    }

    #[test]
    fn the_prefill_leg_asks_for_one_token_of_the_same_prompt() {
        let leg = leg(&request(json!({"stream": true, "priority": 3})));
        assert_eq!(leg.token_ids, [1, 2, 3]);
        assert_eq!(Value::from(leg.sampling_params), json!({"max_tokens": 1, "temperature": 0.5}));
        assert_eq!((&leg.rest["stream"], &leg.rest["priority"]), (&json!(false), &json!(3)));
        assert_eq!(leg.rest[PARAMS]["do_remote_decode"], true);
    }

    #[test]
    fn who_has_its_own_arrangements_keeps_them() {
        assert!(is_worth_it(&request(json!({PARAMS: null}))));
        assert!(!is_worth_it(&request(json!({PARAMS: {"do_remote_prefill": true}}))));
        let mut told = request(json!({}));
        told.sampling_params.insert("prompt_logprobs".to_owned(), json!(1));
        assert!(!is_worth_it(&told));
    }

    #[test]
    fn parameters_are_an_object_or_nothing() {
        let raw = |json: &str| RawValue::from_string(json.to_owned()).unwrap();
        assert_eq!(
            params(&raw("{\"a\": 12345678901234567890123}")).unwrap().to_string(),
            "{\"a\":12345678901234567890123}"
        );
        assert_eq!(params(&raw("null")), None);
        assert_eq!(params(&raw("[]")), None);
    }
}
