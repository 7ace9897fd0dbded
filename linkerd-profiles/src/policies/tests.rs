use super::*;
use crate::{
    Backend, ClientPolicy, Dispatcher, Distribution, Meta, PeakEwma, Profile, ProfileUpdate,
    Protocol, RouteRule, RouteTable, discovered::ProtocolKind,
};
use futures::{FutureExt, StreamExt};
use linkerd_proxy_core::subscription::Call;
use std::collections::HashMap;
use tokio::{
    runtime::Handle,
    sync::{mpsc, oneshot},
    time::{Instant, sleep},
};
use tokio_stream::wrappers::UnboundedReceiverStream;

type Stream<T> = UnboundedReceiverStream<Result<T, Status>>;
type Answer<T> = oneshot::Sender<Result<Stream<T>, Status>>;

/// Sources whose streams are opened or refused by the test.
struct Scripted<T>(mpsc::UnboundedSender<Answer<T>>);

struct Calls<T>(mpsc::UnboundedReceiver<Answer<T>>);

impl PolicySource for Scripted<ClientPolicy> {
    fn policies(&self, _: &Target) -> Call<ClientPolicy> {
        call(&self.0)
    }
}

impl ProfileSource for Scripted<ProfileUpdate> {
    fn profiles(&self, _: &Target) -> Call<ProfileUpdate> {
        call(&self.0)
    }
}

fn call<T: Send + 'static>(calls: &mpsc::UnboundedSender<Answer<T>>) -> Call<T> {
    let (answer, answered) = oneshot::channel();
    calls.send(answer).ok();
    async move { Ok(answered.await.expect("the test answers")?.boxed()) }.boxed()
}

impl<T> Calls<T> {
    async fn accept(&mut self, first: T) -> mpsc::UnboundedSender<Result<T, Status>> {
        let (items, rx) = mpsc::unbounded_channel();
        let answer = self.0.recv().await.unwrap();
        items.send(Ok(first)).ok();
        answer.send(Ok(UnboundedReceiverStream::new(rx))).ok();
        items
    }

    async fn refuse(&mut self, code: Code) {
        let answer = self.0.recv().await.unwrap();
        answer.send(Err(Status::new(code, "as scripted"))).ok();
    }

    fn nobody_asks(&mut self) -> bool {
        self.0.try_recv().is_err()
    }
}

fn config() -> PoliciesConfig {
    let backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(1), 0.0).unwrap();
    PoliciesConfig {
        profile_networks: Arc::new(|ip| ip.is_ipv4()),
        profile_names: Arc::new(|name| name.ends_with(".svc")),
        limits: StreamLimits::default(),
        policy_backoff: backoff,
        profile_backoff: backoff,
        idle_timeout: Duration::from_secs(5),
        max_entries: 10,
        detect_timeout: Duration::from_secs(10),
        forward_unknown: true,
    }
}

fn start() -> (Policies, Calls<ClientPolicy>, Calls<ProfileUpdate>) {
    let (policies, policy_calls) = mpsc::unbounded_channel();
    let (profiles, profile_calls) = mpsc::unbounded_channel();
    let (policies, profiles) = (Scripted(policies), Scripted(profiles));
    (
        Policies::new(policies, profiles, config(), Handle::current()),
        Calls(policy_calls),
        Calls(profile_calls),
    )
}

fn target(text: &str) -> Target {
    text.parse().unwrap()
}

/// A policy that balances HTTP/1 over a destination.
fn balanced(path: &str) -> ClientPolicy {
    let meta = Arc::new(Meta::new_default("web"));
    let backend = Backend {
        meta: meta.clone(),
        dispatcher: Dispatcher::Balance {
            destination: path.parse().unwrap(),
            load: PeakEwma::default(),
            breaker: None,
        },
        filter: None,
    };
    let rule = RouteRule::for_all(meta, Distribution::only(backend.into()));
    ClientPolicy {
        protocol: Protocol::Http1(Arc::new(RouteTable::new(vec![rule]))),
        ..ClientPolicy::empty()
    }
}

fn opaque_profile() -> ProfileUpdate {
    Profile {
        logical: None,
        opaque: true,
        targets: Vec::new(),
        endpoint: None,
        routes: Vec::new(),
        retry_budget: None,
    }
    .into()
}

#[tokio::test(start_paused = true)]
async fn both_answers_are_joined() {
    let (policies, mut policy, mut profile) = start();
    let mut watch = policies.discover(target("10.0.0.1:80")).unwrap();
    let mut again = policies.discover(target("10.0.0.1:80")).unwrap();
    let stream = policy.accept(balanced("web:80")).await;
    let _profiles = profile.accept(opaque_profile()).await;
    let discovered = watch.ready().await.unwrap();
    assert_eq!(discovered.protocol(), ProtocolKind::Opaque);
    assert!(Arc::ptr_eq(&discovered, &again.ready().await.unwrap()));
    assert!(policy.nobody_asks(), "single flight");

    stream.send(Ok(balanced("api:80"))).unwrap();
    let DiscoveryState::Ready(updated) = watch.changed().await else {
        panic!("must be ready");
    };
    assert_ne!(updated.policy, discovered.policy);
    stream.send(Ok(balanced("api:80"))).unwrap();
    sleep(Duration::from_millis(1)).await;
    assert!(!watch.receiver().has_changed().unwrap());
}

