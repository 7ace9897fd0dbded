//! Upgrades of connections: WebSocket, CONNECT.

use crate::{
    task::spawn_local,
    transport::{ConnectionGuard, Pipes, relay},
};
use futures::future::LocalBoxFuture;
use http::{
    Method, Request, Response, StatusCode,
    header::{CONTENT_LENGTH, TRANSFER_ENCODING},
};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;

/// The client's side of an upgrade that its request asks for.
pub struct Upgrade {
    client: OnUpgrade,
    connect: bool,
}

/// Whether a request that is on its way asks for an upgrade of its connection.
///
/// The server decides by the headers; after it the presence of the client's side is enough.
pub fn wants_upgrade<B>(request: &Request<B>) -> bool {
    request.extensions().get::<OnUpgrade>().is_some()
}

/// Removes the client's side of an upgrade that is not passed on: hyper adds it for every offer, such as one of h2c.
pub fn decline_upgrade<B>(request: &mut Request<B>) {
    request.extensions_mut().remove::<OnUpgrade>();
}

impl Upgrade {
    /// Takes the client's side out of a request that may be passed on and come back.
    pub fn of<B>(request: &Request<B>) -> Option<Self> {
        Some(Self {
            client: request.extensions().get::<OnUpgrade>()?.clone(),
            connect: request.method() == Method::CONNECT,
        })
    }

    /// Joins both sides when the endpoint agrees. The relay holds `guard` for the client's connection, and is not cut
    /// off by drain.
    pub fn join<B>(self, response: &mut Response<B>, guard: Option<ConnectionGuard>) {
        let Some(upgraded) = self.agreed(response) else {
            return;
        };
        spawn_local(async move {
            let _guard = guard;
            let (client, server) = match upgraded.await {
                Ok(both) => both,
                Err(error) => {
                    tracing::debug!(%error, "upgrade failed");
                    return;
                }
            };
            let (mut client, mut server) = (TokioIo::new(client), TokioIo::new(server));
            let relayed = relay(&mut client, &mut server, &Pipes::none()).await;
            tracing::debug!(?relayed, "upgraded connection ended");
        });
    }

    /// Both sides, as soon as the response has been sent, if it agrees.
    pub fn agreed<B>(
        self,
        response: &mut Response<B>,
    ) -> Option<LocalBoxFuture<'static, hyper::Result<(Upgraded, Upgraded)>>> {
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
        Some(Box::pin(
            async move { tokio::try_join!(self.client, server) },
        ))
    }
}
