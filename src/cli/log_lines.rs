//! Where lines of the log wait for a moment and are then written together: a system call for each costs as much as the
//! line itself, and a pipe that nobody reads must not hold a stream up.
//!
//! Warnings and errors are written at once, and with them what waited before them. At most [`WAIT`] is lost where the
//! process is killed.

use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use tracing::{Level, Metadata};
use tracing_subscriber::fmt::MakeWriter;

/// Longest time that a line waits.
const WAIT: Duration = Duration::from_millis(50);
/// Bytes that may wait; whoever writes more waits until they are written.
const MOST: usize = 1 << 20;

/// Lines on their way to stderr.
#[derive(Debug, Clone)]
pub(super) struct LogLines {
    shared: Arc<Shared>,
    /// False where no thread comes to write them.
    may_wait: bool,
}

#[derive(Debug, Default)]
struct Shared {
    waiting: Mutex<Vec<u8>>,
    some: Condvar,
    /// Held while lines are written, so that they stay in order.
    writing: Mutex<()>,
}

impl LogLines {
    /// Lines that a thread of their own writes. Where it can't be started, every line is written at once.
    pub(super) fn start() -> Self {
        let lines = Self { shared: Arc::default(), may_wait: true };
        let theirs = lines.clone();
        let thread = thread::Builder::new().name("couplet-log".to_owned()).spawn(move || theirs.keep_writing());
        Self { may_wait: thread.is_ok(), ..lines }
    }

    /// Writes what waits.
    pub(super) fn flush(&self) {
        let _turn = self.shared.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let lines = std::mem::take(&mut *self.waiting());
        // A log that can't be written can't tell so.
        let _ = io::stderr().write_all(&lines);
    }

    fn keep_writing(&self) {
        loop {
            drop(self.shared.some.wait_while(self.waiting(), |lines| lines.is_empty()));
            thread::sleep(WAIT);
            self.flush();
        }
    }

    fn add(&self, line: &[u8], at_once: bool) {
        let mut waiting = self.waiting();
        if waiting.is_empty() {
            self.shared.some.notify_one();
        }
        waiting.extend_from_slice(line);
        let full = waiting.len() > MOST;
        drop(waiting);
        if at_once || full {
            self.flush();
        }
    }

    fn waiting(&self) -> MutexGuard<'_, Vec<u8>> {
        self.shared.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<'a> MakeWriter<'a> for LogLines {
    type Writer = Line<'a>;

    fn make_writer(&'a self) -> Line<'a> {
        Line { lines: self, at_once: true }
    }

    fn make_writer_for(&'a self, meta: &Metadata<'_>) -> Line<'a> {
        Line { lines: self, at_once: !self.may_wait || *meta.level() <= Level::WARN }
    }
}

/// Takes one line.
#[derive(Debug)]
pub(super) struct Line<'a> {
    lines: &'a LogLines,
    at_once: bool,
}

impl Write for Line<'_> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.lines.add(line, self.at_once);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
