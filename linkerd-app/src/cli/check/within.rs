//! A limit of time for each step of a check.

use std::{thread, time::Duration};
use tokio::{
    sync::oneshot,
    time::{error::Elapsed, timeout},
};

/// The time for one step: a file system, a look-up, a connect, a handshake, a request.
pub(super) const STEP: Duration = Duration::from_secs(5);

/// Waits for a step at most [`STEP`].
pub(super) async fn within<T>(step: impl Future<Output = T>) -> Result<T, Elapsed> {
    timeout(STEP, step).await
}

/// Runs a blocking step on a new thread, and waits for it at most [`STEP`]; `None` if it takes longer. A step that hangs ends
/// with the process.
pub(super) async fn blocking_within<T: Send + 'static>(
    step: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (done, result) = oneshot::channel();
    thread::spawn(move || {
        // The waiting task may have been dropped.
        let _ = done.send(step());
    });
    within(result).await.ok()?.ok()
}
