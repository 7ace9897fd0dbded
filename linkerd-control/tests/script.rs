//! A test scripts the controller, and a proxy sees it over a real connection.

mod support;

use linkerd_api_proto::destination::{
    DestinationProfile, Update, WeightedAddr, WeightedAddrSet, update,
};
use linkerd_api_proto::net::TcpAddress;
use linkerd_api_proto::outbound::OutboundPolicy;
use linkerd_control::{Controller, ControllerLimits, Endpoint, LookupKind, Policy, Server};
use std::time::Duration;
use support::*;
use tonic::{Code, Status};

async fn start() -> (Controller, Server, Proxy) {
    let controller = Controller::new();
    let server = controller.spawn().await.expect("a port");
    let proxy = Proxy::connect(server.addr()).await;
    (controller, server, proxy)
}

#[tokio::test]
async fn endpoints_come_and_go() {
    let (controller, _server, proxy) = start().await;
    let web = controller.destination(WEB);
    web.add([addr(1), addr(2)]);

    let mut stream = proxy.get(WEB).await.expect("a stream");
    assert_eq!(told(&mut stream).await, ["+1", "+2"]);
    web.add([Endpoint::new(addr(3)).h2()]);
    assert_eq!(told(&mut stream).await, ["+3"]);
    web.remove([addr(1)]);
    assert_eq!(told(&mut stream).await, ["-1"]);
    web.no_endpoints(true);
    assert_eq!(told(&mut stream).await, ["none"]);
    web.no_endpoints(false);
    assert_eq!(told(&mut stream).await, ["gone"]);
    web.add([addr(4)]);
    assert_eq!(told(&mut stream).await, ["+4"]);

    // A further stream starts with the whole state, in one message.
    web.add([addr(5)]);
    let mut late = proxy.get(WEB).await.expect("a stream");
    assert_eq!(told(&mut late).await, ["+4", "+5"]);
}

#[tokio::test]
async fn ten_thousand_endpoints_come_in_one_message() {
    let (controller, _server, proxy) = start().await;
    controller.destination(WEB).add((1..=10_000).map(addr));
    let mut stream = proxy.get(WEB).await.expect("a stream");
    assert_eq!(told(&mut stream).await.len(), 10_000);
}

#[tokio::test]
async fn a_slow_reader_gets_one_combined_difference() {
    let (controller, _server, proxy) = start().await;
    let web = controller.destination(WEB);
    web.add([addr(1)]).silent();
    let mut stream = proxy.get(WEB).await.expect("a stream");
    for port in 2..=5_000 {
        web.add([addr(port)]).remove([addr(port - 1)]);
    }
    web.restore();
    assert_eq!(told(&mut stream).await, ["+5000"]);
    nothing(&web, &mut stream).await;
}

#[tokio::test]
async fn unknown_targets() {
    let (controller, _server, proxy) = start().await;
    let mut stream = proxy.get(WEB).await.expect("a stream");
    assert_eq!(told(&mut stream).await, ["gone"]);

    let mut profile = proxy.profile("10.0.0.1:80").await.expect("a stream");
    assert_eq!(next(&mut profile).await, DestinationProfile::default());
    let profile = proxy
        .profile("example.com:80")
        .await
        .expect_err("no service");
    assert_eq!(profile.code(), Code::InvalidArgument);

    let watch = proxy.watch(addr(80)).await.expect_err("no policy");
    assert_eq!(watch.code(), Code::NotFound);
    let get = proxy.policy(addr(80)).await.expect_err("no policy");
    assert_eq!(get.code(), Code::NotFound);

    // Defaults apply to all unknown targets, and to open streams.
    let policy = Policy::forward(addr(1)).build();
    controller.any_policy().set(policy.clone());
    assert_eq!(proxy.policy(addr(80)).await.expect("a policy"), policy);
    controller.any_destination().add([addr(7)]);
    assert_eq!(told(&mut stream).await, ["+7"]);
    controller
        .destination(WEB)
        .set(linkerd_control::EndpointSet::new([addr(8)]));
    assert_eq!(told(&mut stream).await, ["+8"]);
}

