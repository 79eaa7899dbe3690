//! Long CPU work beside the I/O threads: short work runs where it is, long work on a thread of its own, and only so much
//! of it at once.

use std::sync::{Condvar, Mutex, PoisonError};

/// Longer bodies take long enough to leave the I/O threads, in bytes.
const LONG_BODY: usize = 64 << 10;

/// A bound on long CPU work.
pub struct Heavy {
    free: Mutex<usize>,
    freed: Condvar,
}

impl Heavy {
    /// At most `most` long works at once.
    pub fn new(most: usize) -> Self {
        Self { free: Mutex::new(most.max(1)), freed: Condvar::new() }
    }

    /// Runs `work`. For a long body the I/O thread hands its other tasks to another thread first, and waits its turn.
    pub fn run<T>(&self, body_len: usize, work: impl FnOnce() -> T) -> T {
        if body_len <= LONG_BODY {
            return work();
        }
        tokio::task::block_in_place(|| {
            let free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
            let mut free = self.freed.wait_while(free, |free| *free == 0).unwrap_or_else(PoisonError::into_inner);
            *free -= 1;
            drop(free);
            let _turn = Turn(self);
            work()
        })
    }
}

/// Gives the turn back, also where the work panicked.
struct Turn<'a>(&'a Heavy);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        *self.0.free.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.0.freed.notify_one();
    }
}
