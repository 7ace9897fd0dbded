use parking_lot::Mutex;
use std::{sync::Arc, time::Duration};
use tokio::{
    io::{AsyncBufReadExt, AsyncRead, BufReader},
    sync::watch,
    task::JoinHandle,
};

/// What a process writes, line by line.
pub struct Log {
    lines: Arc<Mutex<Vec<String>>>,
    count: watch::Receiver<usize>,
    readers: Vec<JoinHandle<()>>,
}

impl Log {
    /// Collects what both streams bring.
    pub fn read(
        stdout: impl AsyncRead + Unpin + Send + 'static,
        stderr: impl AsyncRead + Unpin + Send + 'static,
    ) -> Self {
        let lines = Arc::default();
        let (told, count) = watch::channel(0);
        let told = Arc::new(told);
        let readers = vec![
            tokio::spawn(collect(stdout, Arc::clone(&lines), told.clone())),
            tokio::spawn(collect(stderr, Arc::clone(&lines), told)),
        ];
        Self {
            lines,
            count,
            readers,
        }
    }

    /// The first line that contains a text, which shall come in time.
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

    /// What came so far.
    pub fn text(&self) -> String {
        let lines = self.lines.lock();
        lines.iter().flat_map(|line| [line, "\n"]).collect()
    }

    /// All that comes until the process ends.
    pub async fn whole(mut self) -> String {
        for reader in self.readers.drain(..) {
            let _ = reader.await;
        }
        self.text()
    }
}

async fn collect(
    stream: impl AsyncRead + Unpin,
    lines: Arc<Mutex<Vec<String>>>,
    told: Arc<watch::Sender<usize>>,
) {
    let mut stream = BufReader::new(stream).lines();
    while let Ok(Some(line)) = stream.next_line().await {
        lines.lock().push(line);
        told.send_modify(|count| *count += 1);
    }
}
