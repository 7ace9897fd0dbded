//! A queue of log lines: bounded in bytes, and written by a separate thread.
//!
//! - **sits** between the formatter of the log, or of the access log, and the output.
//! - **waits for** nothing where a line is logged; its thread waits for the reader of the output.
//! - **fails as** a line that is dropped and counted, when the queue is full or the output refuses it.
//! - **bounds** pending lines and those being written by [`MAX_BYTES`] each.
//! - **metrics**: `proxy_log_lines_dropped_total`, `proxy_access_log_lines_dropped_total`.

use parking_lot::{Condvar, Mutex};
use std::{
    cell::RefCell,
    io::{self, Write},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};
use tracing_subscriber::fmt::MakeWriter;

/// A queue of log lines for one output. Clones share it.
#[derive(Clone, Debug)]
pub struct LineQueue(Arc<QueueState>);

#[derive(Debug, Default)]
struct QueueState {
    lines: Mutex<LineBuffer>,
    /// Signals new lines, or that all lines were written.
    changed: Condvar,
    dropped: AtomicU64,
}

#[derive(Debug, Default)]
struct LineBuffer {
    waiting: Vec<u8>,
    /// Lines dropped after the pending ones.
    lost: u64,
    /// Whether the thread is writing a batch.
    writing: bool,
    /// Whether to flush the output, even without a line.
    woken: bool,
}

impl LineQueue {
    /// Starts a thread of this name, which writes to `out`. It waits for `linger` after each batch, so that a line of a busy log
    /// costs no wake-up. `on_loss` writes a line with the number of lost lines, at the place
    /// of the loss.
    pub fn start(
        thread: &str,
        out: impl Write + Send + 'static,
        linger: Duration,
        on_loss: impl Fn(u64, &mut Vec<u8>) + Send + 'static,
    ) -> io::Result<Self> {
        let queue = Self(Arc::default());
        let lines = queue.clone();
        std::thread::Builder::new()
            .name(thread.to_owned())
            .spawn(move || lines.write_to(out, linger, on_loss))?;
        Ok(queue)
    }

    /// Lines dropped so far.
    pub fn dropped(&self) -> u64 {
        self.0.dropped.load(Relaxed)
    }

    /// Waits until all lines are written, for a limited time: their reader may be gone.
    pub fn flush(&self, within: Duration) {
        let is_pending =
            |lines: &mut LineBuffer| lines.writing || !lines.waiting.is_empty() || lines.lost > 0;
        let mut lines = self.0.lines.lock();
        self.0
            .changed
            .wait_while_for(&mut lines, is_pending, within);
    }

    /// The queue's part of `/state`.
    pub fn inspect(&self) -> serde_json::Value {
        serde_json::json!({
            "waiting_bytes": self.0.lines.lock().waiting.len(),
            "max_bytes": MAX_BYTES,
            "dropped_lines": self.dropped(),
        })
    }

    /// Wakes the thread, which flushes its output.
    pub fn wake(&self) {
        self.0.lines.lock().woken = true;
        self.0.changed.notify_all();
    }

    /// Adds a line, which ends with a line break. It is dropped if the queue is full.
    pub fn push(&self, line: &[u8]) {
        let mut lines = self.0.lines.lock();
        if lines.waiting.len() + line.len() > MAX_BYTES {
            lines.lost += 1;
            self.0.dropped.fetch_add(1, Relaxed);
            return;
        }
        lines.waiting.extend_from_slice(line);
        drop(lines);
        self.0.changed.notify_all();
    }

    /// The thread's loop. It ends with the process.
    fn write_to(&self, mut out: impl Write, linger: Duration, on_loss: impl Fn(u64, &mut Vec<u8>)) {
        let mut batch = Vec::new();
        loop {
            let lost = self.take(&mut batch);
            if lost > 0 {
                on_loss(lost, &mut batch);
            }
            if write_patiently(&mut out, &batch).is_err() {
                let lines = batch.iter().filter(|byte| **byte == b'\n').count();
                self.0.dropped.fetch_add(lines as u64, Relaxed);
            }
            batch.clear();
            batch.shrink_to(KEPT_BYTES);
            if !linger.is_zero() {
                self.written();
                std::thread::sleep(linger);
            }
        }
    }

    /// Notes the end of a batch, for callers that wait for it.
    fn written(&self) {
        self.0.lines.lock().writing = false;
        self.0.changed.notify_all();
    }

    /// Waits for lines, and moves them to `batch`. Returns the number of lines lost after them.
    fn take(&self, batch: &mut Vec<u8>) -> u64 {
        let mut lines = self.0.lines.lock();
        lines.writing = false;
        while lines.waiting.is_empty() && lines.lost == 0 && !lines.woken {
            self.0.changed.notify_all();
            self.0.changed.wait(&mut lines);
        }
        (lines.writing, lines.woken) = (true, false);
        std::mem::swap(&mut lines.waiting, batch);
        std::mem::take(&mut lines.lost)
    }
}

