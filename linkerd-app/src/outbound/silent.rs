//! Stage 3 of connections whose client is silent: the server may speak first.

use super::{connection::Outbound, target::TargetStack, tcp_route::RoutedConnection};
use crate::{metrics::meta_labels, server::FirstSpeaker};
use linkerd_proxy_core::{
    Error,
    metrics::Labels,
    transport::{ClientInfo, Detected, Io, Lookalikes},
};
use tokio::time::Instant;

impl Outbound {
    /// The protocol of a connection by its first bytes, and the connection to a server if one was opened meanwhile.
    pub(super) async fn detect_or_connect(
        &self,
        io: &mut Io,
        client: &ClientInfo,
        stack: &TargetStack,
    ) -> Result<(Detected, Option<RoutedConnection>), Error> {
        let target = stack.target();
        if !self.silent.is_expected(target, Instant::now()) {
            if let Some(detected) = self.detect_for(io, client, stack).await? {
                return Ok((detected, None));
            }
            if self.silent.was_silent(target, Instant::now()) {
                tracing::info!(
                    %target,
                    "protocol detection timed out: clients of this target may wait for the server to speak first; to have no \
                     detection for good, list the port in the annotation config.linkerd.io/opaque-ports of its Service"
                );
            }
        }
        // Boxed: rarely needed, and it would enlarge the future of every connection.
        Box::pin(self.silent(io, client, stack)).await
    }

    /// Connects to a server, and waits for the first bytes of either side.
    async fn silent(
        &self,
        io: &mut Io,
        client: &ClientInfo,
        stack: &TargetStack,
    ) -> Result<(Detected, Option<RoutedConnection>), Error> {
        let target = stack.target();
        let mut server = match stack.opaque(&self.ctx).connect().await {
            Ok(server) => server,
            Err(error) => {
                // HTTP requests may reach another endpoint, and are answered with the error if not.
                let detected = self.detect_for(io, client, stack).await?;
                let is_http = |detected: &Detected| *detected != Detected::Opaque;
                let http = detected.filter(is_http).ok_or(error)?;
                return Ok((http, None));
            }
        };
        let detect = async |io: &mut Io| self.detect_for(io, client, stack).await;
        let speaker = self.silent.first_speaker(target, io, server.io(), detect);
        let speaker = speaker.await?;
        self.count_silent(speaker, stack);
        let protocol = speaker.protocol();
        Ok((protocol, (protocol == Detected::Opaque).then_some(server)))
    }

    /// The protocol by the first bytes of the client; `None` if there are none.
    async fn detect_for(
        &self,
        io: &mut Io,
        client: &ClientInfo,
        stack: &TargetStack,
    ) -> Result<Option<Detected>, Error> {
        let (target, parent) = (stack.target(), &stack.discovered().policy.parent);
        let lookalikes = match self.unfinished.is_expected(target, Instant::now()) {
            true => Lookalikes::OpaqueUnlessWhole,
            false => Lookalikes::Opaque,
        };
        match self.detect(io, client, parent, lookalikes).await? {
            None if io.prefix().is_empty() => Ok(None),
            None => {
                // Bytes that begin like a request and do not go on are opaque.
                if self.unfinished.was_silent(target, Instant::now()) {
                    tracing::info!(
                        %target,
                        "protocol detection timed out: a client of this target began with what could be a request, and did not go on; \
                         to have no detection for good, list the port in the annotation config.linkerd.io/opaque-ports of its Service"
                    );
                }
                Ok(Some(Detected::Opaque))
            }
            Some(detected) => {
                if detected != Detected::Opaque {
                    self.unfinished.has_spoken(target);
                }
                Ok(Some(detected))
            }
        }
    }

    fn count_silent(&self, speaker: FirstSpeaker, stack: &TargetStack) {
        let labels = Labels::new().with("outcome", speaker.label());
        let labels = meta_labels(labels, "parent", &stack.discovered().policy.parent);
        let family = &self.ctx.families.outbound.detect_silent;
        family.get(labels).incr();
    }
}
