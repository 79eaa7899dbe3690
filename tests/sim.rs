//! The engine simulator, through real sockets: held against answers of a real engine, then what it adds of its own.

#![expect(clippy::unwrap_used, reason = "a test that panics has reported")]

mod support;

use std::time::{Duration, Instant};

use couplet::sim::{Faults, Options, Reply};
use serde_json::{Value, json};
use support::http::{self, Events};
use support::sim::Engine;

const GENERATE: &str = "/inference/v1/generate";

mod recorded {
    //! The fixtures that `conformance/record_engine.py` recorded from vLLM 0.32.

    use super::*;

    /// Texts of body validation are pydantic's own; what they are about must agree, not the wording.
    const OWN_WORDING: [&str; 1] = ["Bad Request"];

    /// These name all of a grammar's fields in the end, in Python's notation.
    const CUT_WORDING: [&str; 2] = ["none are specified", "multiple are specified"];

    fn lines(name: &str) -> Vec<Value> {
        let path = format!("{}/tests/fixtures/engine/{name}.jsonl", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(path).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    fn options() -> Options {
        Options { model_name: vec!["tiny-qwen3".into()], max_model_len: 4096, ..Options::default() }
    }

    #[tokio::test]
    async fn a_tokens_only_engine_answers_the_same() {
        let compared = compare("tokens_only", options()).await;
        assert!(compared > 90, "only {compared} cases");
    }

    #[tokio::test]
    async fn a_scale_out_engine_answers_the_same() {
        let compared = compare("scale_out", Options { scale_out: true, ..options() }).await;
        assert!(compared > 4, "only {compared} cases");
    }

    async fn compare(fixture: &str, options: Options) -> usize {
        let engine = Engine::start(options).await;
        let mut problems = Vec::new();
        let lines = lines(fixture);
        for line in &lines {
            if let Some(paths) = line.get("openapi_paths") {
                let listed = http::get(&format!("{}/openapi.json", engine.url)).await.json();
                let unknown: Vec<_> = keys(&listed["paths"]).into_iter().filter(|path| !has(paths, path)).collect();
                assert_eq!(unknown, [""; 0], "routes that the real engine does not list");
                assert_eq!(has(paths, "/abort_requests"), keys(&listed["paths"]).contains(&"/abort_requests"));
            } else if let Some(names) = line.get("metrics") {
                let metrics = http::get(&format!("{}/metrics", engine.url)).await.text;
                let ours =
                    metrics.lines().filter(|line| !line.starts_with('#')).map(|line| line.split('{').next().unwrap());
                assert_eq!(ours.filter(|name| !has(names, name)).count(), 0);
            } else {
                let case = &line["case"];
                let got = ask(&engine, case).await;
                let [want, got] = [&line["response"], &got].map(|response| reduce(case, response));
                if want != got {
                    problems.push(format!("{}\n  want {want}\n  got  {got}", case["name"]));
                }
            }
        }
        assert!(problems.is_empty(), "{} differ:\n{}", problems.len(), problems.join("\n"));
        lines.len()
    }

    fn keys(object: &Value) -> Vec<&str> {
        object.as_object().unwrap().keys().map(String::as_str).collect()
    }

    fn has(list: &Value, name: &str) -> bool {
        list.as_array().unwrap().iter().any(|item| item == name)
    }

    async fn ask(engine: &Engine, case: &Value) -> Value {
        let raw = case.get("raw_body").map(|raw| raw.as_str().unwrap().chars().map(|c| c as u8).collect());
        let body = case.get("body").map(|body| expand(body).to_string().into_bytes()).or(raw);
        let mut headers = Vec::new();
        if let Some(map) = case.get("headers").and_then(Value::as_object) {
            headers = map.iter().map(|(name, value)| (name.as_str(), value.as_str().unwrap())).collect();
        }
        let url = format!("{}{}", engine.url, case["path"].as_str().unwrap());
        let answer = http::send(case["method"].as_str().unwrap(), &url, &headers, body).await;
        let mut headers = json!({});
        for name in ["allow", "content-type"] {
            if let Some(value) = answer.header(name) {
                headers[name] = value.into();
            }
        }
        json!({"status": answer.status, "headers": headers, "text": answer.text})
    }

    /// `{"repeat": [x, n]}` → n times x.
    fn expand(value: &Value) -> Value {
        match value {
            Value::Object(map) if map.contains_key("repeat") => {
                let n = map["repeat"][1].as_u64().unwrap();
                vec![map["repeat"][0].clone(); n as usize].into()
            }
            Value::Object(map) => {
                map.iter().map(|(key, value)| (key.clone(), expand(value))).collect::<serde_json::Map<_, _>>().into()
            }
            other => other.clone(),
        }
    }

    /// An answer as text, without what is rightly different: times, numbers of a model, orders of interleaving.
    fn reduce(case: &Value, response: &Value) -> String {
        let text = response["text"].as_str().unwrap();
        let mut events: Vec<String> = if text.starts_with("data: ") {
            text.split_terminator("\n\n").map(|event| reduce_json(event.strip_prefix("data: ").unwrap())).collect()
        } else {
            vec![reduce_json(text)]
        };
        if case["body"]["sampling_params"]["n"] == 2 {
            events.sort_by_key(|event| (!event.contains("\"index\":0"), !event.contains("\"index\":1")));
        }
        format!("{} {} {}", response["status"], response["headers"], events.join("\n       "))
    }

    fn reduce_json(text: &str) -> String {
        let Ok(mut value) = serde_json::from_str::<Value>(text) else { return text.to_owned() };
        if let Some(error) = value.get_mut("error") {
            let message = error["message"].as_str().unwrap();
            let cut = CUT_WORDING.iter().find_map(|end| Some(format!("{}{end}", message.split_once(end)?.0)));
            if OWN_WORDING.iter().any(|kind| error["type"] == *kind) {
                error["message"] = Value::Null;
            } else if let Some(cut) = cut {
                error["message"] = cut.into();
            }
        }
        level(&mut value);
        value.to_string()
    }

    /// Sets what depends on time or on the model's weights to null, wherever it stands.
    fn level(value: &mut Value) {
        match value {
            Value::Object(map) => {
                for (key, value) in map {
                    match key.as_str() {
                        "created" | "logprob" | "rank" | "root" | "permission" => *value = Value::Null,
                        "top_logprobs" => *value = value.as_array().unwrap().len().into(),
                        "prompt_logprobs" => level_prompt_logprobs(value),
                        _ => level(value),
                    }
                }
            }
            Value::Array(list) => list.iter_mut().for_each(level),
            _ => {}
        }
    }

    /// Each position: the fields of its first candidate, which is the prompt's token.
    fn level_prompt_logprobs(value: &mut Value) {
        for position in value.as_array_mut().into_iter().flatten() {
            let first = position.as_object().and_then(|candidates| candidates.iter().next());
            let summary = first.map(|(id, logprob)| json!([id, keys(logprob)]));
            *position = summary.unwrap_or(Value::Null);
        }
    }
}

fn body(sampling: Value) -> Value {
    json!({"request_id": "chatcmpl-1", "token_ids": [1, 2, 3], "sampling_params": sampling, "stream": true})
}

fn script(ids: Value) -> Value {
    json!({"extra_args": {"script": ids}})
}

async fn generate(engine: &Engine, body: &Value) -> http::Answer {
    http::post(&format!("{}{GENERATE}", engine.url), body).await
}

async fn events(engine: &Engine, body: &Value) -> Events {
    Events::open(&format!("{}{GENERATE}", engine.url), body).await
}

/// The ids of a stream that ends properly, per choice.
async fn streamed_ids(engine: &Engine, body: &Value) -> Vec<Vec<u64>> {
    let mut ids: Vec<Vec<u64>> = Vec::new();
    let events = generate(engine, body).await.events();
    assert_eq!(events.last().unwrap(), "[DONE]");
    for event in &events[..events.len() - 1] {
        let event: Value = serde_json::from_str(event).unwrap();
        for choice in event["choices"].as_array().unwrap() {
            let index = choice["index"].as_u64().unwrap() as usize;
            ids.resize(ids.len().max(index + 1), Vec::new());
            ids[index].extend(choice["token_ids"].as_array().unwrap().iter().map(|id| id.as_u64().unwrap()));
        }
    }
    ids
}

#[tokio::test]
async fn streams_and_whole_answers_agree() {
    let engine = Engine::start(Options { chunk_tokens: 3, ..Options::default() }).await;
    let mut request = body(json!({"n": 3, "seed": 5, "max_tokens": 20, "logprobs": 2}));
    let streamed = streamed_ids(&engine, &request).await;
    request["stream"] = false.into();
    let whole = generate(&engine, &request).await.json();
    assert_eq!(streamed.len(), 3);
    for (choice, ids) in whole["choices"].as_array().unwrap().iter().zip(streamed) {
        assert_eq!(choice["token_ids"], json!(ids));
        assert_eq!(choice["logprobs"]["content"].as_array().unwrap().len(), ids.len());
    }
}

#[tokio::test]
async fn a_script_goes_on_where_an_earlier_engine_stopped() {
    let engine = Engine::start(Options::default()).await;
    let resumed = json!({
        "request_id": "chatcmpl-1", "token_ids": [1, 2, 3, 10, 11], "stream": true,
        "sampling_params": {"extra_args": {"script": "10,11,12,13", "script_from": 3, "script_eos": 151_643}},
    });
    assert_eq!(streamed_ids(&engine, &resumed).await, [[12, 13, 151_643]]);
}

#[tokio::test]
async fn without_a_script_it_echoes_and_without_a_message_it_babbles() {
    let engine = Engine::start(Options::default()).await;
    let mut request = body(json!({"max_tokens": 5}));
    assert_eq!(streamed_ids(&engine, &request).await, [[1, 2, 3, 151_645]]);
    // ChatML: <|im_start|>user\nHI<|im_end|>\n<|im_start|>assistant\n
    request["token_ids"] = json!([151_644, 872, 198, 40, 41, 151_645, 198, 151_644, 77091, 198]);
    assert_eq!(streamed_ids(&engine, &request).await, [[40, 41, 151_645]]);
    request["token_ids"] = json!([151_645]);
    let babble = streamed_ids(&engine, &request).await;
    assert!(babble[0].len() == 5 && babble[0].iter().all(|id| *id < 151_643), "{babble:?}");
    assert_eq!(streamed_ids(&engine, &request).await, babble, "the same seed says the same");
}

#[tokio::test]
async fn random_replies_are_as_long_as_asked_for_and_differ_by_seed() {
    let engine = Engine::start(Options { reply: Reply::Random, ..Options::default() }).await;
    let [one, two] = [1, 2].map(|seed| body(json!({"max_tokens": 30, "seed": seed})));
    let [one, two] = [streamed_ids(&engine, &one).await, streamed_ids(&engine, &two).await];
    assert_eq!((one[0].len(), two[0].len()), (30, 30));
    assert_ne!(one, two);
}

#[tokio::test]
async fn min_tokens_keeps_an_echo_from_ending_and_allowed_ids_are_respected() {
    let engine = Engine::start(Options::default()).await;
    let ids = streamed_ids(&engine, &body(json!({"max_tokens": 8, "min_tokens": 6}))).await;
    assert!(ids[0].len() == 7 && ids[0][..3] == [1, 2, 3] && ids[0][6] == 151_645, "{ids:?}");
    let sampling = json!({"max_tokens": 4, "allowed_token_ids": [40, 42], "extra_args": {"script": [40, 41, 42, 43]}});
    let ids = streamed_ids(&engine, &body(sampling)).await;
    assert!(ids[0][0] == 40 && ids[0][2] == 42 && ids[0].iter().all(|id| [40, 42].contains(id)), "{ids:?}");
}

#[tokio::test]
async fn older_engines_write_logprobs_with_text() {
    let engine = Engine::start(Options { legacy_logprobs: true, ..Options::default() }).await;
    let mut request = body(json!({"logprobs": 1, "extra_args": {"script": [40]}}));
    request["stream"] = false.into();
    let content = &generate(&engine, &request).await.json()["choices"][0]["logprobs"]["content"];
    assert_eq!(content[0]["token"], "token_id:40");
    assert_eq!(content[0]["top_logprobs"][0]["token"], "token_id:40");
    assert_eq!(content[0].get("token_id"), None);
}

#[tokio::test]
async fn tokens_keep_their_pace_under_load() {
    let [ttft, itl] = [100, 10].map(Duration::from_millis);
    let engine = Engine::start(Options { ttft, itl, max_num_seqs: 1000, ..Options::default() }).await;
    let url = format!("{}{GENERATE}", engine.url);
    let request = body(json!({"max_tokens": 40, "ignore_eos": true}));
    let start = Instant::now();
    let streams = (0..100).map(|_| {
        let (url, request) = (url.clone(), request.clone());
        tokio::spawn(async move {
            let mut events = Events::open(&url, &request).await;
            let mut first = None;
            while events.next().await.unwrap().is_some() {
                first.get_or_insert_with(Instant::now);
            }
            (first.unwrap(), Instant::now())
        })
    });
    let mut lengths = Vec::new();
    for stream in streams.collect::<Vec<_>>() {
        let (first, last) = stream.await.unwrap();
        assert!(first - start >= ttft);
        lengths.push(last - start);
    }
    lengths.sort();
    // 39 gaps after the first token. Lateness does not add up; the margin is for opening 100 connections.
    assert!(lengths[0] >= ttft + itl * 39, "{lengths:?}");
    assert!(lengths[50] < ttft + itl * 39 + Duration::from_millis(400), "{lengths:?}");
}

#[tokio::test]
async fn more_sequences_than_slots_wait() {
    let options = Options { max_num_seqs: 2, itl: Duration::from_millis(5), ..Options::default() };
    let engine = Engine::start(options).await;
    let long = body(json!({"max_tokens": 10_000, "ignore_eos": true, "n": 2}));
    let mut running = events(&engine, &long).await;
    running.next().await.unwrap();
    let waiting = events(&engine, &body(script(json!([7])))).await;
    engine.running_becomes(2).await;
    assert_eq!(engine.metric("vllm:num_requests_waiting").await, 1.0);
    assert_eq!(http::get(&format!("{}/load", engine.url)).await.json()["server_load"], 2);
    drop(running);
    let mut waiting = waiting;
    assert!(waiting.next().await.unwrap().unwrap().contains("\"token_ids\":[7]"));
}

#[tokio::test]
async fn a_client_that_goes_away_ends_its_request_at_once() {
    let engine = Engine::start(Options { itl: Duration::from_millis(20), ..Options::default() }).await;
    for stream in [true, false] {
        let mut request = body(json!({"max_tokens": 10_000, "ignore_eos": true}));
        request["stream"] = stream.into();
        let url = format!("{}{GENERATE}", engine.url);
        let client = tokio::spawn(async move {
            let sent = http::request("POST", &url, &[], Some(request.to_string().into_bytes())).send().await;
            let _held = sent.unwrap();
            std::future::pending::<()>().await;
        });
        engine.running_becomes(1).await;
        client.abort();
        let took = engine.running_becomes(0).await;
        assert!(took < Duration::from_millis(500), "{took:?}");
    }
}

#[tokio::test]
async fn abort_ends_a_request_by_the_engines_id_only() {
    let engine = Engine::start(Options { itl: Duration::from_millis(10), ..Options::default() }).await;
    for path in ["/abort_requests", "/inference/v1/abort_requests"] {
        let mut request = body(json!({"max_tokens": 10_000, "ignore_eos": true, "n": 2}));
        request["stream_options"] = json!({"include_usage": true});
        let mut stream = events(&engine, &request).await;
        stream.next().await.unwrap();
        let url = format!("{}{path}", engine.url);
        assert_eq!(http::post(&url, &json!({"request_ids": ["chatcmpl-1"]})).await.status, 200);
        assert_eq!(engine.metric("vllm:num_requests_running").await, 2.0);
        assert_eq!(http::post(&url, &json!({"request_ids": ["generate-tokens-chatcmpl-1"]})).await.status, 200);
        let mut rest = Vec::new();
        while let Some(event) = stream.next().await.unwrap() {
            rest.push(event);
        }
        let aborted: Vec<_> = rest.iter().filter(|event| event.contains("\"finish_reason\":\"abort\"")).collect();
        assert_eq!(aborted.len(), 2);
        assert!(aborted.iter().all(|event| event.contains("\"stop_reason\":null,\"token_ids\":[]")));
        assert_eq!(rest.last().unwrap(), "[DONE]");
        assert!(rest[rest.len() - 2].contains("\"usage\":{"));
        engine.running_becomes(0).await;
    }
}

#[tokio::test]
async fn counters_count_tokens_and_ends() {
    let engine = Engine::start(Options::default()).await;
    generate(&engine, &body(script(json!([7, 8])))).await;
    generate(&engine, &body(json!({"max_tokens": 2}))).await;
    assert_eq!(engine.metric("vllm:prompt_tokens_total").await, 6.0);
    assert_eq!(engine.metric("vllm:generation_tokens_total").await, 5.0);
    let metrics = http::get(&format!("{}/metrics", engine.url)).await.text;
    for reason in ["stop", "length"] {
        let line =
            format!("vllm:request_success_total{{engine=\"0\",finished_reason=\"{reason}\",model_name=\"sim\"}} 1.0");
        assert!(metrics.contains(&line), "{metrics}");
    }
}

#[tokio::test]
async fn stopping_lets_streams_finish_and_refuses_new_connections() {
    let engine = Engine::start(Options { itl: Duration::from_millis(10), ..Options::default() }).await;
    let url = format!("{}/health", engine.url);
    let mut stream = events(&engine, &body(json!({"max_tokens": 20, "ignore_eos": true}))).await;
    stream.next().await.unwrap();
    let reader = tokio::spawn(async move {
        let mut last = None;
        while let Some(event) = stream.next().await.unwrap() {
            last = Some(event);
        }
        last
    });
    engine.stop().await;
    assert_eq!(reader.await.unwrap().unwrap(), "[DONE]");
    assert!(http::request("GET", &url, &[], None).send().await.is_err());
}

mod faults {
    use super::*;

    async fn faulty(faults: Faults) -> Engine {
        Engine::start(Options { faults, ..Options::default() }).await
    }

    #[tokio::test]
    async fn a_status_by_flag_or_by_request() {
        let engine = faulty(Faults { fail_status: Some(503), retry_after: Some(7), ..Faults::default() }).await;
        let answer = generate(&engine, &body(json!({}))).await;
        assert_eq!((answer.status, answer.header("retry-after")), (503, Some("7")));
        let answer = generate(&engine, &body(json!({"extra_args": {"fail_status": 429}}))).await;
        assert_eq!((answer.status, answer.json()["error"]["code"].as_u64()), (429, Some(429)));
        assert_eq!(http::get(&format!("{}/health", engine.url)).await.status, 200);
    }

    #[tokio::test]
    async fn death_after_tokens_breaks_the_connection_and_nothing_else() {
        let engine = faulty(Faults::default()).await;
        let mut request = body(json!({"extra_args": {"script": [1, 2, 3, 4], "die_after_tokens": 2}}));
        let mut stream = events(&engine, &request).await;
        for id in [1, 2] {
            let event = stream.next().await.unwrap().unwrap();
            assert!(event.contains(&format!("\"token_ids\":[{id}]")), "{event}");
        }
        assert!(stream.next().await.is_err());
        request["stream"] = false.into();
        let url = format!("{}{GENERATE}", engine.url);
        let sent = http::request("POST", &url, &[], Some(request.to_string().into_bytes())).send().await;
        assert!(sent.is_err());
        engine.running_becomes(0).await;
        // Asked again with what it has said, it does not die again.
        request["token_ids"] = json!([1, 2, 3, 1, 2]);
        request["sampling_params"]["extra_args"]["script_from"] = 3.into();
        request["stream"] = true.into();
        assert_eq!(streamed_ids(&engine, &request).await, [[3, 4, 151_645]]);
    }

    #[tokio::test]
    async fn a_stall_keeps_the_connection_and_an_abort_ends_it() {
        let engine = faulty(Faults { stall_after_tokens: Some(1), ..Faults::default() }).await;
        let mut stream = events(&engine, &body(script(json!([1, 2])))).await;
        assert!(stream.next().await.unwrap().unwrap().contains("\"token_ids\":[1]"));
        let silence = tokio::time::timeout(Duration::from_millis(100), stream.next()).await;
        assert!(silence.is_err());
        let url = format!("{}/abort_requests", engine.url);
        http::post(&url, &json!({"request_ids": ["generate-tokens-chatcmpl-1"]})).await;
        assert!(stream.next().await.unwrap().unwrap().contains("\"finish_reason\":\"abort\""));
    }

    #[tokio::test]
    async fn garbage_is_no_json_wherever_it_stands() {
        let engine = faulty(Faults { garbage_after_tokens: Some(1), ..Faults::default() }).await;
        let mut request = body(script(json!([1, 2])));
        let events = generate(&engine, &request).await.events();
        let broken: Vec<_> = events.iter().map(|event| serde_json::from_str::<Value>(event).is_err()).collect();
        assert_eq!(broken, [false, true, false, false, true], "{events:?}"); // the last is [DONE]
        request["stream"] = false.into();
        let answer = generate(&engine, &request).await;
        assert_eq!(answer.status, 200);
        assert!(serde_json::from_str::<Value>(&answer.text).is_err());
    }
}