impl<'w> MakeWriter<'w> for LineQueue {
    type Writer = LineWriter<'w>;

    fn make_writer(&'w self) -> LineWriter<'w> {
        LineWriter(self)
    }
}

/// Writer of single lines, which never blocks.
#[derive(Debug)]
pub struct LineWriter<'w>(&'w LineQueue);

impl Write for LineWriter<'_> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let is_own = OWN_LINES.with_borrow_mut(|own| match own {
            Some(own) => {
                own.extend_from_slice(line);
                true
            }
            None => false,
        });
        if !is_own {
            self.0.push(line);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Moves the lines that `log` logs to `batch`, past the queue, which may be full.
pub(super) fn log_into(batch: &mut Vec<u8>, log: impl FnOnce()) {
    OWN_LINES.set(Some(std::mem::take(batch)));
    log();
    *batch = OWN_LINES.take().unwrap_or_default();
}

thread_local! {
    /// Lines of a batch to which this thread adds those that it logs itself. `None` on all other threads.
    static OWN_LINES: RefCell<Option<Vec<u8>>> = const { RefCell::new(None) };
}

/// Writes all bytes, also to an output that another process has made non-blocking, such as a shared terminal.
fn write_patiently(out: &mut impl Write, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match out.write(bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => bytes = &bytes[written..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => std::thread::sleep(PAUSE),
            Err(error) => return Err(error),
        }
    }
    out.flush()
}

/// A second of a busy log at DEBUG, in no more memory than a few connections take.
const MAX_BYTES: usize = 256 * 1024;

/// Capacity that is kept between batches.
const KEPT_BYTES: usize = 16 * 1024;

const PAUSE: Duration = Duration::from_millis(10);

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    /// An output that performs one write per permit, and reports it.
    struct Reader {
        let_in: mpsc::Receiver<()>,
        written: mpsc::Sender<String>,
    }

    impl Write for Reader {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.let_in.recv().map_err(|_| io::ErrorKind::BrokenPipe)?;
            let text = String::from_utf8_lossy(bytes).into_owned();
            let _ = self.written.send(text);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// A queue with loss lines `lost N`, its output, and the permits for writes.
    fn queue() -> (LineQueue, mpsc::Receiver<String>, mpsc::Sender<()>) {
        let (let_one, let_in) = mpsc::channel();
        let (written, output) = mpsc::channel();
        let out = Reader { let_in, written };
        let note = |lost, batch: &mut Vec<u8>| {
            batch.extend_from_slice(format!("lost {lost}\n").as_bytes());
        };
        (
            LineQueue::start("log", out, Duration::ZERO, note).unwrap(),
            output,
            let_one,
        )
    }

    fn log(queue: &LineQueue, line: &str) {
        queue.make_writer().write_all(line.as_bytes()).unwrap();
    }

    const SOON: Duration = Duration::from_secs(20);

    #[test]
    fn lines_that_nobody_reads_are_dropped_and_counted_and_told_of_in_their_place() {
        let (queue, output, let_one) = queue();
        let line = "x".repeat(1023) + "\n";
        let lines = 3 * MAX_BYTES / line.len();
        for _ in 0..lines {
            log(&queue, &line);
        }
        let dropped = queue.dropped();
        let kept = lines as u64 - dropped;
        assert!((256..=512).contains(&kept), "{kept} of {lines} are kept");
        assert_eq!(queue.inspect()["dropped_lines"], dropped);

        let mut text = String::new();
        while !text.ends_with(&format!("lost {dropped}\n")) {
            let_one.send(()).unwrap();
            text.push_str(&output.recv_timeout(SOON).unwrap());
        }
        assert_eq!(text.matches('x').count() as u64, kept * 1023);
        log(&queue, "again\n");
        let_one.send(()).unwrap();
        assert_eq!(output.recv_timeout(SOON).unwrap(), "again\n");
        queue.flush(SOON);
        assert_eq!(queue.inspect()["waiting_bytes"], 0);
    }

    #[test]
    fn the_end_waits_for_the_last_lines_but_not_for_ever() {
        let (queue, output, let_one) = queue();
        log(&queue, "last\n");
        queue.flush(Duration::from_millis(1));
        let_one.send(()).unwrap();
        queue.flush(SOON);
        assert_eq!(output.try_recv().unwrap(), "last\n");
    }

    #[test]
    fn lines_for_a_reader_that_is_gone_are_dropped_and_counted() {
        let (queue, _output, let_one) = queue();
        drop(let_one);
        log(&queue, "one\ntwo\n");
        queue.flush(SOON);
        assert_eq!(queue.dropped(), 2);
    }
}
