//! What requests begin with now: a reload puts another context in its place, a stop ends them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::ArcSwap;
use tokio::sync::watch;

use super::Context;

/// The life of the server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Everybody is served.
    #[default]
    Serving,
    /// Everybody is served, but readiness is off.
    Leaving,
    /// Requests that have begun go on; others are refused.
    Draining,
    /// What still goes on is cut.
    Cut,
}

/// The context of the requests that begin now, and the phase that all of them watch.
pub struct Live {
    context: ArcSwap<Context>,
    phase: watch::Sender<Phase>,
    watched: AtomicBool,
}

impl Live {
    /// Serves with this context.
    pub fn new(context: Context) -> Self {
        Self {
            context: ArcSwap::from_pointee(context),
            phase: watch::Sender::new(Phase::Serving),
            watched: AtomicBool::new(false),
        }
    }

    /// Somebody asked whether requests are welcome.
    pub fn watch(&self) {
        self.watched.store(true, Ordering::Relaxed);
    }

    /// Whether anybody asks: who stops needs to wait only for those that look.
    pub fn is_watched(&self) -> bool {
        self.watched.load(Ordering::Relaxed)
    }

    /// What a request that begins now can reach, until its end.
    pub fn context(&self) -> Arc<Context> {
        self.context.load_full()
    }

    /// Requests that begin from now on have another context.
    pub fn replace(&self, context: Context) {
        self.context.store(Arc::new(context));
    }

    /// Where the server's life is.
    pub fn phase(&self) -> Phase {
        *self.phase.borrow()
    }

    /// Goes on to a phase; never back.
    pub fn enter(&self, phase: Phase) {
        self.phase.send_if_modified(|now| {
            let later = phase > *now;
            *now = phase.max(*now);
            later
        });
    }

    /// A request that goes on until its end, or until it is cut. `None` where none may begin any more.
    pub fn begin(&self) -> Option<Going> {
        let phase = self.phase.subscribe();
        let may_begin = *phase.borrow() < Phase::Draining;
        may_begin.then_some(Going(phase))
    }

    /// Done when no request goes on.
    pub async fn idle(&self) {
        self.phase.closed().await;
    }
}

/// A request that goes on: the server waits for it before it stops, but not without end.
#[derive(Debug, Clone)]
pub struct Going(watch::Receiver<Phase>);

impl Going {
    /// Done when the request has to end.
    pub async fn cut(mut self) {
        // Fails where the server is gone, which ends the request too.
        let _ = self.0.wait_for(|phase| *phase == Phase::Cut).await;
    }
}
