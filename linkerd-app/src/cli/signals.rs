//! Signals of the process.

use std::io;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Signals that the process handles. Handlers are installed before it starts, so that no signal kills it meanwhile.
pub struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
    user1: Signal,
    user2: Signal,
}

impl Signals {
    /// Installs the handlers.
    pub fn listen() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
            user1: signal(SignalKind::user_defined1())?,
            user2: signal(SignalKind::user_defined2())?,
        })
    }

    /// Waits for a signal that ends the process, and returns its name. SIGHUP calls `reload`; other signals, which by
    /// default would end the process, are logged. Cancel safe.
    pub async fn terminated(&mut self, reload: Option<&dyn Fn()>) -> &'static str {
        loop {
            let other = tokio::select! {
                _ = self.interrupt.recv() => return "SIGINT",
                _ = self.terminate.recv() => return "SIGTERM",
                _ = self.hangup.recv() => match reload {
                    Some(reload) => {
                        reload();
                        continue;
                    }
                    None => "SIGHUP",
                },
                _ = self.user1.recv() => "SIGUSR1",
                _ = self.user2.recv() => "SIGUSR2",
            };
            tracing::info!("received {other}, which does nothing");
        }
    }
}
