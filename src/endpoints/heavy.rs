//! Long CPU work beside the I/O threads: short work runs where it is, long work on a thread of its own, and only so much
//! of it at once.

use std::sync::{Condvar, Mutex, PoisonError};

use memchr::memmem;

/// What is longer takes long enough to leave the I/O threads, in bytes.
const LONG: usize = 64 << 10;

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

    /// Runs `work` that renders a body: also a short body is long work where it brings its own template, which may run for
    /// as long as its fuel lasts.
    pub fn render<T>(&self, body: &[u8], work: impl FnOnce() -> T) -> T {
        self.run(body.len() > LONG || memmem::find(body, b"\"chat_template\"").is_some(), work)
    }

    /// Runs `work` that reads so many bytes.
    pub fn read<T>(&self, bytes: usize, work: impl FnOnce() -> T) -> T {
        self.run(bytes > LONG, work)
    }

    /// Before long work the I/O thread hands its other tasks to another thread, and waits its turn.
    fn run<T>(&self, is_long: bool, work: impl FnOnce() -> T) -> T {
        if !is_long {
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
