//! The tree of drains.

use super::*;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};
use tokio_test::{assert_pending, assert_ready, task};

#[tokio::test]
async fn the_end_waits_for_everybody_who_holds_it_up() {
    let (signal, handle) = channel();
    let (mut watch, other) = (handle.watch(), handle.watch());
    let mut drained = task::spawn(signal.drain());
    assert_pending!(drained.poll());
    watch.signaled().await;
    drop(watch);
    assert_pending!(drained.poll());
    drop(other);
    assert!(drained.is_woken());
    assert_ready!(drained.poll(), "a handle holds nothing up");
    drop(handle);
}

#[tokio::test]
async fn a_drain_that_was_waited_for_still_shows() {
    let (signal, mut handle) = channel();
    let mut watch = handle.watch();
    assert!(!watch.is_draining() && !handle.is_draining());
    drop(signal);
    watch.signaled().await;
    handle.signaled().await;
    assert!(watch.is_draining() && handle.is_draining());
    assert!(watch.clone().is_draining() && handle.watch().is_draining());
}

#[tokio::test]
async fn the_drain_of_the_process_is_that_of_all_listeners() {
    let (process, root) = channel();
    let (_one, first) = root.child();
    let (_two, second) = root.child();
    let (on_first, on_second) = (first.watch(), second.watch());
    let mut drained = task::spawn(process.drain());
    assert_pending!(drained.poll());
    assert!(on_first.is_draining() && on_second.is_draining());
    drop(on_first);
    assert_pending!(drained.poll());
    drop(on_second);
    assert_ready!(
        drained.poll(),
        "listeners without connections hold nothing up"
    );
}

#[tokio::test]
async fn the_drain_of_a_listener_is_its_own() {
    let (process, root) = channel();
    let (one, first) = root.child();
    let (two, second) = root.child();
    let (on_root, on_first, on_second) = (root.watch(), first.watch(), second.watch());
    let mut first_drained = task::spawn(one.drain());
    assert_pending!(first_drained.poll());
    assert!(on_first.is_draining() && first.is_draining());
    assert!(!on_root.is_draining() && !on_second.is_draining());
    drop(on_first);
    assert!(first_drained.is_woken());
    assert_ready!(first_drained.poll());

    // The process waits for what is left.
    let mut drained = task::spawn(process.drain());
    drop(on_root);
    assert_pending!(drained.poll());
    assert!(on_second.is_draining());
    drop(on_second);
    assert_ready!(drained.poll());
    drop(two);
}

#[tokio::test]
async fn the_process_waits_for_connections_of_a_listener_that_drains_already() {
    let (process, root) = channel();
    let (one, first) = root.child();
    let connection = first.watch();
    let mut listener = task::spawn(one.drain());
    assert_pending!(listener.poll());
    let mut drained = task::spawn(process.drain());
    assert_pending!(drained.poll());
    drop(connection);
    assert_ready!(listener.poll());
    assert_ready!(drained.poll());
}

#[tokio::test]
async fn a_listener_of_a_process_that_drains_does_so_from_the_start() {
    let (process, root) = channel();
    let busy = root.watch();
    let mut drained = task::spawn(process.drain());
    assert_pending!(drained.poll());
    let (late, handle) = root.child();
    let connection = handle.watch();
    assert!(handle.is_draining() && connection.is_draining());
    drop(busy);
    assert_ready!(drained.poll(), "the late one holds nothing up");
    assert_ready!(task::spawn(late.drain()).poll());
}

#[test]
fn listeners_that_are_gone_leave_nothing() {
    let (_process, root) = channel();
    for _ in 0..100 {
        drop(root.child());
    }
    let _kept = root.child();
    assert_eq!(root.node.open.lock().children.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_listener_ends_with_its_last_connection() {
    const SECOND: Duration = Duration::from_secs(1);
    let (_process, root) = channel();
    let (signal, handle) = root.child();
    let start = Instant::now();
    for seconds in 1..=3 {
        let mut watch = handle.watch();
        tokio::spawn(async move {
            watch.signaled().await;
            sleep(SECOND * seconds).await;
        });
    }
    sleep(SECOND).await;
    signal.drain().await;
    assert_eq!(start.elapsed(), SECOND * 4);
    assert!(!root.is_draining());
}

#[tokio::test(start_paused = true)]
async fn connections_leave_evenly_and_newcomers_a_window_later() {
    const WINDOW: Duration = Duration::from_secs(16);
    let (process, root) = channel();
    let (_one, listener) = root.child();
    let start = Instant::now();
    let admin = root.watch();
    let connection = || {
        let mut watch = listener.watch();
        tokio::spawn(async move {
            watch.signaled().await;
            start.elapsed()
        })
    };
    let open: Vec<_> = (0..32).map(|_| connection()).collect();
    let mut leaving = Box::pin(process.leave(WINDOW));
    assert!(timeout(WINDOW / 2, &mut leaving).await.is_err());
    let late = connection();
    assert!(timeout(WINDOW * 3 / 2, &mut leaving).await.is_err());
    let mut left = Vec::new();
    for connection in open {
        left.push(connection.await.unwrap().as_secs());
    }
    left.sort_unstable();
    // Two in each step, from the first one on.
    let even: Vec<_> = (0..16).flat_map(|step| [step, step]).collect();
    assert_eq!(left, even);
    let late = late.await.unwrap();
    assert!(late > WINDOW && late <= WINDOW * 3 / 2, "{late:?}");
    assert!(!admin.is_draining() && !listener.is_draining());
    // No watch was held for a window.
    leaving.await;
    assert!(start.elapsed() < WINDOW * 3, "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_drain_that_is_used_is_not_left() {
    const WINDOW: Duration = Duration::from_secs(16);
    let (process, root) = channel();
    let (_one, listener) = root.child();
    let held = listener.watch();
    let mut leaving = Box::pin(process.leave(WINDOW));
    assert!(timeout(WINDOW * 5, &mut leaving).await.is_err());
    assert!(held.is_draining());
    drop(held);
    assert!(timeout(WINDOW / 2, &mut leaving).await.is_err());
    // Watches held for a short time count, too.
    drop(listener.watch());
    assert!(
        timeout(WINDOW / 2 + WINDOW / 4, &mut leaving)
            .await
            .is_err()
    );
    assert!(timeout(WINDOW / 2, &mut leaving).await.is_ok());
    let start = Instant::now();
    process.leave(Duration::ZERO).await;
    assert_eq!(start.elapsed(), Duration::ZERO);
}
