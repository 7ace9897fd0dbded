//! The state of the identity API.

use crate::authority::Authority;
use crate::issued_name::ReservedNames;
use crate::tokens::TokenVerifier;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use tonic::Status;

/// The issuer of certificates, and its settings.
pub(crate) struct IdentityState {
    pub(crate) authority: Option<Arc<Authority>>,
    pub(crate) lifetime: Duration,
    pub(crate) failure: Option<Status>,
    /// Verifies tokens. `None`: any token gets any name that is not reserved.
    pub(crate) tokens: Option<Arc<TokenVerifier>>,
    pub(crate) reserved: ReservedNames,
    pub(crate) counts: CertificateCounts,
    pub(crate) refusals: RefusalLines,
}

/// Requests for certificates, by their outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CertificateCounts {
    /// Certificates issued.
    pub issued: u64,
    /// Requests whose token is missing, is not valid or is that of another workload.
    pub refused_token: u64,
    /// Requests for a name that is not issued: a wildcard, no name of a proxy, or one of the controller's own.
    pub refused_name: u64,
    /// Requests that are damaged or for another name than the proxy says.
    pub refused_request: u64,
}

/// Limits the log lines about refused requests, which clients without an identity can provoke.
#[derive(Debug, Default)]
pub(crate) struct RefusalLines {
    since: Option<Instant>,
    lines: usize,
    left_out: u64,
}

impl RefusalLines {
    /// The number of lines that were left out since the last one; `None` if there may be no line now.
    pub(crate) fn take(&mut self, now: Instant) -> Option<u64> {
        let since = *self.since.get_or_insert(now);
        if now.saturating_duration_since(since) >= SECOND {
            (self.since, self.lines) = (Some(now), 0);
        }
        if self.lines == MAX_LINES {
            self.left_out += 1;
            return None;
        }
        self.lines += 1;
        Some(std::mem::take(&mut self.left_out))
    }
}

impl Default for IdentityState {
    fn default() -> Self {
        Self {
            authority: None,
            lifetime: LIFETIME,
            failure: None,
            tokens: None,
            reserved: ReservedNames::default(),
            counts: CertificateCounts::default(),
            refusals: RefusalLines::default(),
        }
    }
}

/// The lifetime of a certificate, as in a cluster.
const LIFETIME: Duration = Duration::from_secs(24 * 3600);

/// Lines in a second: enough to show the client.
const MAX_LINES: usize = 10;

const SECOND: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_that_insists_does_not_fill_the_log() {
        let (mut limit, start) = (RefusalLines::default(), Instant::now());
        let lines = (0..100).filter_map(|_| limit.take(start));
        assert_eq!(lines.collect::<Vec<_>>(), [0; MAX_LINES]);
        assert_eq!(limit.take(start + SECOND), Some(90));
    }
}
