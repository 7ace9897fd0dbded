//! The subscription with a source of the test.

use super::*;
use crate::{
    config::{AnchorsConfig, IdentityConfig, IssuerConfig, SpireConfig},
    identity::{CertificateRenewal, MeshIdentity, prepare},
    testing::TestMetrics,
};
use futures::FutureExt;
use linkerd_control::Authority;
use linkerd_proxy_core::{Readiness, subscription::Call, tls::LocalIdentity};
use std::{cell::RefCell, collections::VecDeque};
use tokio::{sync::mpsc, task::LocalSet, time::Instant};

const ID: &str = "spiffe://cluster.local/web";
const HOUR: Duration = Duration::from_secs(3600);

type Answer = Result<Vec<X509Svid>, Status>;

/// The result of a call.
type Opened = Result<mpsc::Receiver<Answer>, Status>;

/// A workload API with its answers, and the times of the calls.
#[derive(Clone, Default)]
struct Source {
    streams: Rc<RefCell<VecDeque<Opened>>>,
    calls: Rc<RefCell<Vec<Instant>>>,
}

impl Source {
    /// Answers the next call by a status.
    fn refuse(&self, code: Code) {
        let status = Status::new(code, "as asked");
        self.streams.borrow_mut().push_back(Err(status));
    }

    /// Answers the next call by a stream.
    fn stream(&self) -> mpsc::Sender<Answer> {
        let (answers, stream) = mpsc::channel(4);
        self.streams.borrow_mut().push_back(Ok(stream));
        answers
    }

    fn calls(&self) -> usize {
        self.calls.borrow().len()
    }
}

impl SvidSource for Source {
    fn svids(&self) -> Call<Vec<X509Svid>> {
        self.calls.borrow_mut().push(Instant::now());
        let stream = self.streams.borrow_mut().pop_front();
        let gone = || Err(Status::new(Code::Unavailable, "no agent"));
        let opened = stream.unwrap_or_else(gone).map(|receiver| {
            let messages = futures::stream::unfold(receiver, async |mut receiver| {
                let answer = receiver.recv().await?;
                Some((answer, receiver))
            });
            messages.boxed()
        });
        std::future::ready(opened).boxed()
    }
}

fn svid(authority: &Authority) -> X509Svid {
    let issued = authority.issue(ID, HOUR).unwrap();
    X509Svid {
        spiffe_id: ID.to_owned(),
        certificates: issued.certificate,
        key: issued.key,
        bundle: authority.trust_bundle(),
    }
}

fn subscriber(anchors: AnchorsConfig) -> (MeshIdentity, SvidSubscriber) {
    let ms = Duration::from_millis;
    let config = IdentityConfig {
        local: LocalIdentity {
            identity: ID.parse().unwrap(),
            server_name: "web.test".into(),
        },
        trust_anchors: anchors,
        issuer: IssuerConfig::Spire(SpireConfig {
            socket: "/run/agent.sock".into(),
            backoff: Backoff::new(ms(100), ms(1000), 0.0).unwrap(),
        }),
    };
    match prepare(&config).unwrap() {
        (mesh, CertificateRenewal::Spire(subscriber)) => (mesh, *subscriber),
        (_, other) => panic!("{other:?}"),
    }
}

/// Runs a subscription, with the anchors of `configured` if there is one.
async fn with(
    configured: Option<&Authority>,
    test: impl AsyncFnOnce(Source, Rc<ProxyCredentials>, Readiness),
) {
    let anchors = configured.map_or(AnchorsConfig::Bundle, |authority| {
        AnchorsConfig::Pem(authority.trust_anchors().to_owned())
    });
    let (_mesh, subscriber) = subscriber(anchors);
    let (readiness, source) = (Readiness::new(), Source::default());
    let pending = readiness.wait_for("an SVID");
    let families = TestMetrics::new().families.control.certificates.clone();
    LocalSet::new()
        .run_until(async {
            let credentials = subscriber.start(source.clone(), families, pending);
            test(source, credentials, readiness).await;
        })
        .await;
}

/// Lets all tasks run.
async fn pass(time: Duration) {
    tokio::time::sleep(time).await;
}

