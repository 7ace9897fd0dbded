//! Standard output of commands whose reader may be gone.

use std::{
    io::{self, ErrorKind, Write},
    process::ExitCode,
};

/// Prints a text. A reader that has read enough, as `head` has, is no failure.
pub(super) fn print(text: &str) -> Result<(), ExitCode> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            eprintln!("error: standard output: {error}");
            Err(ExitCode::FAILURE)
        }
        Ok(()) | Err(_) => Ok(()),
    }
}
