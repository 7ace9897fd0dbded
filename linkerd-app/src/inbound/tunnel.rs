//! Tunnels to the application: a CONNECT that it agreed to.
//!
//! An application that answers 200 to any method goes on to read requests from the bytes that the client takes for a tunnel. So
//! HTTP/1 in a tunnel is served as everywhere, without headers that only proxies may set; HTTP/2 ends the tunnel, and other bytes
//! are relayed, as are all bytes if the application speaks first, except the end of a request line, which ends the tunnel. Requests in a tunnel pass the policy of the port like all others.

use super::{
    application::Application, context::Context, http::forwarded::ForwardedRules, policy::Admission,
};
use crate::server::{relay_until_request, remove_claims};
use bytes::{Bytes, BytesMut};
use http::{Request, Response};
use http_body::{Body, Frame, SizeHint};
use hyper::{body::Incoming, client::conn::http1::SendRequest};
use hyper_util::rt::TokioIo;
use linkerd_proxy_core::{
    BoxError, Error, drain,
    http::{
        Busy, Connection, HttpRequest, RequestBody, RequestContext, ResponseBody, Upgrade, Upload,
        decline_upgrade, prepare_request, prepare_response, serve_http1,
    },
    limits,
    task::spawn_local,
    transport::{
        ClientInfo, Detected, FirstServerBytes, Io, Lookalikes, RequestScan, TransportStream,
        detect_until_drain,
    },
};
use std::{
    cell::RefCell,
    future::poll_fn,
    pin::Pin,
    rc::Rc,
    task::{Context as TaskContext, Poll},
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Boxed: a separate type leaves the client code for `RequestBody` to the pools alone, where it is inlined.
type BoxedBody = Box<RequestBody>;

/// The body of a response in a tunnel: the connection is busy until the body is dropped.
struct BusyBody {
    incoming: Incoming,
    _busy: Busy,
}

impl Body for BusyBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut TaskContext<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        Pin::new(&mut self.incoming).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.size_hint()
    }
}

/// Joins both sides when the application agrees, until `revoked`. Fails like [`Upgrade::agreed`].
pub fn join(
    ctx: &Rc<Context>,
    application: &Rc<Application>,
    (client, upgrade): (&Rc<ClientInfo>, Upgrade),
    response: &mut Response<ResponseBody>,
    revoked: impl Future<Output = Error> + 'static,
) -> Result<(), Error> {
    let Some(upgraded) = upgrade.agreed(response)? else {
        return Ok(());
    };
    let (ctx, policy) = (ctx.clone(), application.policy());
    let series = policy.present().peer(&client.tls).connections();
    let tunnel = Tunnel {
        admission: RefCell::new(Admission::new(policy.clone(), client.clone())),
        forwarded: ForwardedRules::new(ctx.config.inbound.forwarded_header, client),
        client: client.clone(),
    };
    let (guard, drain) = (
        client.listener.connection(),
        client.listener.drain().watch(),
    );
    spawn_local(async move {
        let (client, server) = match upgraded.await {
            Ok(both) => both,
            Err(error) => return tracing::debug!(%error, "tunnel was not opened"),
        };
        guard.resets(&client);
        let tunnelled = tunnelled(&ctx, tunnel, Io::new(client, series), server, drain);
        let tunnelled = async {
            tokio::select! {
                () = tunnelled => Ok(()),
                error = revoked => Err(error),
            }
        };
        if let Err(error) = guard.until_cut_off(tunnelled).await.flatten() {
            tracing::debug!(reason = error.reason().label(), %error, "tunnel ended");
        }
    });
    Ok(())
}

/// Requests of a tunnel.
struct Tunnel {
    admission: RefCell<Admission>,
    forwarded: Option<ForwardedRules>,
    client: Rc<ClientInfo>,
}

async fn tunnelled(
    ctx: &Context,
    tunnel: Tunnel,
    mut client: Io,
    mut server: TransportStream,
    mut drain: drain::Watch,
) {
    let detected = detect_unless_server_speaks(ctx, &mut client, &mut server, &mut drain).await;
    let detected = match detected {
        Ok(detected) => detected,
        Err(error) => return tracing::debug!(%error, "tunnel ended"),
    };
    match detected {
        Some(Detected::Http1) => {
            if let Err(error) = served(ctx, tunnel, client, server, drain).await {
                tracing::debug!(%error, "tunnel ended");
            }
        }
        Some(Detected::Http2) => {
            tracing::debug!("HTTP/2 in a tunnel to the application is refused")
        }
        Some(Detected::Opaque) | None => {
            let scan = RequestScan::new(FirstServerBytes::Ignore);
            let end = relay_until_request(&mut client, &mut server, &ctx.pipes, scan).await;
            tracing::debug!(?end, "tunnel ended");
        }
    }
}

