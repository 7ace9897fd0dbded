//! The output of lines that are not the log's: the access log, printed traces.

use super::queue::LineQueue;
use crate::config::AccessLogOutput;
use std::{
    fmt,
    fs::{File, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

/// An output of lines, with their queue. Clones share it.
#[derive(Clone, Debug)]
pub struct LineOutput {
    /// The queue in front of it.
    pub lines: LineQueue,
    name: String,
    reopen: Arc<AtomicBool>,
}

/// The lines of an output.
#[derive(Clone, Copy, Debug)]
pub struct LineSource {
    /// The kind of the lines, in an error.
    pub what: &'static str,
    /// The name of the thread that writes them.
    pub thread: &'static str,
    /// Writes a line with the number of lost lines, at the place of the loss.
    pub on_loss: fn(u64, &mut Vec<u8>),
}

impl LineOutput {
    /// Opens an output, and starts the thread that writes to it. Standard output is that of `log`, if there is one: two writers
    /// would cut each other's lines.
    pub fn open(
        output: &AccessLogOutput,
        source: LineSource,
        log: Option<&LineQueue>,
    ) -> io::Result<Self> {
        let LineSource {
            what,
            thread,
            on_loss,
        } = source;
        let reopen = Arc::new(AtomicBool::new(false));
        let (lines, name) = match (output, log) {
            (AccessLogOutput::Stdout, Some(log)) => (log.clone(), "stdout".to_owned()),
            (AccessLogOutput::Stdout, None) => {
                let lines = LineQueue::start(thread, io::stdout(), LINGER, on_loss)?;
                (lines, "stdout".to_owned())
            }
            (AccessLogOutput::Stderr, _) => {
                let lines = LineQueue::start(thread, io::stderr(), LINGER, on_loss)?;
                (lines, "stderr".to_owned())
            }
            (AccessLogOutput::File(path), _) => {
                let file = LogFile::open(what, path, reopen.clone())?;
                let lines = LineQueue::start(thread, file, LINGER, on_loss)?;
                (lines, path.display().to_string())
            }
        };
        Ok(Self {
            lines,
            name,
            reopen,
        })
    }

    /// Opens a file again, which may have been moved away.
    pub fn reopen(&self) {
        self.reopen.store(true, Relaxed);
        self.lines.wake();
    }
}

impl fmt::Display for LineOutput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// A file that is appended to.
struct LogFile {
    what: &'static str,
    path: PathBuf,
    file: File,
    reopen: Arc<AtomicBool>,
}

impl LogFile {
    fn open(what: &'static str, path: &Path, reopen: Arc<AtomicBool>) -> io::Result<Self> {
        let named = |error: io::Error| {
            let text = format!("{what} {}: {error}", path.display());
            io::Error::new(error.kind(), text)
        };
        Ok(Self {
            what,
            file: append(path).map_err(named)?,
            path: path.to_owned(),
            reopen,
        })
    }

    /// Opens the file again on request. If that fails, the open file stays in use.
    fn follow(&mut self) {
        if !self.reopen.swap(false, Relaxed) {
            return;
        }
        match append(&self.path) {
            Ok(file) => self.file = file,
            Err(error) => {
                let path = self.path.display();
                let what = self.what;
                tracing::warn!(%path, %error, "{what} cannot be opened again");
            }
        }
    }
}

impl Write for LogFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    /// Called after each batch of whole lines.
    fn flush(&mut self) -> io::Result<()> {
        self.follow();
        Ok(())
    }
}

fn append(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).open(path)
}

/// A wake-up costs a worker as much as a line does. A person does not notice the wait, and the queue has room for 50,000 lines a
/// second.
const LINGER: Duration = Duration::from_millis(10);

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_file_that_was_moved_is_opened_again_when_asked() {
        let dir = tempfile::tempdir().unwrap();
        let (path, moved) = (dir.path().join("log"), dir.path().join("moved"));
        let reopen = Arc::new(AtomicBool::new(false));
        let mut file = LogFile::open("the access log", &path, reopen.clone()).unwrap();
        let mut write = |line: &str| {
            file.write_all(line.as_bytes()).unwrap();
            file.flush().unwrap();
        };
        write("1\n");
        fs::rename(&path, &moved).unwrap();
        write("2\n");
        reopen.store(true, Relaxed);
        write("");
        write("3\n");
        assert_eq!(fs::read_to_string(&moved).unwrap(), "1\n2\n");
        assert_eq!(fs::read_to_string(&path).unwrap(), "3\n");
    }

    #[test]
    fn a_file_that_cannot_be_opened_again_is_written_on() {
        let dir = tempfile::tempdir().unwrap();
        let (path, moved) = (dir.path().join("log"), dir.path().join("moved"));
        let reopen = Arc::new(AtomicBool::new(true));
        let mut file = LogFile::open("the access log", &path, reopen).unwrap();
        fs::rename(&path, &moved).unwrap();
        fs::create_dir(&path).unwrap();
        file.flush().unwrap();
        file.write_all(b"1\n").unwrap();
        assert_eq!(fs::read_to_string(&moved).unwrap(), "1\n");
    }

    #[test]
    fn a_file_that_cannot_be_opened_is_named() {
        let error = LogFile::open("the access log", Path::new("/nowhere/log"), Arc::default());
        let error = error.err().unwrap().to_string();
        assert!(
            error.starts_with("the access log /nowhere/log: "),
            "{error}"
        );
    }
}