#[tokio::test(start_paused = true)]
async fn only_some_targets_have_profiles() {
    let (policies, mut policy, mut profile) = start();
    for text in ["[fd00::1]:80", "example.com:80"] {
        let mut watch = policies.discover(target(text)).unwrap();
        let _stream = policy.accept(balanced("web:80")).await;
        assert_eq!(watch.ready().await.unwrap().profile, None);
        assert!(profile.nobody_asks(), "{text}");
    }
    let _watch = policies.discover(target("web.default.svc:80")).unwrap();
    profile.refuse(Code::NotFound).await;
}

#[tokio::test(start_paused = true)]
async fn a_late_profile_is_applied_when_it_comes() {
    let (policies, mut policy, mut profile) = start();
    let mut watch = policies.discover(target("10.0.0.1:80")).unwrap();
    let _stream = policy.accept(balanced("web:80")).await;
    let begin = Instant::now();
    let refusing = async {
        loop {
            profile.refuse(Code::NotFound).await;
        }
    };
    let discovered = tokio::select! {
        discovered = watch.ready() => discovered.unwrap(),
        () = refusing => unreachable!(),
    };
    assert_eq!(begin.elapsed(), Duration::from_secs(3));
    assert_eq!(discovered.profile, None);
    let _profiles = profile.accept(opaque_profile()).await;
    let DiscoveryState::Ready(discovered) = watch.changed().await else {
        panic!("must be ready");
    };
    assert_eq!(discovered.protocol(), ProtocolKind::Opaque);
}

#[tokio::test(start_paused = true)]
async fn a_refused_profile_is_none() {
    let (policies, mut policy, mut profile) = start();
    let mut watch = policies.discover(target("10.0.0.1:80")).unwrap();
    profile.refuse(Code::InvalidArgument).await;
    let _stream = policy.accept(balanced("web:80")).await;
    let begin = Instant::now();
    assert_eq!(watch.ready().await.unwrap().profile, None);
    assert_eq!(begin.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn without_a_policy_traffic_is_forwarded_or_refused() {
    let (policies, mut policy, mut profile) = start();
    let mut watch = policies.discover(target("10.0.0.1:80")).unwrap();
    profile.refuse(Code::InvalidArgument).await;
    policy.refuse(Code::Unavailable).await;
    policy.refuse(Code::NotFound).await;
    let discovered = watch.ready().await.unwrap();
    assert_eq!(discovered.policy.parent.to_string(), "default.fallback");

    let mut watch = policies.discover(target("10.0.0.2:80")).unwrap();
    profile.refuse(Code::InvalidArgument).await;
    policy.refuse(Code::FailedPrecondition).await;
    let error = watch.ready().await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "the policy of 10.0.0.2:80 cannot be discovered: FailedPrecondition: as scripted"
    );
    let shown = policies.inspect();
    let by_target: HashMap<_, _> = shown["targets"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| (entry["target"].as_str().unwrap(), &entry["state"]))
        .collect();
    assert_eq!(by_target["10.0.0.1:80"], "ready");
    assert_eq!(by_target["10.0.0.2:80"], "failed");
}

#[tokio::test(start_paused = true)]
async fn what_was_refused_is_asked_for_again_while_it_is_wanted() {
    let (policies, mut policy, mut profile) = start();
    let mut watch = policies.discover(target("10.0.0.1:80")).unwrap();
    profile.refuse(Code::InvalidArgument).await;
    policy.refuse(Code::FailedPrecondition).await;
    watch.ready().await.unwrap_err();
    let _insists = policies.discover(target("10.0.0.1:80")).unwrap();
    assert!(policy.nobody_asks(), "the refusal stands for a while");

    sleep(REFUSAL_STANDS).await;
    let mut watch = policies.discover(target("10.0.0.1:80")).unwrap();
    profile.refuse(Code::InvalidArgument).await;
    let _stream = policy.accept(balanced("web:80")).await;
    watch.ready().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn known_targets_outlive_the_control_plane() {
    let (policies, mut policy, mut profile) = start();
    let mut watch = policies.discover(target("10.0.0.1:80")).unwrap();
    let stream = policy.accept(balanced("web:80")).await;
    let _profiles = profile.accept(opaque_profile()).await;
    watch.ready().await.unwrap();
    drop((stream, watch));
    let away = Instant::now() + Duration::from_secs(1800);
    while Instant::now() < away {
        policy.refuse(Code::Unavailable).await;
    }
    let watch = policies.discover(target("10.0.0.1:80")).unwrap();
    assert!(
        matches!(watch.current(), DiscoveryState::Ready(_)),
        "known at once"
    );
    drop(watch);
    let _stream = policy.accept(balanced("web:80")).await;
    sleep(Duration::from_secs(6)).await;
    assert_eq!(policies.inspect()["size"], 0);
}
