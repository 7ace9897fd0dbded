//! Upgrades of connections: WebSocket, CONNECT.

use super::client;
use crate::{
    Error,
    task::spawn_local,
    transport::{ConnectionGuard, Io, Pipes, TransportStream, relay},
};
use bytes::Bytes;
use futures::future::LocalBoxFuture;
use http::{
    Method, Request, Response, StatusCode,
    header::{CONTENT_LENGTH, TRANSFER_ENCODING},
};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use std::rc::Rc;

/// The client's side of an upgrade that its request asks for.
pub struct Upgrade {
    client: OnUpgrade,
    connect: bool,
}

/// Whether a request that is on its way asks for an upgrade of its connection.
///
/// The server decides by the headers; later stages only check for the client's side.
pub fn wants_upgrade<B>(request: &Request<B>) -> bool {
    request.extensions().get::<OnUpgrade>().is_some()
}

/// Removes the client's side of an upgrade that is not passed on: hyper adds it for every offer, such as an offer of h2c.
pub fn decline_upgrade<B>(request: &mut Request<B>) {
    request.extensions_mut().remove::<OnUpgrade>();
}

impl Upgrade {
    /// Takes the client's side out of a request. The request stays usable, as it may be passed on and returned.
    pub fn of<B>(request: &Request<B>) -> Option<Self> {
        Some(Self {
            client: request.extensions().get::<OnUpgrade>()?.clone(),
            connect: request.method() == Method::CONNECT,
        })
    }

    /// Joins both sides when the endpoint accepts the upgrade, until `revoked`. The relay holds `guard` for the client's
    /// connection: a drain waits for the relay, until the listener cuts off its connections.
    pub fn join<B>(
        self,
        response: &mut Response<B>,
        pipes: &Rc<Pipes>,
        guard: Option<ConnectionGuard>,
        revoked: impl Future<Output = Error> + 'static,
    ) {
        let Some(upgraded) = self.agreed(response) else {
            return;
        };
        let pipes = pipes.clone();
        spawn_local(async move {
            let (mut client, mut server) = match upgraded.await {
                Ok(both) => both,
                Err(error) => {
                    tracing::debug!(%error, "upgrade failed");
                    return;
                }
            };
            if let Some(guard) = &guard {
                guard.resets(&client);
            }
            let relayed = async {
                tokio::select! {
                    relayed = relay(&mut client, &mut server, &pipes) => Ok(relayed),
                    error = revoked => Err(error),
                }
            };
            let relayed = match guard {
                Some(guard) => guard.until_cut_off(relayed).await.flatten(),
                None => relayed.await,
            };
            match relayed {
                Ok(relayed) => tracing::debug!(?relayed, "upgraded connection ended"),
                Err(error) => {
                    let reason = error.reason().label();
                    tracing::debug!(reason, %error, "upgraded connection ended");
                }
            }
        });
    }

    /// Both sides, as soon as the response has been sent; `None` if the endpoint does not accept the upgrade.
    pub fn agreed<B>(
        self,
        response: &mut Response<B>,
    ) -> Option<LocalBoxFuture<'static, hyper::Result<Joined>>> {
        let agreed = match self.connect {
            true => response.status().is_success(),
            false => response.status() == StatusCode::SWITCHING_PROTOCOLS,
        };
        if !agreed {
            return None;
        }
        if self.connect {
            response.headers_mut().remove(CONTENT_LENGTH);
            response.headers_mut().remove(TRANSFER_ENCODING);
        }
        let server = hyper::upgrade::on(response);
        let joined = async move { tokio::try_join!(upgraded(self.client), upgraded(server)) };
        Some(Box::pin(joined))
    }
}

/// The streams of the client and of the endpoint.
type Joined = (TransportStream, TransportStream);

/// One side of an upgrade, once the response has been sent.
pub async fn upgraded(side: OnUpgrade) -> hyper::Result<TransportStream> {
    side.await.map(transport_stream)
}

/// The connection beneath hyper's upgrade, with the bytes that hyper has read ahead put back; or else hyper's own stream.
fn transport_stream(upgraded: Upgraded) -> TransportStream {
    let upgraded = match upgraded.downcast::<TokioIo<Io>>() {
        Ok(parts) => return upgraded_stream(parts.io.into_inner(), parts.read_buf),
        Err(other) => other,
    };
    match client::upgraded_io(upgraded) {
        Ok((io, read_ahead)) => upgraded_stream(io, read_ahead),
        Err(tunnel) => TransportStream::other(TokioIo::new(tunnel)),
    }
}

fn upgraded_stream(mut io: Io, read_ahead: Bytes) -> TransportStream {
    // No codec uses the connection any more.
    io.unwatch();
    if !read_ahead.is_empty() {
        io.put_back(read_ahead);
    }
    TransportStream::other(io)
}

#[cfg(test)]
mod tests;
