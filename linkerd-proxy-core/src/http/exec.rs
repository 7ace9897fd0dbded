//! Runs hyper's tasks on the worker's own thread.

use crate::task::spawn_local;

/// Spawns onto the present thread.
#[derive(Clone, Copy, Debug, Default)]
pub struct LocalExec {
    boxes: bool,
}

impl LocalExec {
    /// An executor for connections with few, long streams: each future is boxed, and freed when it has ended.
    ///
    /// A task stays allocated as long as a waker of it exists. h2 keeps the waker of the task that has sent a request's body
    /// until the response has ended, and each of hyper's tasks takes 1.7 KB, the size of the largest. Where streams are short,
    /// another allocation for each of them costs more.
    pub const fn boxing() -> Self {
        Self { boxes: true }
    }
}

impl<F> hyper::rt::Executor<F> for LocalExec
where
    F: Future + 'static,
    F::Output: 'static,
{
    fn execute(&self, task: F) {
        match self.boxes {
            true => spawn_local(Box::pin(task)),
            false => spawn_local(task),
        };
    }
}
