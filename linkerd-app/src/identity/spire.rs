//! X.509 SVIDs of SPIRE's workload API, as long as the proxy runs.
//!
//! - **Waits for** the first answer of a stream, 30 s at most; between two tries, the backoff.
//! - **Bounds**: one stream; the last SVID stays until it has expired.

use super::credentials::{CredentialsParts, ProxyCredentials};
use crate::metrics::IdentityFamilies;
use futures::{StreamExt, stream::BoxStream};
use linkerd_proxy_core::{
    Backoff,
    readiness::PendingCondition,
    subscription::{Code, Status},
    task::spawn_local,
    tls::{InvalidCredentials, InvalidSvid, SvidSource, X509Svid},
};
use rand::{SeedableRng, rngs::SmallRng};
use std::{fmt, path::PathBuf, rc::Rc, time::Duration};
use tokio::time::{sleep, timeout};

/// Follows the SVIDs of this proxy.
#[derive(Debug)]
pub struct SvidSubscriber {
    /// The credentials that it renews.
    pub(super) credentials: CredentialsParts,
    /// The socket of the workload API.
    pub(super) socket: PathBuf,
    /// Pauses between two streams.
    pub(super) backoff: Backoff,
}

/// The task of an [`SvidSubscriber`].
struct Subscription<S> {
    credentials: Rc<ProxyCredentials>,
    socket: PathBuf,
    backoff: Backoff,
    source: S,
}

/// A failure of the workload API, with its socket and a hint.
#[derive(Debug, thiserror::Error)]
#[error("the workload API at {}: {problem}", .socket.display())]
struct WorkloadApiFailure {
    socket: PathBuf,
    problem: SvidProblem,
}

/// The reason why there is no new SVID.
#[derive(Debug)]
enum SvidProblem {
    /// The call failed, or its stream.
    Failed(Status),
    /// The stream has ended.
    Ended,
    /// There was no answer in time.
    Unanswered,
    /// The answer is malformed, or for other workloads.
    Invalid(InvalidSvid),
    /// The SVID is not valid for this proxy at this time.
    Refused(InvalidCredentials),
}

/// The end of a stream.
struct StreamEnd {
    problem: SvidProblem,
    /// Whether an SVID came before.
    was_useful: bool,
}

impl SvidSubscriber {
    /// Follows the SVIDs of `source` for as long as the thread runs. `pending` is met by the first one.
    pub fn start(
        self,
        source: impl SvidSource + 'static,
        families: IdentityFamilies,
        pending: PendingCondition,
    ) -> Rc<ProxyCredentials> {
        let credentials = ProxyCredentials::start(self.credentials, families, pending);
        let subscription = Subscription {
            credentials: credentials.clone(),
            socket: self.socket,
            backoff: self.backoff,
            source,
        };
        spawn_local(async move { subscription.run().await });
        credentials
    }

    /// The socket of the workload API.
    pub fn socket(&self) -> PathBuf {
        self.socket.clone()
    }
}

impl<S: SvidSource> Subscription<S> {
    async fn run(self) {
        let mut rng = SmallRng::from_rng(&mut rand::rng());
        let mut tries = 0;
        loop {
            let end = self.follow().await;
            let is_final = end.problem.is_final();
            self.failed(end.problem);
            if is_final {
                return;
            }
            if end.was_useful {
                tries = 0;
            }
            sleep(self.backoff.delay(tries, &mut rng)).await;
            tries += 1;
        }
    }

    /// Opens a stream, and takes its SVIDs until it ends.
    async fn follow(&self) -> StreamEnd {
        let mut was_useful = false;
        let end = |problem, was_useful| StreamEnd {
            problem,
            was_useful,
        };
        let (first, mut stream) = match timeout(FIRST_ANSWER, self.open()).await {
            Ok(Ok(opened)) => opened,
            Ok(Err(problem)) => return end(problem, was_useful),
            Err(_) => return end(SvidProblem::Unanswered, was_useful),
        };
        let mut answer = Some(Ok(first));
        loop {
            match answer {
                Some(Ok(svids)) => match self.replace(&svids) {
                    Ok(()) => was_useful = true,
                    Err(problem) => self.failed(problem),
                },
                Some(Err(status)) => return end(SvidProblem::Failed(status), was_useful),
                None => return end(SvidProblem::Ended, was_useful),
            }
            answer = stream.next().await;
        }
    }

    /// Opens a stream, and waits for its first answer.
    async fn open(
        &self,
    ) -> Result<
        (
            Vec<X509Svid>,
            BoxStream<'static, Result<Vec<X509Svid>, Status>>,
        ),
        SvidProblem,
    > {
        let opened = self.source.svids().await;
        let mut stream = opened.map_err(SvidProblem::Failed)?;
        let first = stream.next().await.ok_or(SvidProblem::Ended)?;
        Ok((first.map_err(SvidProblem::Failed)?, stream))
    }

    /// Replaces key, certificate and trust bundle by those of an answer.
    fn replace(&self, svids: &[X509Svid]) -> Result<(), SvidProblem> {
        let identity = self.credentials.local().identity;
        let svid = X509Svid::choose(svids, &identity).map_err(SvidProblem::Invalid)?;
        let contents = svid.read().map_err(SvidProblem::Invalid)?;
        let replaced = self.credentials.replaced(contents);
        replaced.map_err(SvidProblem::Refused)
    }

    fn failed(&self, problem: SvidProblem) {
        let failure = WorkloadApiFailure {
            socket: self.socket.clone(),
            problem,
        };
        // A socket may be asked ten times a second.
        match self.credentials.has_failed_with(&failure) {
            true => self.credentials.failed_again(),
            false => self.credentials.failed(&failure),
        }
    }
}

impl SvidProblem {
    /// Whether a retry would fail, too: the specification forbids it.
    fn is_final(&self) -> bool {
        matches!(self, Self::Failed(status) if status.code == Code::InvalidArgument)
    }

    /// The next step of the operator.
    fn hint(status: &Status) -> &'static str {
        match status.code {
            Code::PermissionDenied => {
                "the agent knows no identity of this workload: register an entry with its SPIFFE ID, of which the \
                 selectors match this process"
            }
            Code::InvalidArgument => "it is not asked again until the proxy is restarted",
            Code::Unimplemented => "check that the socket is that of a SPIFFE workload API",
            Code::OutOfRange => "the bundles of the trust domains are larger than a proxy takes",
            _ => {
                "check that the agent runs, and that its socket is mounted and may be used by this process"
            }
        }
    }
}

impl fmt::Display for SvidProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(status) => write!(f, "{status}; {}", Self::hint(status)),
            Self::Ended => f.write_str("the stream has ended; another one is opened"),
            Self::Unanswered => write!(f, "no answer within {FIRST_ANSWER:?}"),
            Self::Invalid(error) => error.fmt(f),
            Self::Refused(error @ InvalidCredentials::Chain(_)) => write!(
                f,
                "{error}; the field x509_svid must lead to an authority of the field bundle"
            ),
            Self::Refused(error) => write!(f, "the field x509_svid: {error}"),
        }
    }
}

/// The time for an agent to answer: it may have to ask its server.
const FIRST_ANSWER: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests;
