//! The routes that only tell: models, health, readiness, version, load, metrics.

use std::time::Instant;

use serde_json::{Value, json};

use super::route::Route;
use super::{Context, Served, coupled, debug};
use crate::engine::capabilities::Kind;
use crate::respond::http::{self as response, Response};

/// `GET /ready`: whether requests are welcome, and how every engine is. Ready while any model can be served: taking
/// all of couplet out for one of several would take the others out too.
pub fn ready(context: &Context, leaving: bool) -> Response {
    let models: Vec<(bool, Value)> = context.models.iter().map(|served| readiness(served)).collect();
    let ready = !leaving && models.iter().any(|(ready, _)| *ready);
    let reason = leaving.then_some("couplet is stopping");
    let models: Vec<Value> = models.into_iter().map(|(_, told)| told).collect();
    let mut response = response::json(json!({"ready": ready, "reason": reason, "models": models}).to_string());
    if !ready {
        *response.status_mut() = http::StatusCode::SERVICE_UNAVAILABLE;
    }
    response
}

/// A model without engines serves the raw steps, for which it is always ready.
fn readiness(served: &Served) -> (bool, Value) {
    let Some(pool) = &served.pool else {
        return (true, json!({"model": served.name(), "ready": true, "engines": []}));
    };
    let now = Instant::now();
    let mut ready = false;
    let mut engines = Vec::new();
    for member in pool.members().iter() {
        // Requests are tried there, but nobody should count on it.
        let silent = || (member.engine.capabilities().kind == Kind::Unknown).then(|| "has not answered yet".to_owned());
        let reason = member.health().complaint(now).or_else(silent);
        ready |= reason.is_none();
        engines.push(json!({"engine": member.id(), "ready": reason.is_none(), "reason": reason}));
    }
    (ready, json!({"model": served.name(), "ready": ready, "engines": engines}))
}

/// Answers a request without a body.
pub fn answer(context: &Context, route: Route) -> Response {
    match route {
        Route::Models => response::json(models(context).to_string()),
        Route::Version => response::json(json!({"version": env!("CARGO_PKG_VERSION")}).to_string()),
        Route::Load => {
            // The request that asks is not load.
            response::json(json!({"server_load": (context.metrics.in_flight() - 1).max(0)}).to_string())
        }
        Route::Ready => ready(context, false),
        Route::Metrics => metrics(context),
        Route::Engines => debug::engines(context),
        _ => response::empty(),
    }
}

/// `GET /metrics`: which engines are available is told as it is now.
fn metrics(context: &Context) -> Response {
    let now = Instant::now();
    for pool in context.models.iter().filter_map(|served| served.pool.as_ref()) {
        pool.members().iter().for_each(|member| member.tell_availability(now));
    }
    response::text("text/plain; version=0.0.4; charset=utf-8", context.metrics.text(context.settings.vllm_metric_names))
}

/// `GET /v1/models`: an entry per served name, as vLLM writes them.
fn models(context: &Context) -> Value {
    let created = coupled::now();
    let mut data = Vec::new();
    for served in &context.models {
        data.extend(served.model.names().iter().map(|name| entry(name, served, created)));
        // An adapter that has the name of a model cannot be asked for.
        let adapters = served.adapters().into_iter().filter(|(name, _)| !context.is_model(name));
        data.extend(adapters.map(|(name, root)| adapter(&name, root, served, created)));
    }
    json!({"object": "list", "data": data})
}

/// A LoRA adapter.
fn adapter(name: &str, root: Option<String>, served: &Served, created: u64) -> Value {
    let mut entry = entry(name, served, created);
    entry["root"] = root.into();
    entry["parent"] = served.name().into();
    entry["max_model_len"] = Value::Null;
    entry
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
