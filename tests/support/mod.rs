//! What integration tests share: a simulated engine, couplet itself, the tiny model, an HTTP client that reads events.

#![allow(dead_code, reason = "each test binary uses its own part")]
#![allow(unreachable_pub, reason = "a test binary has no outside")]

pub mod chat;
pub mod couplet;
pub mod dns;
pub mod http;
pub mod pool;
pub mod scrape;
pub mod sim;
pub mod tiny;
