//! TLS routes of a policy.

use super::Dispatch;
use linkerd_api_proto::opaque_route::Forbidden;
use linkerd_api_proto::outbound::tls_route::{Filter, filter};
use linkerd_api_proto::tls_route::{SniMatch, sni_match};

/// A route of TLS connections by their server name (SNI). It uses the policy's backends unless it names its own.
///
/// ```
/// use linkerd_control::{Policy, TlsRoute};
///
/// let policy = Policy::balance("web", 443)
///     .tls_route(TlsRoute::new("admin").server_name("admin.test").to("admin", 443))
///     .tls_route(TlsRoute::new("none").server_name("*.internal.test").forbidden());
/// ```
#[derive(Clone, Debug)]
pub struct TlsRoute {
    pub(super) name: String,
    pub(super) snis: Vec<SniMatch>,
    pub(super) dispatch: Option<Dispatch>,
    pub(super) filters: Vec<Filter>,
}

impl TlsRoute {
    /// A route of all connections, in the namespace of the policy's service.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            snis: Vec::new(),
            dispatch: None,
            filters: Vec::new(),
        }
    }

    /// Adds a server name: `web.test`, or a suffix such as `*.test`.
    #[must_use]
    pub fn server_name(mut self, name: &str) -> Self {
        let sni = match name.strip_prefix("*.") {
            Some(suffix) => sni_match::Match::Suffix(sni_match::Suffix {
                reverse_labels: suffix.rsplit('.').map(str::to_owned).collect(),
            }),
            None => sni_match::Match::Exact(name.to_owned()),
        };
        self.snis.push(SniMatch { r#match: Some(sni) });
        self
    }

    /// Sends connections to a service of the policy's namespace.
    #[must_use]
    pub fn to(mut self, name: impl Into<String>, port: u16) -> Self {
        self.dispatch = Some(Dispatch::service(name, port));
        self
    }

    /// Refuses connections.
    #[must_use]
    pub fn forbidden(mut self) -> Self {
        self.filters.push(Filter {
            kind: Some(filter::Kind::Forbidden(Forbidden {})),
        });
        self
    }
}