/// Waits for the first bytes of either end, without a limit: the protocol of a late client is detected, too. `None` if the
/// server's bytes came first; they were passed on.
async fn detect_unless_server_speaks(
    ctx: &Context,
    client: &mut Io,
    server: &mut TransportStream,
    drain: &mut drain::Watch,
) -> Result<Option<Detected>, BoxError> {
    let (mut asked, mut said) = (BytesMut::new(), BytesMut::new());
    tokio::select! {
        biased;
        read = server.read_buf(&mut said) => {
            read?;
            client.write_all(&said).await?;
            return Ok(None);
        }
        read = client.read_buf(&mut asked) => read?,
        () = drain.signaled() => return Err("the listener is draining".into()),
    };
    client.put_back(asked.freeze());
    let timeout = ctx.config.inbound.detect_timeout;
    let (detected, read) = detect_until_drain(client, timeout, Lookalikes::Http, drain).await?;
    client.put_back(read);
    Ok(detected)
}

/// Serves requests that come through the tunnel, one after the other, over its other end.
async fn served(
    ctx: &Context,
    tunnel: Tunnel,
    client: Io,
    server: TransportStream,
    drain: drain::Watch,
) -> Result<(), BoxError> {
    let (sender, connection) = hyper::client::conn::http1::Builder::new()
        .max_buf_size(limits::HTTP1_MAX_BUFFER)
        .max_headers(limits::HTTP1_MAX_HEADERS)
        .handshake(TokioIo::new(server))
        .await?;
    spawn_local(async move {
        if let Err(error) = connection.await {
            tracing::debug!(%error, "tunnel's other end ended");
        }
    });
    let (sender, tunnel) = (Rc::new(RefCell::new(sender)), Rc::new(tunnel));
    let connection = Rc::new(Connection::default());
    let settings = ctx.server_settings(&tunnel.client);
    let served = connection.clone();
    let service = hyper::service::service_fn(move |request| {
        exchange(tunnel.clone(), sender.clone(), served.clone(), request)
    });
    serve_http1(client, service, &settings, connection, drain).await?;
    Ok(())
}

/// One request. A failure ends the tunnel.
async fn exchange(
    tunnel: Rc<Tunnel>,
    sender: Rc<RefCell<SendRequest<BoxedBody>>>,
    connection: Rc<Connection>,
    mut request: Request<Incoming>,
) -> Result<Response<BusyBody>, h2::Error> {
    let failed = |error: &dyn std::fmt::Display| {
        tracing::debug!(%error, "request in a tunnel failed");
        h2::Error::from(h2::Reason::INTERNAL_ERROR)
    };
    remove_claims(request.headers_mut());
    prepare_request(&mut request).map_err(|error| failed(&error))?;
    decline_upgrade(&mut request);
    let busy = connection.busy();
    let (head, body) = request.into_parts();
    let upload = || Upload::new(Some(connection.uploading(&head)));
    let mut body = RequestBody::new(body, head.version, upload);
    body.scrub_trailers(remove_claims);
    let context = RequestContext::arriving(Some(tunnel.client.clone()));
    let mut request = HttpRequest::new(Request::from_parts(head, body), context);
    if let Some(forwarded) = &tunnel.forwarded {
        forwarded.apply(&mut request);
    }
    let admitted = tunnel.admission.borrow_mut().admit(&mut request);
    admitted.map_err(|error| failed(&error))?;
    let (request, _) = request.into_parts();
    let request = request.map(Box::new);
    // The answer before may have ended for the client, and not yet for the connection.
    let ready = poll_fn(|cx| sender.borrow_mut().poll_ready(cx)).await;
    ready.map_err(|error| failed(&error))?;
    let sent = sender.borrow_mut().send_request(request);
    let mut response = sent.await.map_err(|error| failed(&error))?;
    prepare_response(&mut response).map_err(|error| failed(&error))?;
    Ok(response.map(|incoming| BusyBody {
        incoming,
        _busy: busy,
    }))
}
