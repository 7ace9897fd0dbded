//! Admission of connections that are not HTTP.

use super::{
    PortPolicy,
    snapshot::{PolicySnapshot, denial_cause},
};
use crate::metrics::{client_tls_labels, inbound_meta_labels};
use http::Request;
use linkerd_profiles::{Denial, ServerPolicy};
use linkerd_proxy_core::{
    Error, Reason,
    metrics::{Counter, Labels},
    tls::TlsStatus,
    transport::ClientInfo,
};
use std::net::SocketAddr;

/// The admission of a connection.
pub struct ConnectionPermit(Counter);

impl PortPolicy {
    /// Whether a connection is let in. Fails as `Unauthorized`.
    ///
    /// **Metrics**: `inbound_tcp_authz_deny_total`.
    pub fn admit(&self, client: SocketAddr, tls: &TlsStatus) -> Result<ConnectionPermit, Error> {
        let snapshot = self.present();
        let families = &snapshot.scope().ctx.families.inbound;
        match snapshot.policy().authorize_connection(client, tls) {
            Ok(authorization) => {
                if authorization.is_audit() {
                    snapshot.log_audit(client, tls, None, &authorization.meta);
                }
                let labels = snapshot.scope().target_labels(Labels::new());
                let labels = inbound_meta_labels(labels, "authz", &authorization.meta);
                let labels = client_tls_labels(labels, tls);
                Ok(ConnectionPermit(families.tcp_allow.get(labels)))
            }
            Err(denial) => {
                families.tcp_deny.get(denial_labels(&snapshot, tls)).incr();
                Err(refused(&snapshot, &denial, "Connection denied"))
            }
        }
    }

    /// Waits for a change of the policy that does not let the connection in any more.
    ///
    /// **Metrics**: `inbound_tcp_authz_terminate_total`.
    pub fn revoked<'a>(
        &'a self,
        client: SocketAddr,
        tls: &'a TlsStatus,
    ) -> impl Future<Output = Error> + 'a {
        let is_let_in =
            move |policy: &ServerPolicy| policy.authorize_connection(client, tls).map(drop);
        self.denied(tls, is_let_in)
    }

    /// Waits for a change of the policy that does not let in any more the request which became this connection.
    ///
    /// **Metrics**: `inbound_tcp_authz_terminate_total`.
    pub fn upgrade_revoked<'a>(
        &'a self,
        request: &'a Request<()>,
        client: &'a ClientInfo,
    ) -> impl Future<Output = Error> + 'a {
        let (addr, tls) = (client.addr, &client.tls);
        self.denied(tls, move |policy| {
            let Some(http) = policy.http() else {
                return policy.authorize_connection(addr, tls).map(drop);
            };
            // A removed route denies nothing.
            let route = http.routes.find(request);
            route.map_or(Ok(()), |route| {
                policy.authorize_request(route.index, addr, tls).map(drop)
            })
        })
    }

    /// Waits for a change of the policy that denies.
    fn denied<'a>(
        &'a self,
        tls: &'a TlsStatus,
        is_let_in: impl Fn(&ServerPolicy) -> Result<(), Denial> + 'a,
    ) -> impl Future<Output = Error> + 'a {
        // Subscribed here, so that changes before the first poll count as well.
        let mut updates = self.updates();
        async move {
            loop {
                if updates.changed().await.is_err() {
                    // Policies end with the process.
                    std::future::pending::<()>().await;
                }
                updates.mark_unchanged();
                let snapshot = self.present();
                if let Err(denial) = is_let_in(snapshot.policy()) {
                    let terminated = &snapshot.scope().ctx.families.inbound.tcp_terminate;
                    terminated.get(denial_labels(&snapshot, tls)).incr();
                    let message = "Connection terminated due to policy change";
                    return refused(&snapshot, &denial, message);
                }
            }
        }
    }
}

impl ConnectionPermit {
    /// Counts the connection.
    pub fn count(self) {
        self.0.incr();
    }
}

fn denial_labels(snapshot: &PolicySnapshot, tls: &TlsStatus) -> Labels {
    client_tls_labels(snapshot.scope().target_labels(Labels::new()), tls)
}

fn refused(snapshot: &PolicySnapshot, denial: &Denial, message: &'static str) -> Error {
    snapshot.report_denial(denial, message);
    let server = denial.server.kind_and_name();
    Error::new(Reason::Unauthorized)
        .peer(denial.client)
        .detail(format!("unauthorized connection on {server}"))
        .source(denial_cause(denial))
}
