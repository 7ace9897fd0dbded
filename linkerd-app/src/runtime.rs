//! A thread with its own runtime.
//!
//! Its tasks stay on it, so they share state without locks. They are the runtime's own ([`LocalRuntime`]): a `LocalSet`
//! within a runtime would add a second queue, and a poll of the surrounding future before each task.

use crate::process::Runtimes;
use linkerd_proxy_core::transport;
use std::{io, sync::mpsc, thread};
use tokio::runtime::{Builder, LocalOptions, LocalRuntime};

/// Starts a thread that runs the future of `main`, and ends with it. Returns when the thread has its runtime.
pub fn spawn<F: Future<Output = ()>>(
    name: &str,
    runtimes: &Runtimes,
    main: impl FnOnce() -> F + Send + 'static,
) -> io::Result<thread::JoinHandle<()>> {
    let (built, wait) = mpsc::sync_channel(1);
    let run = move || match local() {
        Ok(runtime) => {
            // The starting thread waits for this.
            let _ = built.send(Ok(runtime.handle().clone()));
            runtime.block_on(main());
        }
        Err(error) => {
            let _ = built.send(Err(error));
        }
    };
    let thread = thread::Builder::new().name(name.to_owned()).spawn(run)?;
    let handle = wait
        .recv()
        .unwrap_or_else(|_| Err(io::Error::other("the thread ended at once")))?;
    runtimes.add(handle);
    Ok(thread)
}

/// A runtime for the calling thread.
pub fn local() -> io::Result<LocalRuntime> {
    let runtime = Builder::new_current_thread()
        .enable_all()
        // No task blocks; one thread is for the runtime's own needs.
        .max_blocking_threads(1)
        .on_thread_park(transport::begin_round)
        .build_local(LocalOptions::default())?;
    runtime.spawn_local(transport::deliveries());
    Ok(runtime)
}

#[cfg(test)]
mod tests {
    use super::*;
    use linkerd_proxy_core::task::spawn_local;
    use std::rc::Rc;

    #[test]
    fn tasks_that_stay_on_their_thread_run_there() {
        let runtimes = Runtimes::default();
        let (tell, told) = mpsc::channel();
        let thread = spawn("test", &runtimes, move || async move {
            let shared = Rc::new("shared");
            let task = spawn_local({
                let shared = shared.clone();
                async move { shared.len() }
            });
            let _ = tell.send(task.await.map(|len| len == shared.len()));
        });
        thread.unwrap().join().unwrap();
        assert!(told.recv().unwrap().unwrap());
    }
}
