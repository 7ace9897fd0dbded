use super::*;
use crate::{
    DefaultAccess, InboundHttp, Meta, RateLimitSettings, RateLimiter,
    inbound::authorization::ClientNetwork,
};
use futures::{FutureExt, StreamExt};
use linkerd_proxy_core::subscription::{Call, Status};
use std::num::NonZeroU32;
use tokio::{
    runtime::Handle,
    sync::{mpsc, oneshot},
    time::sleep,
};
use tokio_stream::wrappers::UnboundedReceiverStream;

type Stream = UnboundedReceiverStream<Result<ServerPolicy, Status>>;
type Answer = (u16, oneshot::Sender<Result<Stream, Status>>);

/// A source whose streams are opened or refused by the test.
struct Scripted(mpsc::UnboundedSender<Answer>);

struct Calls(mpsc::UnboundedReceiver<Answer>);

impl ServerPolicySource for Scripted {
    fn server_policies(&self, port: u16) -> Call<ServerPolicy> {
        let (answer, answered) = oneshot::channel();
        self.0.send((port, answer)).ok();
        async move { Ok(answered.await.expect("the test answers")?.boxed()) }.boxed()
    }
}

impl Calls {
    async fn accept(&mut self, first: ServerPolicy) -> mpsc::UnboundedSender<ServerPolicy> {
        let (items, mut sent) = mpsc::unbounded_channel();
        let (tx, rx) = mpsc::unbounded_channel();
        let (_, answer) = self.0.recv().await.unwrap();
        items.send(first).ok();
        answer.send(Ok(UnboundedReceiverStream::new(rx))).ok();
        tokio::spawn(async move {
            while let Some(policy) = sent.recv().await {
                tx.send(Ok(policy)).ok();
            }
        });
        items
    }

    async fn refuse(&mut self, code: Code) {
        let (_, answer) = self.0.recv().await.unwrap();
        answer.send(Err(Status::new(code, "as scripted"))).ok();
    }

    fn nobody_asks(&mut self) -> bool {
        self.0.try_recv().is_err()
    }
}

const IDLE: Duration = Duration::from_secs(90);

fn start(eager: &[u16]) -> (ServerPolicies, Calls) {
    let access = DefaultAccess::Allow {
        networks: ClientNetwork::all(),
        authenticated: false,
    };
    let timeout = Duration::from_secs(10);
    let config = ServerPoliciesConfig {
        defaults: DefaultServerPolicies::new("test", access, timeout, [25].into()),
        eager_ports: eager.iter().copied().collect(),
        limits: StreamLimits::default(),
        backoff: Backoff::new(Duration::from_millis(100), Duration::from_secs(1), 0.0).unwrap(),
        idle_timeout: IDLE,
        max_entries: 2,
    };
    let (calls, asked) = mpsc::unbounded_channel();
    let policies = ServerPolicies::new(Scripted(calls), config, Handle::current());
    (policies, Calls(asked))
}

fn named(name: &str) -> ServerPolicy {
    ServerPolicy {
        meta: Arc::new(Meta::new_default(name)),
        protocol: ServerProtocol::Opaque,
        authorizations: Vec::new(),
        invalid: None,
    }
}

fn name(watch: &ServerPolicyWatch) -> String {
    watch.current().meta.name().to_owned()
}

async fn settle() {
    sleep(Duration::from_millis(1)).await;
}

#[tokio::test(start_paused = true)]
async fn a_port_has_its_default_policy_until_the_first_answer() {
    let (policies, mut calls) = start(&[]);
    let watch = policies.watch(80).unwrap();
    assert_eq!(name(&watch), "test");
    let opaque = policies.watch(25).unwrap().current();
    assert_eq!(opaque.protocol, ServerProtocol::Opaque);
    let answers = calls.accept(named("first")).await;
    settle().await;
    assert_eq!(name(&watch), "first");
    answers.send(named("second")).unwrap();
    settle().await;
    assert_eq!(name(&watch), "second");
    assert_eq!(policies.peek(80).unwrap().freshness.generation, 2);
}

#[tokio::test(start_paused = true)]
async fn eager_ports_are_watched_for_ever_and_others_while_they_are_used() {
    let (policies, mut calls) = start(&[80, 443]);
    let _eager = [
        calls.accept(named("a")).await,
        calls.accept(named("b")).await,
    ];
    let lazy = policies.watch(8080).unwrap();
    let _lazy = calls.accept(named("c")).await;
    settle().await;
    drop(lazy);
    sleep(2 * IDLE).await;
    assert_eq!(policies.ports(), [80, 443]);
    assert!(calls.nobody_asks());
    assert_eq!(name(&policies.watch(443).unwrap()), "b");
}

#[tokio::test(start_paused = true)]
async fn lazy_ports_are_bounded() {
    let (policies, _calls) = start(&[80]);
    let kept = [policies.watch(1).unwrap(), policies.watch(2).unwrap()];
    assert!(policies.watch(3).is_err());
    assert!(policies.watch(80).is_ok());
    drop(kept);
    assert!(policies.watch(3).is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_refusal_ends_the_watch_and_any_other_error_is_tried_again() {
    let (policies, mut calls) = start(&[]);
    let watch = policies.watch(80).unwrap();
    for code in [Code::Unavailable, Code::NotFound, Code::Unimplemented] {
        calls.refuse(code).await;
    }
    drop(calls.accept(named("last")).await);
    settle().await;
    calls.refuse(Code::InvalidArgument).await;
    sleep(Duration::from_secs(60)).await;
    assert!(calls.nobody_asks());
    assert_eq!(name(&watch), "last");
}

#[tokio::test(start_paused = true)]
async fn an_update_that_does_not_change_the_rate_limit_does_not_admit_another_burst() {
    let (policies, mut calls) = start(&[]);
    let watch = policies.watch(80).unwrap();
    let limited = |name: &str, per_second| ServerPolicy {
        protocol: ServerProtocol::Http1(InboundHttp {
            rate_limit: Some(Arc::new(RateLimiter::new(RateLimitSettings {
                meta: Arc::new(Meta::new_default("limit")),
                total: NonZeroU32::new(per_second),
                per_identity: None,
                overrides: Vec::new(),
            }))),
            ..InboundHttp::default()
        }),
        ..named(name)
    };
    let may_pass = |watch: &ServerPolicyWatch| {
        let policy = watch.current();
        let limiter = policy.http().unwrap().rate_limit.clone().unwrap();
        let now = tokio::time::Instant::now();
        limiter.admit(&limiter.client(None), now).is_ok()
    };
    let answers = calls.accept(limited("first", 1)).await;
    settle().await;
    assert!(may_pass(&watch));
    answers.send(limited("second", 1)).unwrap();
    settle().await;
    assert_eq!((name(&watch).as_str(), may_pass(&watch)), ("second", false));
    answers.send(limited("third", 2)).unwrap();
    settle().await;
    assert!(may_pass(&watch));
}