#[tokio::test(start_paused = true)]
async fn each_answer_replaces_the_certificate_and_the_bundle() {
    let (old, new) = (
        Authority::generate("a").unwrap(),
        Authority::generate("b").unwrap(),
    );
    with(None, async |source, credentials, readiness| {
        let answers = source.stream();
        let state = || credentials.inspect();
        answers.send(Ok(vec![svid(&old)])).await.unwrap();
        pass(Duration::from_millis(1)).await;
        assert!(readiness.is_ready());
        assert_eq!(
            (&state()["issued"], &state()["trust_anchors"]["number"]),
            (&1.into(), &1.into())
        );
        let both = X509Svid {
            bundle: [old.trust_bundle(), new.trust_bundle()].concat(),
            ..svid(&new)
        };
        answers.send(Ok(vec![both])).await.unwrap();
        answers.send(Ok(vec![svid(&new)])).await.unwrap();
        pass(Duration::from_millis(1)).await;
        assert_eq!(
            (&state()["issued"], &state()["trust_anchors"]["number"]),
            (&3.into(), &1.into())
        );
        assert_eq!(state()["trust_anchors"]["replaced"], 3);
        assert_eq!(source.calls(), 1);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn configured_anchors_are_trusted_beside_the_bundle() {
    let (own, mesh) = (
        Authority::generate("a").unwrap(),
        Authority::generate("b").unwrap(),
    );
    with(Some(&mesh), async |source, credentials, _| {
        let answers = source.stream();
        answers.send(Ok(vec![svid(&own)])).await.unwrap();
        pass(Duration::from_millis(1)).await;
        assert_eq!(credentials.inspect()["trust_anchors"]["number"], 2);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_malformed_answer_is_explained_and_the_last_svid_stays() {
    let authority = Authority::generate("a").unwrap();
    let other = Authority::generate("b").unwrap();
    with(None, async |source, credentials, _| {
        let answers = source.stream();
        answers.send(Ok(vec![svid(&authority)])).await.unwrap();
        let good = svid(&authority);
        for (answer, problem) in [
            (vec![], "spiffe_id: the answer has no SVID"),
            (
                vec![X509Svid {
                    key: vec![1],
                    ..good.clone()
                }],
                "x509_svid_key:",
            ),
            (
                vec![X509Svid {
                    certificates: vec![1],
                    ..good.clone()
                }],
                "x509_svid:",
            ),
            (
                vec![X509Svid {
                    bundle: other.trust_bundle(),
                    ..good.clone()
                }],
                "of the field bundle",
            ),
            (
                vec![X509Svid {
                    key: svid(&authority).key,
                    ..good.clone()
                }],
                "cannot be used",
            ),
        ] {
            answers.send(Ok(answer)).await.unwrap();
            pass(Duration::from_millis(1)).await;
            let error = credentials.inspect()["last_error"].to_string();
            assert!(
                error.contains(problem) && error.contains("/run/agent.sock"),
                "{error}"
            );
            assert_eq!(credentials.inspect()["issued"], 1);
        }
        answers.send(Ok(vec![good])).await.unwrap();
        pass(Duration::from_millis(1)).await;
        assert!(credentials.inspect()["last_error"].is_null());
        assert_eq!(
            (source.calls(), &credentials.inspect()["issued"]),
            (1, &2.into())
        );
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_lost_stream_is_opened_again_after_the_backoff() {
    let authority = Authority::generate("a").unwrap();
    with(None, async |source, credentials, _| {
        source.refuse(Code::PermissionDenied);
        source.refuse(Code::PermissionDenied);
        let first = source.stream();
        first.send(Ok(vec![svid(&authority)])).await.unwrap();
        let start = Instant::now();
        pass(Duration::from_millis(150)).await;
        let missing = credentials.unissued().unwrap();
        let parts = [
            "workload API /run/agent.sock",
            "PermissionDenied",
            "register an entry",
        ];
        assert!(parts.iter().all(|part| missing.contains(part)), "{missing}");
        pass(Duration::from_secs(1)).await;
        let times: Vec<_> = source
            .calls
            .borrow()
            .iter()
            .map(|at| (*at - start).as_millis())
            .collect();
        assert_eq!(times, [0, 100, 300]);
        assert_eq!(credentials.unissued(), None);

        let _second = source.stream();
        drop(first);
        pass(Duration::from_millis(150)).await;
        assert_eq!(source.calls(), 4, "the first pause again");
        assert_eq!(credentials.inspect()["issued"], 1);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_calls_the_request_invalid_is_not_asked_again() {
    with(None, async |source, credentials, _| {
        source.refuse(Code::InvalidArgument);
        pass(HOUR).await;
        assert_eq!(source.calls(), 1);
        let missing = credentials.unissued().unwrap();
        assert!(
            missing.contains("until the proxy is restarted"),
            "{missing}"
        );
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_does_not_answer_is_asked_again() {
    with(None, async |source, credentials, _| {
        let _silent = source.stream();
        pass(FIRST_ANSWER + Duration::from_secs(1)).await;
        assert!(source.calls() > 1);
        let error = credentials.inspect()["last_error"].to_string();
        assert!(error.contains("no agent"), "{error}");
    })
    .await;
}
