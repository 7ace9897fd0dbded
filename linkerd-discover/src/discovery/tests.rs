use super::*;
use futures::{FutureExt, StreamExt};
use linkerd_api_proto::destination::{
    AddrSet, NoEndpoints, Update, WeightedAddr, WeightedAddrSet, update,
};
use linkerd_proxy_core::subscription::Call;
use std::{net::SocketAddr, sync::Arc};
use tokio::{
    runtime::Handle,
    sync::{mpsc, oneshot},
    time::{Instant, sleep},
};
use tokio_stream::wrappers::UnboundedReceiverStream;

type Items = mpsc::UnboundedSender<Result<Update, Status>>;

/// A control plane whose every stream is opened, or refused, by the test.
struct Scripted(mpsc::UnboundedSender<Asked>);

struct Asked {
    path: String,
    answer: oneshot::Sender<Result<UnboundedReceiverStream<Result<Update, Status>>, Status>>,
}

impl GetEndpoints for Scripted {
    fn get(&self, path: &str) -> Call<Update> {
        let (answer, answered) = oneshot::channel();
        let path = path.to_owned();
        self.0.send(Asked { path, answer }).ok();
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
    async fn refuse(&mut self, code: Code) -> String {
        let asked = self.0.recv().await.unwrap();
        asked
            .answer
            .send(Err(Status::new(code, "as scripted")))
            .ok();
        asked.path
    }

    fn nobody_asks(&mut self) -> bool {
        self.0.try_recv().is_err()
    }
}

fn config(max_destinations: usize) -> DiscoveryConfig {
    DiscoveryConfig {
        context_token: String::new(),
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
        Discovery::over(Scripted(tx), config(max_destinations), Handle::current()),
        Controller(rx),
    )
}

fn addr(last: u8) -> SocketAddr {
    ([10, 0, 0, last], 8080).into()
}

fn add(lasts: &[u8]) -> Result<Update, Status> {
    let addrs = lasts.iter().map(|last| WeightedAddr {
        addr: Some(addr(*last).into()),
        weight: 10_000,
        ..Default::default()
    });
    Ok(Update {
        update: Some(update::Update::Add(WeightedAddrSet {
            addrs: addrs.collect(),
            ..Default::default()
        })),
    })
}

fn remove(last: u8) -> Result<Update, Status> {
    Ok(Update {
        update: Some(update::Update::Remove(AddrSet {
            addrs: vec![addr(last).into()],
        })),
    })
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
    let mut first = discovery.endpoints("Web.default.svc.:80").unwrap();
    let mut second = discovery.endpoints("web.default.svc:80").unwrap();
    assert_eq!(first.destination(), "web.default.svc:80");
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
    let mut watch = discovery.endpoints("web:80").unwrap();
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
    let mut watch = discovery.endpoints("web:80").unwrap();
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
    let mut watch = discovery.endpoints("web:80").unwrap();
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
    let mut watch = discovery.endpoints("web:80").unwrap();
    assert_eq!(controller.refuse(Code::InvalidArgument).await, "web:80");
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
    let mut watch = discovery.endpoints("web:80").unwrap();
    let stream = controller.accept().await;
    stream.send(add(&[1])).unwrap();
    watch.resolved().await.unwrap();
    drop(stream);
    let away = Instant::now() + Duration::from_secs(1800);
    drop(watch);
    while Instant::now() < away {
        controller.refuse(Code::Unavailable).await;
    }
    let mut watch = discovery.endpoints("web:80").unwrap();
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
    let mut watch = discovery.endpoints("web:80").unwrap();
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

    // The next look has to wait, and confirms what is held.
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
    let mut watch = discovery.endpoints("web:80").unwrap();
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
    let mut watch = discovery.endpoints("web:80").unwrap();
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
async fn nonsense_costs_only_itself() {
    let (discovery, mut controller) = start(10);
    let mut watch = discovery.endpoints("web:80").unwrap();
    let stream = controller.accept().await;
    let none = update::Update::NoEndpoints(NoEndpoints { exists: true });
    stream.send(Ok(Update::default())).unwrap();
    let mut bad = add(&[1, 2]).unwrap();
    if let Some(update::Update::Add(set)) = &mut bad.update {
        set.addrs[0].addr.as_mut().unwrap().port = 0;
    }
    stream.send(Ok(bad)).unwrap();
    let set = watch.resolved().await.unwrap();
    assert_eq!(set.endpoints.keys().collect::<Vec<_>>(), [&addr(2)]);
    assert_eq!(counters(&discovery)["skipped_endpoints"], 1);
    stream.send(Ok(Update { update: Some(none) })).unwrap();
    assert!(watch.changed().await.known().unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn destinations_are_bounded_and_checked() {
    let (discovery, _controller) = start(1);
    let _watch = discovery.endpoints("web:80").unwrap();
    assert!(matches!(discovery.endpoints("api:80"), Err(Error::Full(_))));
    for refused in ["", "web", "web:0", "we b:80"] {
        assert_eq!(
            discovery.endpoints(refused).unwrap_err(),
            Error::InvalidDestination(refused.into())
        );
    }
}

mod over_grpc {
    //! The generated client and server, joined without a socket.

    use super::*;
    use linkerd_api_proto::destination::{
        DestinationProfile, GetDestination,
        destination_server::{Destination, DestinationServer},
    };
    use tonic::{Request, Response, codegen::tokio_stream::Once};

    struct Controller;

    type Answered<T> = Result<Response<Once<Result<T, tonic::Status>>>, tonic::Status>;

    #[tonic::async_trait]
    impl Destination for Controller {
        type GetStream = Once<Result<Update, tonic::Status>>;
        type GetProfileStream = Once<Result<DestinationProfile, tonic::Status>>;

        async fn get(&self, request: Request<GetDestination>) -> Answered<Update> {
            let request = request.into_inner();
            assert_eq!(request.context_token, "token");
            match request.path.as_str() {
                "web.default.svc:80" => {
                    let update = add(&[1]).map_err(|_| tonic::Status::internal(""))?;
                    Ok(Response::new(tokio_stream::once(Ok(update))))
                }
                path => Err(tonic::Status::invalid_argument(path)),
            }
        }

        async fn get_profile(&self, _: Request<GetDestination>) -> Answered<DestinationProfile> {
            Err(tonic::Status::unimplemented(""))
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_call_is_made() {
        let config = DiscoveryConfig {
            context_token: "token".into(),
            ..config(10)
        };
        let discovery = Discovery::new(
            DestinationServer::new(Controller),
            config,
            Handle::current(),
        );
        let mut watch = discovery.endpoints("web.default.svc.:80").unwrap();
        assert_eq!(watch.resolved().await.unwrap().endpoints.len(), 1);
        let mut watch = discovery.endpoints("api:80").unwrap();
        let status = watch.resolved().await.unwrap_err();
        assert_eq!(*status, Status::new(Code::InvalidArgument, "api:80"));
    }
}
