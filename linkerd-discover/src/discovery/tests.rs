use super::*;
use crate::{Endpoint, EndpointSetChange, EndpointUpdate, IgnoredPart};
use futures::{FutureExt, StreamExt};
use linkerd_proxy_core::subscription::Call;
use std::{
    collections::{HashMap, HashSet},
    net::SocketAddr,
    sync::Arc,
};
use tokio::{
    runtime::Handle,
    sync::{mpsc, oneshot},
    time::{Instant, sleep},
};
use tokio_stream::wrappers::UnboundedReceiverStream;
use tower::discover::Change;

type Items = mpsc::UnboundedSender<Result<EndpointUpdate, Status>>;

/// A control plane whose streams are opened or refused by the test.
struct Scripted(mpsc::UnboundedSender<Asked>);

struct Asked {
    destination: Destination,
    answer:
        oneshot::Sender<Result<UnboundedReceiverStream<Result<EndpointUpdate, Status>>, Status>>,
}

impl EndpointSource for Scripted {
    fn endpoints(&self, destination: &Destination) -> Call<EndpointUpdate> {
        let (answer, answered) = oneshot::channel();
        let destination = destination.clone();
        let asked = Asked {
            destination,
            answer,
        };
        self.0.send(asked).ok();
        async move { Ok(answered.await.expect("the test answers")?.boxed()) }.boxed()
    }
}

struct Controller(mpsc::UnboundedReceiver<Asked>);

impl Controller {
    /// Accepts the next call.
    async fn accept(&mut self) -> Items {
        let (items, rx) = mpsc::unbounded_channel();
        let asked = self.0.recv().await.unwrap();
        asked.answer.send(Ok(UnboundedReceiverStream::new(rx))).ok();
        items
    }

    /// Refuses the next call.
    async fn refuse(&mut self, code: Code) -> Destination {
        let asked = self.0.recv().await.unwrap();
        asked
            .answer
            .send(Err(Status::new(code, "as scripted")))
            .ok();
        asked.destination
    }

    fn nobody_asks(&mut self) -> bool {
        self.0.try_recv().is_err()
    }
}

fn config(max_destinations: usize) -> DiscoveryConfig {
    DiscoveryConfig {
        limits: StreamLimits::default(),
        backoff: Backoff::new(Duration::from_millis(100), Duration::from_secs(1), 0.0).unwrap(),
        idle_timeout: Duration::from_secs(5),
        max_destinations,
        max_endpoints: 100,
    }
}

fn start(max_destinations: usize) -> (Discovery, Controller) {
    let (tx, rx) = mpsc::unbounded_channel();
    (
        Discovery::new(Scripted(tx), config(max_destinations), Handle::current()),
        Controller(rx),
    )
}

fn destination(text: &str) -> Destination {
    text.parse().unwrap()
}

fn addr(last: u8) -> SocketAddr {
    ([10, 0, 0, last], 8080).into()
}

fn add(lasts: &[u8]) -> Result<EndpointUpdate, Status> {
    let endpoints = lasts.iter().map(|last| Endpoint::new(addr(*last)));
    Ok(EndpointSetChange::Add(endpoints.collect()).into())
}

fn remove(last: u8) -> Result<EndpointUpdate, Status> {
    Ok(EndpointSetChange::Remove(vec![addr(last)]).into())
}

fn lasts(resolution: &Resolution) -> Vec<String> {
    let set = resolution.known().expect("must be known");
    set.endpoints.keys().map(ToString::to_string).collect()
}

async fn next(watch: &mut EndpointWatch) -> Vec<String> {
    lasts(&watch.changed().await)
}

fn counters(discovery: &Discovery) -> Value {
    discovery.inspect()["destinations"][0]["counters"].clone()
}

