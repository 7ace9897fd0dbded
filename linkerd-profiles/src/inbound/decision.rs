//! The decision about the admission of a client, and the explanation of a denial.

use super::{authorization::Authorization, unmet_condition::UnmetCondition};
use crate::meta::Meta;
use linkerd_proxy_core::tls::TlsStatus;
use std::{
    fmt,
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

/// A client that no authorization admits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denial {
    /// The client's address.
    pub client: SocketAddr,
    /// The client's identity, or the reason why there is none.
    pub tls: TlsStatus,
    /// The server that it connected to.
    pub server: Arc<Meta>,
    /// The route of its request, if one was found.
    pub route: Option<Arc<Meta>>,
    /// The authorization with the most conditions met. `None`: there is no authorization.
    pub nearest: Option<NearestAuthorization>,
}

/// The authorization of which a client meets the most conditions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NearestAuthorization {
    /// The resource of the authorization.
    pub meta: Arc<Meta>,
    /// The first condition that the client does not meet.
    pub unmet: UnmetCondition,
}

/// The first authorization that admits a client; otherwise the one with the most conditions met, if there is any.
pub(super) fn authorize<'a>(
    authorizations: impl Iterator<Item = &'a Authorization>,
    client: IpAddr,
    tls: &TlsStatus,
) -> Result<&'a Authorization, Option<NearestAuthorization>> {
    let mut nearest: Option<(&Authorization, UnmetCondition)> = None;
    for authorization in authorizations {
        let Some(unmet) = authorization.unmet(client, tls) else {
            return Ok(authorization);
        };
        if nearest.is_none_or(|(_, before)| unmet > before) {
            nearest = Some((authorization, unmet));
        }
    }
    Err(nearest.map(|(authorization, unmet)| NearestAuthorization {
        meta: authorization.meta.clone(),
        unmet,
    }))
}

impl fmt::Display for NearestAuthorization {
    /// Text such as `authorizationpolicy/web (no identity)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.meta.kind_and_name(), self.unmet)
    }
}

#[cfg(test)]
mod tests;
