use super::*;
use tokio::{runtime::Handle, sync::mpsc};

const IDLE: Duration = Duration::from_secs(5);

type TestCache = Cache<&'static str, u32, ()>;

fn cache(max_entries: usize) -> TestCache {
    let limits = CacheLimits {
        idle_timeout: IDLE,
        max_entries,
    };
    Cache::new(limits, Handle::current())
}

/// A lease whose task publishes nothing; the publisher is sent to `publishers`.
fn lease(
    cache: &TestCache,
    key: &'static str,
    publishers: &mpsc::UnboundedSender<Publisher<u32, ()>>,
) -> Result<Lease<u32, ()>, CacheFull> {
    let publishers = publishers.clone();
    cache.lease(
        &key,
        || (0, ()),
        |publisher| async move {
            publishers.send(publisher).ok();
            std::future::pending().await
        },
    )
}

#[tokio::test(start_paused = true)]
async fn one_task_serves_all_leases() {
    let cache = cache(10);
    let (tx, mut publishers) = mpsc::unbounded_channel();
    let mut first = lease(&cache, "web", &tx).unwrap();
    let second = lease(&cache, "web", &tx).unwrap();
    let publisher = publishers.recv().await.unwrap();
    publisher.publish(7);
    first.values_mut().changed().await.unwrap();
    assert_eq!(*second.values().borrow(), 7);
    assert_eq!(cache.stats().created, 1);
    assert!(publishers.try_recv().is_err());
    assert_eq!(cache.inspect(|cached| cached.leases), [2]);
}

#[tokio::test(start_paused = true)]
async fn an_idle_entry_leaves_after_its_time() {
    let cache = cache(10);
    let (tx, mut publishers) = mpsc::unbounded_channel();
    let first = lease(&cache, "web", &tx).unwrap();
    let clone = first.clone();
    let publisher = publishers.recv().await.unwrap();
    drop(first);
    tokio::time::sleep(2 * IDLE).await;
    assert_eq!(cache.len(), 1, "a clone holds it");
    drop(clone);
    tokio::time::sleep(IDLE - Duration::from_millis(1)).await;
    assert_eq!(cache.len(), 1);
    drop(lease(&cache, "web", &tx).unwrap());
    tokio::time::sleep(IDLE - Duration::from_millis(1)).await;
    assert_eq!(cache.len(), 1, "the time starts over");
    tokio::time::sleep(Duration::from_millis(2)).await;
    assert!(cache.is_empty());
    assert_eq!(cache.stats().evicted, 1);
    drop(publisher);
}

#[tokio::test(start_paused = true)]
async fn a_pinned_entry_stays() {
    let cache = cache(10);
    let (tx, mut publishers) = mpsc::unbounded_channel();
    drop(lease(&cache, "web", &tx).unwrap());
    let publisher = publishers.recv().await.unwrap();
    publisher.pin(true);
    tokio::time::sleep(100 * IDLE).await;
    assert_eq!(cache.inspect(|cached| cached.pinned), [true]);
    publisher.pin(false);
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert!(cache.is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_longest_idle_makes_room() {
    let cache = cache(2);
    let (tx, _publishers) = mpsc::unbounded_channel();
    let (first, second) = (lease(&cache, "a", &tx), lease(&cache, "b", &tx));
    assert_eq!(
        lease(&cache, "c", &tx).unwrap_err().to_string(),
        "all 2 entries are in use (the bound is 2)"
    );
    drop(second);
    tokio::time::sleep(Duration::from_secs(1)).await;
    drop(first);
    let _third = lease(&cache, "c", &tx).unwrap();
    let mut keys = cache.inspect(|cached| *cached.key);
    keys.sort_unstable();
    assert_eq!(keys, ["a", "c"]);
    let stats = cache.stats();
    assert_eq!((stats.displaced, stats.refused), (1, 1));
    // The displaced entry's task ends, and does not remove a later entry with the same key.
    let _again = lease(&cache, "b", &tx).unwrap();
    tokio::time::sleep(2 * IDLE).await;
    assert!(cache.inspect(|cached| *cached.key).contains(&"b"));
}

#[tokio::test(start_paused = true)]
async fn an_entry_whose_task_panics_leaves() {
    let cache = cache(10);
    let mut lease = cache
        .lease(&"web", || (0, ()), |_| async { panic!("as scripted") })
        .unwrap();
    lease.values_mut().borrow_and_update();
    assert!(lease.values_mut().changed().await.is_err());
    tokio::task::yield_now().await;
    assert!(cache.is_empty());
}

#[test]
fn a_runtime_that_has_ended_is_no_deadlock() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let limits = CacheLimits {
        idle_timeout: IDLE,
        max_entries: 1,
    };
    let cache: TestCache = Cache::new(limits, runtime.handle().clone());
    drop(runtime);
    let lease = cache.lease(&"web", || (0, ()), |_| std::future::pending());
    assert!(lease.unwrap().values().has_changed().is_err());
    assert!(cache.is_empty());
}

#[test]
fn leases_are_counted_across_threads() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    let limits = CacheLimits {
        idle_timeout: Duration::ZERO,
        max_entries: 4,
    };
    let cache: Cache<u32, u32, ()> = Cache::new(limits, runtime.handle().clone());
    let threads: Vec<_> = (0..4)
        .map(|thread| {
            let cache = cache.clone();
            std::thread::spawn(move || {
                for n in 0..2000 {
                    let lease = cache.lease(
                        &(n % 3),
                        || (0, ()),
                        |publisher| async move {
                            publisher.publish(1);
                            std::future::pending().await
                        },
                    );
                    assert!(lease.is_ok(), "thread {thread}");
                }
            })
        })
        .collect();
    runtime.block_on(async {
        let deadline = Instant::now() + Duration::from_secs(10);
        while !(threads.iter().all(|thread| thread.is_finished()) && cache.is_empty()) {
            assert!(Instant::now() < deadline, "{:?}", cache.stats());
            tokio::task::yield_now().await;
        }
    });
    for thread in threads {
        thread.join().unwrap();
    }
    let stats = cache.stats();
    assert_eq!(stats.created, stats.evicted + stats.displaced);
}
