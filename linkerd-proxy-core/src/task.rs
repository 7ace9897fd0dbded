//! Tasks of the proxy, all of which stay on the thread that spawned them.
//!
//! A worker's stacks, pools and balancers are `Rc` and `Cell`: a request takes no lock on its way, and its tasks can run
//! on no other thread. The control thread's tasks are spawned in the same way, as its runtime is of the same kind. Features
//! for all tasks of the proxy, such as a count or a name, belong here; clippy forbids tokio's own function everywhere else.

use tokio::task::JoinHandle;

/// Spawns a task on the present thread. Must be called on a local runtime or within a `LocalSet`.
///
/// The task goes on when its handle is dropped; a [`JoinSet`](tokio::task::JoinSet) ends its tasks when dropped.
#[inline]
#[track_caller]
pub fn spawn_local<F>(task: F) -> JoinHandle<F::Output>
where
    F: Future + 'static,
    F::Output: 'static,
{
    #[expect(clippy::disallowed_methods, reason = "the one place that calls it")]
    tokio::task::spawn_local(task)
}
