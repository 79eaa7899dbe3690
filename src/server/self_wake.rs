//! A connection that woke itself is polled again at once.
//!
//! hyper reads a body in the task in which the endpoint waits for it, so every piece of a body wakes the task that is
//! running. tokio takes that for a task that yields: it queues it and wakes another thread to fetch it, which costs a
//! short request more than its own work does.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use futures_util::task::AtomicWaker;

/// How often in a row before other tasks get their turn.
const MOST: usize = 16;

/// Runs a future as it is, but for the wake-ups that it gives itself.
pub(super) struct SelfWake<F> {
    future: Pin<Box<F>>,
    signal: Arc<Signal>,
    waker: Waker,
}

impl<F> SelfWake<F> {
    pub(super) fn new(future: F) -> Self {
        let signal = Arc::new(Signal::default());
        Self { future: Box::pin(future), waker: Waker::from(Arc::clone(&signal)), signal }
    }
}

impl<F: Future> Future for SelfWake<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        this.signal.task.register(context.waker());
        for _ in 0..MOST {
            this.signal.state.store(RUNNING, Ordering::SeqCst);
            if let Poll::Ready(output) = this.future.as_mut().poll(&mut Context::from_waker(&this.waker)) {
                return Poll::Ready(output);
            }
            // Fails where the future was woken meanwhile.
            if this.signal.state.compare_exchange(RUNNING, WAITING, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
                return Poll::Pending;
            }
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

/// Nobody polls: a wake-up goes to the task.
const WAITING: u8 = 0;
/// The future is being polled.
const RUNNING: u8 = 1;
/// It was woken, and whoever polls it or is going to will see that.
const WOKEN: u8 = 2;

#[derive(Default)]
struct Signal {
    state: AtomicU8,
    task: AtomicWaker,
}

impl Wake for Signal {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.state.swap(WOKEN, Ordering::SeqCst) == WAITING {
            self.task.wake();
        }
    }
}
