//! Upgrades of connections: WebSocket, CONNECT.

use super::{client, hop_by_hop::tokens};
use crate::{
    Error, Reason,
    task::spawn_local,
    transport::{ConnectionGuard, Io, Pipes, TransportStream, relay},
};
use bytes::Bytes;
use futures::future::LocalBoxFuture;
use http::{
    HeaderMap, HeaderValue, Method, Request, Response, StatusCode,
    header::{CONTENT_LENGTH, TRANSFER_ENCODING, UPGRADE},
};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use std::rc::Rc;

/// The client's side of an upgrade that its request asks for.
pub struct Upgrade {
    client: OnUpgrade,
    asked: Asked,
}

/// The upgrade that a request asks for.
enum Asked {
    /// A tunnel, by CONNECT.
    Tunnel,
    /// One of these protocols.
    Protocols(HeaderValue),
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
        let client = request.extensions().get::<OnUpgrade>()?.clone();
        let asked = match request.method() == Method::CONNECT {
            true => Asked::Tunnel,
            false => Asked::Protocols(request.headers().get(UPGRADE)?.clone()),
        };
        Some(Self { client, asked })
    }

    /// Joins both sides when the endpoint accepts the upgrade, until `revoked`. The relay holds `guard` for the client's
    /// connection: a drain waits for the relay, until the listener cuts off its connections. Fails like [`agreed`](Self::agreed).
    pub fn join<B>(
        self,
        response: &mut Response<B>,
        pipes: &Rc<Pipes>,
        guard: Option<ConnectionGuard>,
        revoked: impl Future<Output = Error> + 'static,
    ) -> Result<(), Error> {
        let Some(upgraded) = self.agreed(response)? else {
            return Ok(());
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
                    relayed = relay(&mut client, &mut server, &pipes, None) => Ok(relayed),
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
        Ok(())
    }

    /// Both sides, as soon as the response has been sent; `None` if the endpoint does not accept the upgrade.
    ///
    /// Fails as `InvalidResponse` if the endpoint answers a CONNECT as it would another method, or switches to another protocol
    /// than the client has offered (RFC 9110, sections 9.3.6 and 7.8): it goes on to speak HTTP that nothing checks.
    pub fn agreed<B>(
        self,
        response: &mut Response<B>,
    ) -> Result<Option<LocalBoxFuture<'static, hyper::Result<Joined>>>, Error> {
        let (status, headers) = (response.status(), response.headers_mut());
        match &self.asked {
            Asked::Tunnel if status.is_success() => check_tunnel(headers)?,
            Asked::Protocols(offered) if status == StatusCode::SWITCHING_PROTOCOLS => {
                check_protocol(offered, headers)?;
            }
            Asked::Tunnel | Asked::Protocols(_) => return Ok(None),
        }
        let server = hyper::upgrade::on(response);
        let joined = async move { tokio::try_join!(upgraded(self.client), upgraded(server)) };
        Ok(Some(Box::pin(joined)))
    }
}

/// Fails if an answer to a CONNECT has a body; an empty one is without meaning, and its length is removed.
fn check_tunnel(headers: &mut HeaderMap) -> Result<(), Error> {
    let length = headers.remove(CONTENT_LENGTH);
    let has_body = length.is_some_and(|length| length.as_bytes().trim_ascii() != b"0");
    if has_body || headers.remove(TRANSFER_ENCODING).is_some() {
        let detail = "the endpoint answered a CONNECT with a body: it has opened no tunnel";
        return Err(Error::new(Reason::InvalidResponse).detail(detail));
    }
    Ok(())
}

/// Fails if an answer switches to a protocol that was not offered.
fn check_protocol(offered: &HeaderValue, headers: &HeaderMap) -> Result<(), Error> {
    let is_offered =
        |protocol: &[u8]| tokens(offered).any(|offer| offer.eq_ignore_ascii_case(protocol));
    let mut switched = headers.get_all(UPGRADE).iter().flat_map(tokens).peekable();
    if switched.peek().is_some() && switched.all(is_offered) {
        return Ok(());
    }
    let detail = "the endpoint switched to a protocol that the client did not offer";
    Err(Error::new(Reason::InvalidResponse).detail(detail))
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
