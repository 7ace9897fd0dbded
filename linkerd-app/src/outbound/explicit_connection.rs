//! Stage 3 of connections that were not redirected: their requests name their targets.

use super::{connection::Outbound, http::serve_named, ingress::ByOverride, not_http::not_http};
use crate::{
    metrics::{client_tls_labels, target_labels},
    server::detect,
};
use ::http::Version;
use linkerd_proxy_core::{
    Error, Reason,
    http::refuse,
    metrics::Labels,
    transport::{ClientInfo, Detected, Io, Lookalikes, TransportStream},
};
use std::rc::Rc;
use tokio::time::Instant;

impl Outbound {
    /// A connection that was not redirected: its requests name their targets.
    pub(super) async fn explicit(self: &Rc<Self>, stream: TransportStream, client: Rc<ClientInfo>) {
        let labels = Labels::new()
            .with("direction", "outbound")
            .with("peer", "src");
        let local = client.local;
        let labels = client_tls_labels(target_labels(labels, local), &client.tls);
        let mut io = Io::new(stream, self.ctx.families.transport.series(labels));
        let drain = &mut client.listener.drain().watch();
        // Nothing but HTTP is spoken here: a broken request line gets an answer.
        let settings = self.detect_settings(Lookalikes::Http);
        let detected = match detect(&mut io, settings, drain, |_, _| {}).await {
            Ok(detected) => detected,
            Err(error) => return self.failed(&client, local, &error),
        };
        let version = match detected {
            Some(Detected::Http1) => Version::HTTP_11,
            Some(Detected::Http2) => Version::HTTP_2,
            Some(Detected::Opaque) => {
                let error = match io.has_ended() {
                    true => Error::new(Reason::MalformedRequest)
                        .detail("the client ended its side without a whole request line"),
                    false => not_http(io.prefix()),
                };
                self.report_not_http(&client, &error);
                let responder = self.refusals(true).unless_head(io.prefix());
                refuse(&mut io, Some(responder), &error).await;
                return self.failed(&client, local, &error);
            }
            None => {
                let error = Error::new(Reason::NotHttp).detail("the client has sent no request");
                return self.failed(&client, local, &error);
            }
        };
        if self.ctx.config.outbound.ingress_mode {
            let by_override = ByOverride::new(&self.ctx, &self.targets, version, None);
            let served =
                serve_named(&self.ctx, io, client.clone(), version, true, by_override).await;
            return self.served(&client, &local.into(), served);
        }
        let by_authority = self.by_authority(&client, version);
        let served = serve_named(&self.ctx, io, client.clone(), version, true, by_authority).await;
        self.served(&client, &local.into(), served);
    }

    /// Logs a client of the explicit proxy that does not speak HTTP, once an interval: such a client usually tries again.
    fn report_not_http(&self, client: &ClientInfo, error: &Error) {
        let taken = self.not_http.borrow_mut().take(Instant::now());
        if let Some(unreported) = taken {
            let (client, hint) = (client.addr, error.hint());
            tracing::warn!(%client, %error, hint, unreported, "A connection to the explicit proxy is not HTTP");
        }
    }
}
