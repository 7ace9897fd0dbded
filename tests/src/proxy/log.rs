use parking_lot::Mutex;
use std::{sync::Arc, time::Duration};
use tokio::{
    io::{AsyncBufReadExt, AsyncRead, BufReader},
    sync::watch,
    task::JoinHandle,
};

/// The output of a process, by lines.
pub struct Log {
    lines: Arc<Mutex<Vec<String>>>,
    count: watch::Receiver<usize>,
    paused: watch::Sender<bool>,
    readers: Vec<JoinHandle<()>>,
}

impl Log {
    /// Collects the lines of both streams.
    pub fn read(
        stdout: impl AsyncRead + Unpin + Send + 'static,
        stderr: impl AsyncRead + Unpin + Send + 'static,
    ) -> Self {
        let lines = Arc::default();
        let (told, count) = watch::channel(0);
        let told = Arc::new(told);
        let paused = watch::Sender::new(false);
        let collect = |told| {
            let (lines, paused) = (Arc::clone(&lines), paused.subscribe());
            Collect {
                lines,
                told,
                paused,
            }
        };
        let readers = vec![
            tokio::spawn(collect(told.clone()).all_of(stdout)),
            tokio::spawn(collect(told).all_of(stderr)),
        ];
        Self {
            lines,
            count,
            paused,
            readers,
        }
    }

    /// Pauses or resumes reading.
    pub fn pause(&self, paused: bool) {
        self.paused.send_replace(paused);
    }

    /// Waits for a line that contains a text.
    pub async fn wait_for(&self, text: &str, within: Duration) -> String {
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
        match found.await {
            Ok(Some(line)) => line,
            Ok(None) => panic!("the process ended without {text:?}:\n{}", self.text()),
            Err(_) => panic!("no {text:?} within {within:?}:\n{}", self.text()),
        }
    }

    /// The output so far.
    pub fn text(&self) -> String {
        let lines = self.lines.lock();
        lines.iter().flat_map(|line| [line, "\n"]).collect()
    }

    /// The whole output until the process ends.
    pub async fn whole(mut self) -> String {
        for reader in self.readers.drain(..) {
            let _ = reader.await;
        }
        self.text()
    }
}

/// Reads one stream.
struct Collect {
    lines: Arc<Mutex<Vec<String>>>,
    told: Arc<watch::Sender<usize>>,
    paused: watch::Receiver<bool>,
}

impl Collect {
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
            self.told.send_modify(|count| *count += 1);
        }
    }
}
