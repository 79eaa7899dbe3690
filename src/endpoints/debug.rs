//! `GET /debug/engines`: what couplet knows of its engines, for whoever has to find out why a request went where it did.
//!
//! It tells the addresses of engines: who may see them is decided at the door.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{Context, Served};
use crate::engine::Pool;
use crate::engine::member::Member;
use crate::respond::http::{self as response, Response};

/// Every pool with its engines.
pub(super) fn engines(context: &Context) -> Response {
    let now = Instant::now();
    let models: Vec<Value> = context.models.iter().map(|served| model(served, now)).collect();
    response::json(json!({"models": models}).to_string())
}

fn model(served: &Served, now: Instant) -> Value {
    let Some(pool) = &served.pool else { return json!({"model": served.name(), "pool": null, "engines": []}) };
    let engines: Vec<Value> = pool.members().iter().map(|member| engine(pool, member, now)).collect();
    let metrics = pool.metrics();
    json!({
        "model": served.name(),
        "pool": {
            "policy": pool.options().policy,
            "running": metrics.running.get(),
            "queued": metrics.queued.get(),
            "retries": metrics.retries.get(),
        },
        "engines": engines,
    })
}

fn engine(pool: &Pool, member: &Member, now: Instant) -> Value {
    let (health, place, metrics) = (member.health(), &member.place, member.metrics());
    let complaint = health.complaint(now);
    let breaker = health.breaker(now);
    let prefix = pool
        .remembered(member.id())
        .map(|(beginnings, recent)| json!({"beginnings": beginnings, "recent_tokens": recent.round()}));
    json!({
        "engine": member.id(),
        "kind": format!("{:?}", member.engine.capabilities().kind),
        "adapters": member.engine.fit().adapters,
        "role": place.role,
        "weight": place.weight,
        "zone": place.zone,
        "available": complaint.is_none(),
        "reason": complaint,
        "share": health.share(now),
        "requests": member.requests(),
        "outstanding_tokens": metrics.outstanding_tokens.get(),
        "breaker": {
            "failures_in_a_row": breaker.failures,
            "pauses_in_a_row": breaker.pauses,
            "left_alone_for": seconds(breaker.left_alone_for),
            "on_trial": breaker.on_trial,
            "busy_for": seconds(health.busy_for(now)),
        },
        "ejections": metrics.ejections.get(),
        "resumes": metrics.resumes.get(),
        "prefix": prefix,
    })
}

fn seconds(time: Option<Duration>) -> Option<f64> {
    time.map(|time| time.as_secs_f64())
}
