//! The output of a process, by lines.

use super::error::ProxyError;
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// The lines so far. They are kept as long as the process is: a test is short.
pub(super) struct OutputLog {
    lines: Arc<Mutex<Vec<String>>>,
    count: watch::Receiver<usize>,
    paused: watch::Sender<bool>,
    readers: Vec<JoinHandle<()>>,
}

impl OutputLog {
    /// Collects the lines of both streams.
    pub(super) fn read(
        stdout: impl AsyncRead + Unpin + Send + 'static,
        stderr: impl AsyncRead + Unpin + Send + 'static,
    ) -> Self {
        let lines = Arc::default();
        let (counted, count) = watch::channel(0);
        let counted = Arc::new(counted);
        let paused = watch::Sender::new(false);
        let collect = |counted| LineCollector {
            lines: Arc::clone(&lines),
            counted,
            paused: paused.subscribe(),
        };
        let readers = vec![
            tokio::spawn(collect(counted.clone()).all_of(stdout)),
            tokio::spawn(collect(counted).all_of(stderr)),
        ];
        Self {
            lines,
            count,
            paused,
            readers,
        }
    }

    /// Pauses or resumes reading.
    pub(super) fn pause(&self, paused: bool) {
        self.paused.send_replace(paused);
    }

    /// Waits for a line that contains a text.
    pub(super) async fn wait_for(
        &self,
        text: &str,
        within: Duration,
    ) -> Result<String, ProxyError> {
        let find = || {
            let lines = self.lines.lock();
            lines.iter().find(|line| line.contains(text)).cloned()
        };
        let mut count = self.count.clone();
        let found = tokio::time::timeout(within, async {
            loop {
                count.borrow_and_update();
                if let Some(line) = find() {
                    return Some(line);
                }
                if count.changed().await.is_err() {
                    return find();
                }
            }
        });
        let wanted = format!("line with {text:?}");
        let output = || self.text();
        match found.await {
            Ok(Some(line)) => Ok(line),
            Ok(None) => Err(ProxyError::Ended {
                wanted,
                output: output(),
            }),
            Err(_) => Err(ProxyError::Late {
                wanted,
                within,
                output: output(),
            }),
        }
    }

    /// The output so far.
    pub(super) fn text(&self) -> String {
        let lines = self.lines.lock();
        lines.iter().flat_map(|line| [line, "\n"]).collect()
    }

    /// The whole output until the process ends.
    pub(super) async fn whole(mut self) -> String {
        for reader in self.readers.drain(..) {
            let _ = reader.await;
        }
        self.text()
    }
}

/// Reads one stream.
struct LineCollector {
    lines: Arc<Mutex<Vec<String>>>,
    counted: Arc<watch::Sender<usize>>,
    paused: watch::Receiver<bool>,
}

impl LineCollector {
    async fn all_of(mut self, stream: impl AsyncRead + Unpin) {
        let mut stream = BufReader::new(stream).lines();
        loop {
            // An error means that the log was dropped: then reading is not paused.
            let _ = self.paused.wait_for(|paused| !paused).await;
            let line = tokio::select! {
                line = stream.next_line() => line,
                Ok(()) = self.paused.changed() => continue,
            };
            let Ok(Some(line)) = line else { break };
            self.lines.lock().push(line);
            self.counted.send_modify(|count| *count += 1);
        }
    }
}
