//! Stage 4 of connections whose client is silent: the application may speak first.

use super::{Inbound, application::Application, policy::PolicySnapshot};
use linkerd_profiles::ServerProtocol;
use linkerd_proxy_core::{
    Error,
    metrics::Labels,
    transport::{ClientInfo, Detected, Io},
};
use std::time::Duration;
use tokio::time::Instant;
use tower_service::Service;

impl Inbound {
    /// Whether not to wait for a client, as earlier clients were silent. A client that is not let in as a connection is waited
    /// for: its requests may be let in.
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

    /// Notes that a client of an application was silent, and logs the first.
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

    /// Waits for the first bytes of a client that may be silent, or of its application. The protocol of a late client is detected
    /// as that of any other: otherwise a pause would bypass HTTP processing.
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
                // An HTTP client gets the error as a response; any other has nothing to wait for.
                let is_http = |detected: &Detected| *detected != Detected::Opaque;
                let wait = timeout.min(HTTP_WAIT);
                let http = self.detect(io, client, policy, wait).await?;
                let http = http.filter(is_http).ok_or(error)?;
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

/// Time for an HTTP request of a client whose application refuses connections. Without a proxy the client would be refused at once.
const HTTP_WAIT: Duration = Duration::from_secs(1);
