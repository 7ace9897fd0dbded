//! Identities of clients, as labels: a mesh may have more than there is room for.

use super::label_names::{LabelNames, OTHERS};
use linkerd_proxy_core::tls::TlsStatus;
use std::cell::RefCell;
use tokio::time::Instant;

/// The identities of clients that are told apart in labels.
///
/// - **Bounds**: 1,000. A further one takes the place of one that was idle for ten minutes, or is `other`.
#[derive(Debug)]
pub struct ClientIdentities(RefCell<LabelNames>);

impl Default for ClientIdentities {
    fn default() -> Self {
        Self(RefCell::new(LabelNames::new(LIMIT)))
    }
}

impl ClientIdentities {
    /// The status of a client whose connection begins now, with the identity that labels name.
    pub fn labelled(&self, tls: &TlsStatus, now: Instant) -> TlsStatus {
        let Some(identity) = tls.identity() else {
            return tls.clone();
        };
        match &*self.0.borrow_mut().label(identity.as_str(), now) {
            OTHERS => TlsStatus::Meshed(OTHERS.parse().ok()),
            _ => tls.clone(),
        }
    }

    /// The number of identities, for `/state`.
    pub fn inspect(&self) -> serde_json::Value {
        serde_json::json!({ "identities": self.0.borrow().len(), "limit": LIMIT })
    }
}

/// The most identities that are told apart.
const LIMIT: usize = 1_000;

#[cfg(test)]
mod tests {
    use super::*;
    use linkerd_proxy_core::tls::NoTlsReason;

    #[test]
    fn a_thousand_identities_are_told_apart() {
        let (identities, now) = (ClientIdentities::default(), Instant::now());
        for number in 0..1_100 {
            let tls = TlsStatus::Meshed(Some(format!("{number}.test").parse().unwrap()));
            let labelled = identities.labelled(&tls, now);
            let other = TlsStatus::Meshed(Some("other".parse().unwrap()));
            assert_eq!(labelled, if number < LIMIT { tls } else { other });
        }
        let plain = TlsStatus::None(NoTlsReason::NoTlsFromRemote);
        assert_eq!(identities.labelled(&plain, now), plain);
        assert_eq!(identities.inspect()["identities"], LIMIT);
    }
}
