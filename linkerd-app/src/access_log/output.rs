//! The output of the access log.

use crate::{
    config::{AccessLogConfig, AccessLogFormat, AccessLogOutput},
    logging::LineQueue,
};
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

/// Where lines go, for `/state`, and how to open it again.
#[derive(Clone, Debug)]
pub struct Output {
    name: String,
    reopen: Arc<AtomicBool>,
}

/// Opens the output of an access log, and starts the thread that writes to it. On standard output it is that of the log.
pub fn open(config: &AccessLogConfig, log: Option<&LineQueue>) -> io::Result<(LineQueue, Output)> {
    let format = config.format;
    let on_loss = move |lost, batch: &mut Vec<u8>| push_loss(batch, lost, format);
    let reopen = Arc::new(AtomicBool::new(false));
    let (lines, name) = match (&config.output, log) {
        (AccessLogOutput::Stdout, Some(log)) => (log.clone(), "stdout".to_owned()),
        (AccessLogOutput::Stdout, None) => {
            let lines = LineQueue::start(THREAD, io::stdout(), LINGER, on_loss)?;
            (lines, "stdout".to_owned())
        }
        (AccessLogOutput::Stderr, _) => {
            let lines = LineQueue::start(THREAD, io::stderr(), LINGER, on_loss)?;
            (lines, "stderr".to_owned())
        }
        (AccessLogOutput::File(path), _) => {
            let file = LogFile::open(path, reopen.clone())?;
            let lines = LineQueue::start(THREAD, file, LINGER, on_loss)?;
            (lines, path.display().to_string())
        }
    };
    Ok((lines, Output { name, reopen }))
}

impl Output {
    /// Opens a file again before the next line.
    pub fn reopen(&self) {
        self.reopen.store(true, Relaxed);
    }
}

impl fmt::Display for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// The line in the place of lost ones, in a form that their reader takes.
fn push_loss(batch: &mut Vec<u8>, lost: u64, format: AccessLogFormat) {
    // A vector takes all.
    let _ = match format {
        AccessLogFormat::Full | AccessLogFormat::Json => {
            writeln!(batch, "{{\"dropped_lines\":{lost}}}")
        }
        AccessLogFormat::Text | AccessLogFormat::Apache => {
            writeln!(
                batch,
                "# {lost} lines were dropped: their reader is too slow"
            )
        }
    };
}

/// A file that is appended to.
struct LogFile {
    path: PathBuf,
    file: File,
    reopen: Arc<AtomicBool>,
}

impl LogFile {
    fn open(path: &Path, reopen: Arc<AtomicBool>) -> io::Result<Self> {
        let named = |error: io::Error| {
            let text = format!("the access log {}: {error}", path.display());
            io::Error::new(error.kind(), text)
        };
        Ok(Self {
            file: append(path).map_err(named)?,
            path: path.to_owned(),
            reopen,
        })
    }

    /// Opens the file again if that was asked for. If it cannot be opened, the one that is open is written on.
    fn follow(&mut self) {
        if !self.reopen.swap(false, Relaxed) {
            return;
        }
        match append(&self.path) {
            Ok(file) => self.file = file,
            Err(error) => {
                let path = self.path.display();
                tracing::warn!(%path, %error, "The access log cannot be opened again");
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

const THREAD: &str = "access-log";

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
        let mut file = LogFile::open(&path, reopen.clone()).unwrap();
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
        let mut file = LogFile::open(&path, reopen).unwrap();
        fs::rename(&path, &moved).unwrap();
        fs::create_dir(&path).unwrap();
        file.flush().unwrap();
        file.write_all(b"1\n").unwrap();
        assert_eq!(fs::read_to_string(&moved).unwrap(), "1\n");
    }

    #[test]
    fn a_file_that_cannot_be_opened_is_named() {
        let error = LogFile::open(Path::new("/nowhere/log"), Arc::default());
        let error = error.err().unwrap().to_string();
        assert!(
            error.starts_with("the access log /nowhere/log: "),
            "{error}"
        );
    }

    #[test]
    fn a_loss_is_a_line_of_the_same_form() {
        for (format, expected) in [
            (AccessLogFormat::Full, "{\"dropped_lines\":7}\n"),
            (
                AccessLogFormat::Apache,
                "# 7 lines were dropped: their reader is too slow\n",
            ),
        ] {
            let mut batch = Vec::new();
            push_loss(&mut batch, 7, format);
            assert_eq!(batch, expected.as_bytes());
        }
    }
}
