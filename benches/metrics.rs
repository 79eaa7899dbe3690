//! What metrics cost: a token of a streamed reply, a request, and a scrape.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};

use couplet::metrics::{Expected, Metrics};

const ROUTES: [&str; 2] = ["/v1/chat/completions", "/v1/completions"];
const REPLY: Expected = Expected { prompt: 1000, choices: 1, engine_streams: true };

/// The metrics of so many models with four engines each.
fn metrics(models: usize) -> Metrics {
    let metrics = Metrics::new().expect("nothing is registered twice");
    ROUTES.iter().for_each(|route| metrics.expect_route(route, &[200, 400, 404, 499, 500, 502, 503, 504], true));
    for model in 0..models {
        let model = format!("model-{model}");
        metrics.expect_model(&model, &ROUTES);
        let _ = (metrics.pool(&model), metrics.grammar(&model));
    }
    metrics
}

/// All that is counted of a chunk with one token: by the pool, and by whoever reads it.
fn token(criterion: &mut Criterion) {
    let metrics = metrics(1);
    let (engine, record) = (metrics.engine("http://10.0.0.1:8000"), metrics.begin(ROUTES[0], "an id".to_owned()));
    let mut meter = metrics.meter(&record, "model-0", REPLY);
    criterion.bench_function("metrics/token", |bencher| {
        bencher.iter(|| {
            let tokens = black_box(1);
            engine.outstanding_tokens.add(tokens);
            meter.arrived();
            meter.generated(tokens as usize);
            meter.told(black_box(0));
            meter.read();
        });
    });
}

/// From its headers to its end, with a reply of no token, and without its line in the log.
fn request(criterion: &mut Criterion) {
    let metrics = metrics(1);
    criterion.bench_function("metrics/request", |bencher| {
        bencher.iter(|| {
            let record = metrics.begin(ROUTES[0], black_box("an id").to_owned());
            metrics.meter(&record, "model-0", REPLY).finished("stop");
            record.end(black_box(200), false);
        });
    });
}

fn scrape(criterion: &mut Criterion) {
    for (name, models, vllm_names) in
        [("one model", 1, false), ("vLLM's names too", 1, true), ("ten models", 10, false)]
    {
        let metrics = metrics(models);
        let urls: Vec<String> = (0..4 * models).map(|engine| format!("http://10.0.0.{engine}:8000")).collect();
        let _engines: Vec<_> = urls.iter().map(|url| metrics.engine(url)).collect();
        criterion
            .bench_function(&format!("metrics/scrape/{name}"), |bencher| bencher.iter(|| metrics.text(vllm_names)));
    }
}

criterion_group!(benches, token, request, scrape);
criterion_main!(benches);
