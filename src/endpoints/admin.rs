//! The routes that only tell: models, health, version, load, metrics.

use serde_json::{Value, json};

use super::route::Route;
use super::{Context, Served, coupled};
use crate::respond::http::{self as response, Response};

/// Answers a request without a body.
pub fn answer(context: &Context, route: Route) -> Response {
    match route {
        Route::Models => response::json(models(context).to_string()),
        Route::Version => response::json(json!({"version": env!("CARGO_PKG_VERSION")}).to_string()),
        Route::Load => {
            // The request that asks is not load.
            response::json(json!({"server_load": (context.metrics.in_flight.get() - 1).max(0)}).to_string())
        }
        Route::Metrics => response::text("text/plain; version=0.0.4; charset=utf-8", context.metrics.text()),
        _ => response::empty(),
    }
}

/// `GET /v1/models`: an entry per served name, as vLLM writes them.
fn models(context: &Context) -> Value {
    let created = coupled::now();
    let entries = context.models.iter().flat_map(|served| served.model.names().iter().map(move |name| (name, served)));
    let data: Vec<Value> = entries.map(|(name, served)| entry(name, served, created)).collect();
    json!({"object": "list", "data": data})
}

fn entry(name: &str, served: &Served, created: u64) -> Value {
    json!({
        "id": name,
        "object": "model",
        "created": created,
        "owned_by": "vllm",
        "root": served.model.options().model,
        "parent": null,
        "max_model_len": served.model.max_model_len(),
        "permission": [{
            "id": format!("modelperm-{:016x}", coupled::random()),
            "object": "model_permission",
            "created": created,
            "allow_create_engine": false,
            "allow_sampling": true,
            "allow_logprobs": true,
            "allow_search_indices": false,
            "allow_view": true,
            "allow_fine_tuning": false,
            "organization": "*",
            "group": null,
            "is_blocking": false,
        }],
    })
}