#[tokio::test(start_paused = true)]
async fn one_stream_serves_everybody() {
    let (discovery, mut controller) = start(10);
    let mut first = discovery
        .endpoints(&destination("Web.default.svc.:80"))
        .unwrap();
    let mut second = discovery
        .endpoints(&destination("web.default.svc:80"))
        .unwrap();
    assert_eq!(first.destination().as_str(), "web.default.svc:80");
    let stream = controller.accept().await;
    assert!(matches!(first.changed().await, Resolution::Pending));
    stream.send(add(&[1])).unwrap();
    assert_eq!(next(&mut first).await, ["10.0.0.1:8080"]);
    assert_eq!(second.resolved().await.unwrap().endpoints.len(), 1);
    assert!(controller.nobody_asks());
}

#[tokio::test(start_paused = true)]
async fn what_is_ready_becomes_one_snapshot() {
    let (discovery, mut controller) = start(10);
    let mut watch = discovery.endpoints(&destination("web:80")).unwrap();
    watch.changed().await;
    let stream = controller.accept().await;
    for last in 1..=50 {
        stream.send(add(&[last])).unwrap();
    }
    stream.send(remove(7)).unwrap();
    let set = watch.resolved().await.unwrap();
    assert_eq!(set.endpoints.len(), 49);
    assert_eq!(set.generation, 51);
}

