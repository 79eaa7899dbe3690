//! Other settings while requests run: on SIGHUP, and when what the settings come from changed.
//!
//! The sources are read again and again, and what they give is compared: links that are swapped, as Kubernetes does with
//! config maps, and secrets that are rotated are noticed like any other change. Wrong settings change nothing.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use super::App;
use crate::config::{ConfigError, Settings};
use crate::metrics::lifecycle::Reload;

type Read = dyn Fn() -> Result<Settings, ConfigError> + Send + Sync;

/// Where settings come from, and who asks for them anew.
pub struct Source {
    read: Arc<Read>,
    hangups: Hangups,
}

impl Source {
    /// `read` reads the settings. From here on a SIGHUP does not end the process: one that comes while the models are loaded
    /// is followed when they are. Wants a runtime.
    pub fn new(read: impl Fn() -> Result<Settings, ConfigError> + Send + Sync + 'static) -> Self {
        Self { read: Arc::new(read), hangups: Hangups::new() }
    }
}

/// Follows the source for as long as it is polled.
pub(super) async fn follow(app: &mut App, Source { read: source, mut hangups }: Source) -> Infallible {
    let mut last: Result<Settings, ConfigError> = Ok(app.settings.clone());
    loop {
        let asked = wait(&mut hangups, app.settings.reload_interval).await;
        let read = Arc::clone(&source);
        let Ok(read) = tokio::task::spawn_blocking(move || read()).await else { continue };
        let is_known = read == last && (!asked || read.as_ref().is_ok_and(|settings| *settings == app.settings));
        if is_known {
            if asked {
                tracing::info!("the configuration is the one that holds");
            }
            continue;
        }
        last.clone_from(&read);
        match read {
            Ok(settings) => apply(app, settings).await,
            Err(error) => {
                app.metrics().lifecycle.reloaded(Reload::Refused);
                for problem in &error.problems {
                    tracing::error!(%problem, "the new configuration is refused; the old one holds");
                }
            }
        }
    }
}

async fn apply(app: &mut App, settings: Settings) {
    let outcome = match app.reload(settings).await {
        Ok(()) => Reload::Applied,
        Err(error) => {
            tracing::error!(%error, "the new configuration cannot be used; the old one holds");
            Reload::Failed
        }
    };
    app.metrics().lifecycle.reloaded(outcome);
}

/// Waits until it is time to read; true where a signal asked for it.
async fn wait(hangups: &mut Hangups, interval: Option<Duration>) -> bool {
    let time = async {
        match interval {
            Some(interval) => tokio::time::sleep(interval).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        () = hangups.next() => true,
        () = time => false,
    }
}

/// SIGHUP, where there is such a thing.
struct Hangups {
    #[cfg(unix)]
    signal: Option<tokio::signal::unix::Signal>,
}

impl Hangups {
    fn new() -> Self {
        #[cfg(unix)]
        {
            Self { signal: tokio::signal::unix::signal(tokio::signal::unix::SignalKind::hangup()).ok() }
        }
        #[cfg(not(unix))]
        {
            Self {}
        }
    }

    async fn next(&mut self) {
        #[cfg(unix)]
        if let Some(signal) = &mut self.signal
            && signal.recv().await.is_some()
        {
            return;
        }
        std::future::pending().await
    }
}