#[tokio::test]
async fn policies_and_profiles_are_pushed() {
    let (controller, _server, proxy) = start().await;
    let policy = controller.policy("10.0.0.1:80");
    policy.set(Policy::balance("web", 80));
    let mut watch = proxy
        .watch(
            "10.0.0.1:80"
                .parse::<std::net::SocketAddr>()
                .expect("an address"),
        )
        .await
        .expect("a stream");
    assert_eq!(next(&mut watch).await, Policy::balance("web", 80).build());
    policy.set(Policy::balance("web", 80));
    policy.set(Policy::weighted("web", 80, [("a", 80, 1), ("b", 80, 0)]).opaque());
    let split = next(&mut watch).await;
    assert_eq!(
        split,
        Policy::weighted("web", 80, [("a", 80, 1), ("b", 80, 0)])
            .opaque()
            .build()
    );
    policy.unset();
    let status = soon(watch.message()).await.expect_err("vanished");
    assert_eq!(status.code(), Code::NotFound);

    let profile = DestinationProfile {
        opaque_protocol: true,
        ..DestinationProfile::default()
    };
    let mut stream = proxy
        .profile("Web.ns.svc.cluster.local.:80")
        .await
        .expect("a stream");
    assert_eq!(
        next(&mut stream).await.fully_qualified_name,
        "web.ns.svc.cluster.local"
    );
    controller.profile(WEB).set(profile.clone());
    assert_eq!(next(&mut stream).await, profile);
}

#[tokio::test]
async fn nonsense_is_sent_as_it_is_and_in_order() {
    let (controller, _server, proxy) = start().await;
    let web = controller.destination(WEB);
    web.silent();
    let mut stream = proxy.get(WEB).await.expect("a stream");
    soon(web.expect_open_streams(1, SOON)).await.expect("open");

    let nonsense = WeightedAddrSet {
        addrs: vec![
            WeightedAddr::default(),
            WeightedAddr {
                addr: Some(TcpAddress { ip: None, port: 0 }),
                ..WeightedAddr::default()
            },
        ],
        ..WeightedAddrSet::default()
    };
    let add = Update {
        update: Some(update::Update::Add(nonsense)),
    };
    assert_eq!(web.send(add), 1);
    assert_eq!(web.send(Update::default()), 1);
    web.restore().add([addr(1)]);
    assert_eq!(told(&mut stream).await, ["+?", "+0"]);
    assert_eq!(told(&mut stream).await, ["nothing"]);
    assert_eq!(told(&mut stream).await, ["+1"]);

    controller.policy(WEB).set(OutboundPolicy::default());
    assert_eq!(
        proxy.policy(WEB).await.expect("a policy"),
        OutboundPolicy::default()
    );
    let no_ip = TcpAddress { ip: None, port: 80 };
    let status = proxy.watch(no_ip).await.expect_err("no address");
    assert_eq!(status.code(), Code::InvalidArgument);
}

#[tokio::test]
async fn a_stream_that_is_not_read_is_dropped_with_its_messages() {
    let limits = ControllerLimits {
        queued_messages: 3,
        ..ControllerLimits::default()
    };
    let controller = Controller::with_limits(limits);
    let server = controller.spawn().await.expect("a port");
    let proxy = Proxy::connect(server.addr()).await;
    let web = controller.destination(WEB);
    let mut stream = proxy.get(WEB).await.expect("a stream");
    assert_eq!(told(&mut stream).await, ["gone"]);
    // No yield in between, so that the server's task cannot send any of the messages.
    let sent = (0..5).filter(|_| web.send(Update::default()) == 1).count();
    assert_eq!(sent, 3);
    assert_eq!(web.open_streams(), 0);
    let status = soon(stream.message()).await.expect_err("dropped");
    assert_eq!(status.code(), Code::ResourceExhausted);
}

#[tokio::test]
async fn too_many_streams_are_refused() {
    let limits = ControllerLimits {
        streams: 1,
        ..ControllerLimits::default()
    };
    let controller = Controller::with_limits(limits);
    let server = controller.spawn().await.expect("a port");
    let proxy = Proxy::connect(server.addr()).await;
    let _first = proxy.get(WEB).await.expect("a stream");
    let status = proxy.get("b:80").await.expect_err("one too many");
    assert_eq!(status.code(), Code::ResourceExhausted);
}

#[tokio::test]
async fn lookups_fail_once_or_until_restored() {
    let (controller, _server, proxy) = start().await;
    let web = controller.destination(WEB);
    web.add([addr(1)]).fail_next(Status::unavailable("once"));
    let status = proxy.get(WEB).await.expect_err("a failure");
    assert_eq!(
        (status.code(), status.message()),
        (Code::Unavailable, "once")
    );
    let mut stream = proxy.get(WEB).await.expect("a stream");
    assert_eq!(told(&mut stream).await, ["+1"]);

    controller.any_destination().fail(Status::internal("all"));
    for target in [WEB, "other:80"] {
        let status = proxy.get(target).await.expect_err("a failure");
        assert_eq!(status.code(), Code::Internal);
    }
    controller.any_destination().restore();
    assert!(proxy.get(WEB).await.is_ok());
}