#[tokio::test(start_paused = true)]
async fn a_new_stream_replaces_what_the_old_one_said() {
    let (discovery, mut controller) = start(10);
    let mut watch = discovery.endpoints(&destination("web:80")).unwrap();
    let stream = controller.accept().await;
    stream.send(add(&[1, 2])).unwrap();
    let before = watch.resolved().await.unwrap();
    drop(stream);
    controller.refuse(Code::Unavailable).await;
    assert_eq!(lasts(&watch.current()).len(), 2, "kept meanwhile");
    let shown = discovery.inspect()["destinations"][0]["freshness"].clone();
    assert_eq!(shown["connected"], false);
    assert_eq!(shown["streams_opened"], 1);

    let stream = controller.accept().await;
    stream.send(remove(2)).unwrap();
    stream.send(add(&[2, 3])).unwrap();
    let after = loop {
        let set = watch.changed().await.known().unwrap().clone();
        if set.endpoints.contains_key(&addr(3)) {
            break set;
        }
    };
    assert!(!after.endpoints.contains_key(&addr(1)));
    assert!(Arc::ptr_eq(
        &before.endpoints[&addr(2)],
        &after.endpoints[&addr(2)]
    ));
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_says_the_same_again_wakes_nobody() {
    let (discovery, mut controller) = start(10);
    let mut watch = discovery.endpoints(&destination("web:80")).unwrap();
    controller.accept().await.send(add(&[1, 2])).unwrap();
    watch.resolved().await.unwrap();
    let stream = controller.accept().await;
    stream.send(add(&[2, 1])).unwrap();
    sleep(Duration::from_millis(1)).await;
    assert!(watch.take_changed().is_none());
    let shown = discovery.inspect()["destinations"][0].clone();
    assert_eq!(shown["freshness"]["generation"], 2);
    assert_eq!(shown["changed_at_generation"], 1);
}

#[tokio::test(start_paused = true)]
async fn a_refusal_is_told() {
    let (discovery, mut controller) = start(10);
    let mut watch = discovery.endpoints(&destination("web:80")).unwrap();
    let refused = controller.refuse(Code::InvalidArgument).await;
    assert_eq!(refused.as_str(), "web:80");
    assert_eq!(
        watch.resolved().await.unwrap_err().code,
        Code::InvalidArgument
    );
    sleep(Duration::from_secs(60)).await;
    assert!(controller.nobody_asks());
    assert_eq!(discovery.inspect()["destinations"][0]["state"], "rejected");
    drop(watch);
    sleep(Duration::from_secs(6)).await;
    assert_eq!(discovery.inspect()["size"], 0);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_evicted_while_the_control_plane_is_away() {
    let (discovery, mut controller) = start(10);
    let mut watch = discovery.endpoints(&destination("web:80")).unwrap();
    let stream = controller.accept().await;
    stream.send(add(&[1])).unwrap();
    watch.resolved().await.unwrap();
    drop(stream);
    let away = Instant::now() + Duration::from_secs(1800);
    drop(watch);
    while Instant::now() < away {
        controller.refuse(Code::Unavailable).await;
    }
    let mut watch = discovery.endpoints(&destination("web:80")).unwrap();
    assert_eq!(next(&mut watch).await, ["10.0.0.1:8080"], "known at once");
    drop(watch);
    let stream = controller.accept().await;
    sleep(Duration::from_secs(6)).await;
    assert_eq!(discovery.inspect()["size"], 0);
    assert!(stream.is_closed());
}

#[tokio::test(start_paused = true)]
async fn stale_endpoints_are_found_out() {
    let (discovery, mut controller) = start(10);
    let mut watch = discovery.endpoints(&destination("web:80")).unwrap();
    let silent = controller.accept().await;
    silent.send(add(&[1])).unwrap();
    assert_eq!(watch.resolved().await.unwrap().endpoints.len(), 1);
    let begin = Instant::now();
    watch.report_unreachable();
    watch.report_unreachable();
    let second = controller.accept().await;
    second.send(add(&[2])).unwrap();
    assert_eq!(next(&mut watch).await, ["10.0.0.2:8080"]);
    assert_eq!(begin.elapsed(), Duration::ZERO);
    assert!(silent.is_closed(), "the second stream took over");
    assert_eq!(counters(&discovery)["stale_detected"], 1);
    second.send(add(&[3])).unwrap();
    assert_eq!(next(&mut watch).await.len(), 2, "it goes on with additions");

    // The next check has to wait, and confirms the present set.
    watch.report_unreachable();
    let third = controller.accept().await;
    assert_eq!(begin.elapsed().as_secs(), 10);
    third.send(add(&[3, 2])).unwrap();
    third.closed().await;
    assert!(!second.is_closed());
    assert_eq!(counters(&discovery)["stale_checked"], 1);
    let stats = discovery.stats();
    assert_eq!((stats.stale_detected, stats.stale_checked), (1, 1));
    assert!(watch.take_changed().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_second_look_without_an_answer_changes_nothing() {
    let (discovery, mut controller) = start(10);
    let mut watch = discovery.endpoints(&destination("web:80")).unwrap();
    let stream = controller.accept().await;
    stream.send(add(&[1])).unwrap();
    watch.resolved().await.unwrap();
    watch.report_unreachable();
    let hung = controller.accept().await;
    hung.closed().await;
    watch.report_unreachable();
    controller.refuse(Code::Unavailable).await;
    sleep(Duration::from_secs(1)).await;
    assert_eq!(counters(&discovery)["stale_check_failed"], 2);
    assert!(!stream.is_closed());
    assert_eq!(lasts(&watch.current()), ["10.0.0.1:8080"]);
}

#[tokio::test(start_paused = true)]
async fn a_second_look_can_undo_a_refusal() {
    let (discovery, mut controller) = start(10);
    let mut watch = discovery.endpoints(&destination("web:80")).unwrap();
    let stream = controller.accept().await;
    stream.send(add(&[1])).unwrap();
    watch.resolved().await.unwrap();
    let refusal = Status::new(Code::FailedPrecondition, "as scripted");
    stream.send(Err(refusal)).unwrap();
    assert!(matches!(watch.changed().await, Resolution::Rejected(_)));
    watch.report_unreachable();
    controller.accept().await.send(add(&[1])).unwrap();
    assert_eq!(next(&mut watch).await, ["10.0.0.1:8080"]);
}

#[tokio::test(start_paused = true)]
async fn an_invalid_part_costs_only_itself() {
    let (discovery, mut controller) = start(10);
    let mut watch = discovery.endpoints(&destination("web:80")).unwrap();
    let stream = controller.accept().await;
    stream.send(Ok(EndpointUpdate::default())).unwrap();
    let mut update = add(&[2]).unwrap();
    update.ignored = vec![
        IgnoredPart::Endpoint("an endpoint has no address".into()),
        IgnoredPart::Metadata {
            addr: addr(2),
            part: "TLS identity",
        },
    ];
    stream.send(Ok(update)).unwrap();
    let set = watch.resolved().await.unwrap();
    assert_eq!(set.endpoints.keys().collect::<Vec<_>>(), [&addr(2)]);
    assert_eq!(counters(&discovery)["skipped_endpoints"], 1);
    assert_eq!(counters(&discovery)["left_out_parts"], 1);
    let none = EndpointSetChange::Clear { exists: true };
    stream.send(Ok(none.into())).unwrap();
    assert!(watch.changed().await.known().unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn destinations_are_bounded() {
    let (discovery, _controller) = start(1);
    let _watch = discovery.endpoints(&destination("web:80")).unwrap();
    let refused = discovery.endpoints(&destination("api:80"));
    assert!(matches!(refused, Err(Error::Full(_))));
}

/// A source with one task that feeds all destinations, like a control plane with one stream.
struct Multiplexed(mpsc::UnboundedSender<(Destination, Items)>);

impl EndpointSource for Multiplexed {
    fn endpoints(&self, destination: &Destination) -> Call<EndpointUpdate> {
        let (items, rx) = mpsc::unbounded_channel();
        self.0.send((destination.clone(), items)).ok();
        async move { Ok(UnboundedReceiverStream::new(rx).boxed()) }.boxed()
    }
}

#[tokio::test(start_paused = true)]
async fn one_stream_can_serve_all_destinations() {
    let (tx, mut subscriptions) = mpsc::unbounded_channel::<(Destination, Items)>();
    let (say, mut said) = mpsc::unbounded_channel::<(&str, _)>();
    let feeding = tokio::spawn(async move {
        let mut subscribed: HashMap<String, Items> = HashMap::new();
        loop {
            tokio::select! {
                biased;
                Some((destination, items)) = subscriptions.recv() => {
                    subscribed.insert(destination.to_string(), items);
                }
                Some((destination, update)) = said.recv() => {
                    subscribed[destination].send(update).unwrap();
                }
                // Its end ends all subscriptions.
                else => break,
            }
        }
    });
    let discovery = Discovery::new(Multiplexed(tx), config(10), Handle::current());
    let mut web = discovery.endpoints(&destination("web:80")).unwrap();
    let mut api = discovery.endpoints(&destination("api:80")).unwrap();
    tokio::task::yield_now().await;
    say.send(("api:80", add(&[1]))).unwrap();
    say.send(("web:80", add(&[2]))).unwrap();
    assert_eq!(api.resolved().await.unwrap().endpoints.len(), 1);
    assert_eq!(
        lasts(&Resolution::Known(web.resolved().await.unwrap())),
        ["10.0.0.2:8080"]
    );
    feeding.abort();
    sleep(Duration::from_millis(1)).await;
    let shown = discovery.inspect();
    for destination in shown["destinations"].as_array().unwrap() {
        assert_eq!(destination["freshness"]["connected"], false);
        assert_eq!(destination["endpoints"].as_array().unwrap().len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn changes_follow_the_snapshots() {
    let (discovery, mut controller) = start(10);
    let changes = discovery
        .endpoints(&destination("web:80"))
        .unwrap()
        .into_changes();
    let mut changes = std::pin::pin!(changes);
    let mut applied = HashSet::new();
    let stream = controller.accept().await;
    let mut resets = 0;
    let none = Ok(EndpointSetChange::Clear { exists: true }.into());
    for (update, expected) in [(add(&[1, 2]), 2), (remove(1), 1), (none, 0), (add(&[3]), 1)] {
        stream.send(update).unwrap();
        loop {
            let batch = changes.next().await.unwrap().unwrap();
            resets += usize::from(batch.reset);
            for change in batch.changes {
                match change {
                    Change::Insert(addr, _) => assert!(applied.insert(addr)),
                    Change::Remove(addr) => assert!(applied.remove(&addr)),
                }
            }
            if applied.len() == expected {
                break;
            }
        }
    }
    assert_eq!(resets, 1);
    let refusal = Status::new(Code::InvalidArgument, "as scripted");
    stream.send(Err(refusal.clone())).unwrap();
    let error = loop {
        if let Err(error) = changes.next().await.unwrap() {
            break error;
        }
    };
    assert_eq!(*error, refusal);
}
