//! couplet: a sidecar reverse proxy that stands between OpenAI clients and a tokens-only LLM engine.
//!
//! A request walks through the folders in this order:
//!
//! 1. [`server`] accepts the connection and runs the tower stack;
//! 2. [`endpoints`] holds one file per story: it calls the stages below and is the only place that knows all of them;
//! 3. [`render`] turns messages into a prompt, the prompt into token ids and the request into a
//!    [`GenerateRequest`](api::generate::GenerateRequest);
//! 4. [`engine`] picks an engine of the model's pool, sends it to `POST /inference/v1/generate` there and yields chunks of
//!    token ids, from another engine where that one dies;
//! 5. [`grammar`] says which tokens a bound reply may have, where the engine does not take grammars;
//! 6. [`derender`] turns token ids back into text, cuts stop strings, and hands text to [`parsers`], which split it into
//!    reasoning, content and tool calls;
//! 7. [`respond`] writes what came out as server-sent events or as one JSON body.
//!
//! Around the path: [`cli`] reads flags, [`app`] wires the parts, starts them, and follows changes of the settings. Beside
//! it: [`api`] holds the wire types, [`model`] what is loaded once per served model, [`config`] the settings, [`metrics`]
//! the counters, [`traces`] spans, [`sim`] an engine without a model, [`demo`] a chat through both.

pub mod api;
pub mod app;
pub mod cli;
pub mod config;
pub mod demo;
pub mod derender;
pub mod endpoints;
pub mod engine;
pub mod grammar;
pub mod metrics;
pub mod model;
pub mod parsers;
pub mod render;
pub mod respond;
pub mod server;
pub mod sim;
pub mod traces;
