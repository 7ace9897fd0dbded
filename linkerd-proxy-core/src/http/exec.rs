//! Runs hyper's tasks on the worker's own thread.

use crate::task::spawn_local;

/// Spawns onto the present thread.
#[derive(Clone, Copy, Debug, Default)]
pub struct LocalExec {
    boxes: bool,
}

impl LocalExec {
    /// For connections with few streams that stay for long: what is run is in a box, which is gone when it has ended.
    ///
    /// A task itself stays as long as there is a waker of it. That of the task that has sent a request's body is kept by
    /// h2 until the response has ended, and each of hyper's tasks has 1.7 KB, room for the largest of them. Where streams
    /// are short, another allocation for each of them costs more.
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
