//! The command of `await --shutdown`: a child that gets the signals of its parent.

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use std::{
    io,
    os::unix::process::ExitStatusExt,
    process::{Command, ExitStatus},
};
use tokio::signal::unix::{SignalKind, signal};

/// Runs `command` to its end, and passes on the signals that would end this process: a container's runtime signals only its
/// first process, and the application would be killed without notice at the end of the grace period.
pub async fn run(command: Command) -> io::Result<ExitStatus> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut quit = signal(SignalKind::quit())?;
    let mut hangup = signal(SignalKind::hangup())?;
    let mut child = tokio::process::Command::from(command).spawn()?;
    loop {
        let received = tokio::select! {
            ended = child.wait() => return ended,
            _ = terminate.recv() => Signal::SIGTERM,
            _ = interrupt.recv() => Signal::SIGINT,
            _ = quit.recv() => Signal::SIGQUIT,
            _ = hangup.recv() => Signal::SIGHUP,
        };
        // Without an id the child has ended, and the next turn returns.
        if let Some(id) = child.id().and_then(|id| i32::try_from(id).ok()) {
            let _ = kill(Pid::from_raw(id), received);
        }
    }
}

/// The exit code of a command as a shell has it: 128 and the signal for a command that a signal ended.
pub fn exit_code(ended: ExitStatus) -> u8 {
    let code = ended.code().or_else(|| Some(128 + ended.signal()?));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exit_code_is_that_of_a_shell() {
        for (status, code) in [(0, 0), (7 << 8, 7), (15, 143), (9, 137)] {
            assert_eq!(exit_code(ExitStatus::from_raw(status)), code);
        }
    }
}