#[tokio::test]
async fn silence_holds_back_what_changes() {
    let (controller, _server, proxy) = start().await;
    let web = controller.destination(WEB);
    web.add([addr(1)]);
    let mut before = proxy.get(WEB).await.expect("a stream");
    assert_eq!(told(&mut before).await, ["+1"]);

    web.silent().add([addr(2)]);
    let mut during = proxy.get(WEB).await.expect("a stream");
    nothing(&web, &mut before).await;
    assert_eq!(told(&mut during).await, ["nothing"]);
    web.restore();
    assert_eq!(told(&mut before).await, ["+2"]);
    assert_eq!(told(&mut during).await, ["+1", "+2"]);
}

#[tokio::test]
async fn a_delay_keeps_the_lookup_waiting() {
    let (controller, _server, proxy) = start().await;
    let web = controller.destination(WEB);
    web.add([addr(1)]).delay(Duration::from_millis(100));
    let asked = tokio::time::Instant::now();
    let mut stream = proxy.get(WEB).await.expect("a stream");
    assert!(asked.elapsed() >= Duration::from_millis(100));
    assert_eq!(told(&mut stream).await, ["+1"]);
}

#[tokio::test]
async fn streams_are_dropped_cleanly_or_with_a_status() {
    let (controller, _server, proxy) = start().await;
    let web = controller.destination(WEB);
    let mut clean = proxy.get(WEB).await.expect("a stream");
    assert_eq!(told(&mut clean).await, ["gone"]);
    assert_eq!(web.drop_streams(), 1);
    assert_eq!(web.open_streams(), 0);
    assert!(soon(clean.message()).await.expect("no status").is_none());

    let mut failed = proxy.get(WEB).await.expect("a stream");
    let mut other = proxy.get("other:80").await.expect("a stream");
    assert_eq!(told(&mut failed).await, ["gone"]);
    assert_eq!(told(&mut other).await, ["gone"]);
    let all = controller.any_destination();
    assert_eq!(all.drop_streams_with(Status::aborted("gone")), 2);
    for stream in [&mut failed, &mut other] {
        let status = soon(stream.message()).await.expect_err("dropped");
        assert_eq!(status.code(), Code::Aborted);
    }
}

#[tokio::test]
async fn lookups_are_recorded_and_awaited() {
    let (controller, _server, proxy) = start().await;
    let missed = controller
        .expect_lookup(LookupKind::Destination, WEB, Duration::ZERO)
        .await;
    let missed = missed.expect_err("nothing asked").to_string();
    assert!(
        missed.starts_with("no destination lookup of web.ns.svc.cluster.local:80 within"),
        "{missed}"
    );

    let expected = controller.clone();
    let expected = tokio::spawn(async move {
        let first = expected
            .expect_lookup(LookupKind::Destination, WEB, SOON)
            .await;
        let second = expected
            .expect_lookup(LookupKind::Destination, WEB, SOON)
            .await;
        (first.expect("the first"), second.expect("the second"))
    });
    let first = proxy
        .get("web.ns.svc.cluster.local.:80")
        .await
        .expect("a stream");
    let _second = proxy.get(WEB).await.expect("a stream");
    let (one, two) = soon(expected).await.expect("no panic");
    assert_eq!(
        (&*one.target, &*one.context),
        ("web.ns.svc.cluster.local.:80", "context")
    );
    assert_eq!((one.sequence, one.open_streams), (0, 0));
    assert_eq!((two.sequence, two.open_streams), (1, 1));

    let _policy = proxy.watch(addr(80)).await;
    let policy = controller
        .any_policy()
        .expect_lookup(SOON)
        .await
        .expect("a lookup");
    assert_eq!(
        (&*policy.target, &*policy.context),
        ("127.0.0.1:80", "workload")
    );
    assert_eq!(controller.lookups().len(), 3);

    // The controller notices a dropped stream.
    assert_eq!(controller.open_streams(LookupKind::Destination, WEB), 2);
    drop(first);
    let web = controller.destination(WEB);
    web.expect_open_streams(1, SOON).await.expect("one left");
}
