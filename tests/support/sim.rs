//! A simulated engine in this process, on a free port.

use std::time::{Duration, Instant};

use couplet::sim::{Options, Sim};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::http;

/// A running simulated engine. Dropping it is its sudden death: every connection breaks.
pub struct Engine {
    /// `http://127.0.0.1:PORT`.
    pub url: String,
    task: JoinHandle<()>,
    stop: Option<oneshot::Sender<()>>,
}

impl Engine {
    /// Starts one; the port in `options` counts.
    pub async fn start_at(options: Options) -> Self {
        let sim = Sim::bind(options).await.unwrap();
        let url = format!("http://{}", sim.address());
        let (stop, stopped) = oneshot::channel::<()>();
        let task = tokio::spawn(sim.run(async move {
            let _ = stopped.await;
        }));
        Self { url, task, stop: Some(stop) }
    }

    /// Starts one on a free port.
    pub async fn start(options: Options) -> Self {
        Self::start_at(Options { port: 0, ..options }).await
    }

    /// Asks it to stop as SIGTERM would, and waits until it has.
    pub async fn stop(mut self) {
        drop(self.stop.take());
        (&mut self.task).await.unwrap();
    }

    /// The sum of a metric over its labels.
    pub async fn metric(&self, name: &str) -> f64 {
        let text = http::get(&format!("{}/metrics", self.url)).await.text;
        let start = format!("{name}{{");
        let values = text.lines().filter(|line| line.starts_with(&start));
        values.map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()).sum()
    }

    /// Waits until `vllm:num_requests_running` is `count`, at most a second, and tells how long it took.
    pub async fn running_becomes(&self, count: u32) -> Duration {
        let start = Instant::now();
        while self.metric("vllm:num_requests_running").await != f64::from(count) {
            assert!(
                start.elapsed() < Duration::from_secs(1),
                "running requests did not become {count} within a second"
            );
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        start.elapsed()
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.task.abort();
    }
}
