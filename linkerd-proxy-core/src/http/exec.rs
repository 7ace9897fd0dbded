//! Runs hyper's tasks on the worker's own thread.

use crate::task::spawn_local;

/// Spawns onto the present thread. Large futures are boxed.
///
/// A task holds its future, and then its output, in place: at its end, each of the two is replaced by a move of their size. Each of
/// hyper's tasks of a client's stream has the size of the largest of them, 1.7 KB, and the moves cost more than a box.
/// The box is also freed when the future has ended, while the task stays allocated as long as a waker of it exists: h2 keeps
/// the waker of the task that has sent a request's body until the response has ended.
#[derive(Clone, Copy, Debug)]
pub struct LocalExec;

impl<F> hyper::rt::Executor<F> for LocalExec
where
    F: Future + 'static,
    F::Output: 'static,
{
    fn execute(&self, task: F) {
        match size_of::<F>() > LARGE {
            true => spawn_local(Box::pin(task)),
            false => spawn_local(task),
        };
    }
}

/// The size of a future, in bytes, above which it is boxed.
const LARGE: usize = 1024;
