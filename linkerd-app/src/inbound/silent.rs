//! Stage 4 of connections whose client is silent: the application may be the one that speaks first.

use super::{Inbound, application::Application, policy::PolicySnapshot};
use crate::server::relay_until_decided;
use linkerd_profiles::ServerProtocol;
use linkerd_proxy_core::{
    Error, Reason,
    metrics::Labels,
    transport::{ClientInfo, Detected, Io},
};
use tokio::time::Instant;
use tower_service::Service;

impl Inbound {
    /// Whether a client need not be waited for, as those before it were silent. One that is not let in as a connection may
    /// be with its requests, and is waited for.
    pub(super) fn expects_silence(
        &self,
        application: &Application,
        policy: &PolicySnapshot,
        client: &ClientInfo,
    ) -> bool {
        let policy = policy.policy();
        matches!(policy.protocol, ServerProtocol::Detect { .. })
            && self.silent.is_expected(&application.addr(), Instant::now())
            && policy
                .authorize_connection(client.addr, &client.tls)
                .is_ok()
    }

    /// Notes that a client of an application was silent, and says so once.
    pub(super) fn was_silent(&self, application: &Application) {
        let addr = application.addr();
        if self.silent.was_silent(&addr, Instant::now()) {
            tracing::info!(
                target.addr = %addr,
                "protocol detection timed out: clients of this port may wait for the application to speak first; to have no \
                 detection for good, list it in LINKERD2_PROXY_INBOUND_PORTS_DISABLE_PROTOCOL_DETECTION or in the annotation \
                 config.linkerd.io/opaque-ports"
            );
        }
    }

    /// Relays a connection that has no protocol, as a peer proxy says, until it is certain that this is so.
    pub(super) async fn said_opaque(
        &self,
        io: &mut Io,
        application: &Application,
    ) -> Result<(Detected, Option<Io>), Error> {
        let mut server = application.connect().call(()).await?;
        let protocol = relay_until_decided(io, &mut server).await;
        let protocol = protocol.map_err(|error| {
            let lost = Error::new(Reason::ConnectionLost);
            lost.detail(error.to_string()).source(error)
        })?;
        Ok((protocol, (protocol == Detected::Opaque).then_some(server)))
    }

    /// Waits for the first bytes of a client that may be silent, or of its application, which may be the one to speak first. A
    /// client that is late is looked at as every other one: a pause would be a way around HTTP processing otherwise.
    pub(super) async fn first_speaker(
        &self,
        io: &mut Io,
        client: &ClientInfo,
        policy: &PolicySnapshot,
        application: &Application,
    ) -> Result<(Detected, Option<Io>), Error> {
        let timeout = self.ctx.config.inbound.detect_timeout;
        let addr = application.addr();
        let detect = async |io: &mut Io| self.detect(io, client, policy, timeout).await;
        let mut server = match application.connect().call(()).await {
            Ok(server) => server,
            Err(error) => {
                // Clients of HTTP are told what failed.
                let is_http = |detected: &Detected| *detected != Detected::Opaque;
                let http = detect(io).await?.filter(is_http).ok_or(error)?;
                return Ok((http, None));
            }
        };
        let speaker = self.silent.first_speaker(&addr, io, &mut server, detect);
        let speaker = speaker.await?;
        let labels = Labels::new().with("outcome", speaker.label());
        let family = &self.ctx.families.inbound.detect_silent;
        family.get(policy.scope().server_labels(labels)).incr();
        let protocol = speaker.protocol();
        Ok((protocol, (protocol == Detected::Opaque).then_some(server)))
    }
}
