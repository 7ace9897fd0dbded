//! Stage 3 to 4: serving an application's HTTP connection.
//!
//! - **Sits** between the connection and the router.
//! - **Waits for** the control plane's first answer, when requests are routed by their authority.
//! - **Fails as** what comes from below, turned into a response; `InvalidRequest`, `NoAuthority`, `InFlightLimit`.
//! - **Bounds**: requests in flight.
//! - **Metrics**: `outbound_http_errors_total`, `outbound_http_failures_total`.

use super::{Outbound, target::TargetStack, tunnel};
use crate::in_flight::InFlight;
use futures::future::LocalBoxFuture;
use http::{
    Method, Request, Response, Version,
    uri::{Authority, Scheme},
};
use hyper::body::Incoming;
use linkerd_profiles::{ProtocolKind, Target};
use linkerd_proxy_core::{
    Error, Reason,
    http::{
        Busy, Connection, HttpRequest, RequestBody, RequestContext, Responder, ResponseBody,
        ServeError, ServerSettings, Upload, add_host, authority, decline_upgrade, host_and_port,
        host_from_target, prepare_request, serve_http1, serve_http2, to_origin_form,
    },
    transport::{ClientInfo, Duplex, Io},
};
use std::{
    cell::RefCell,
    pin::Pin,
    rc::Rc,
    task::{Context, Poll, ready},
};
use tower_service::Service as _;

/// How the requests of a connection find their target.
#[derive(Clone)]
pub enum Routing {
    /// All have the target of the connection.
    Target(Rc<TargetStack>),
    /// Each names its own: the proxy is used as an explicit one.
    ByAuthority,
}

/// Serves one connection; its requests share it.
struct Served {
    outbound: Rc<Outbound>,
    connection: Rc<Connection>,
    client: Rc<ClientInfo>,
    version: Version,
    routing: Routing,
    /// The target of the last request, as most connections ask for one only.
    last: RefCell<Option<(Authority, Rc<TargetStack>)>>,
}

/// A request that was sent on, a tunnel that is being opened, or neither.
enum Sent {
    Routed {
        response: RouteFuture,
        _in_flight: InFlight,
    },
    Tunnel(LocalBoxFuture<'static, Result<(), Error>>),
    Refused(Option<Error>),
}

type RouteFuture = LocalBoxFuture<'static, Result<Response<ResponseBody>, Error>>;

/// Serves HTTP until the connection ends.
pub async fn serve<I>(
    outbound: Rc<Outbound>,
    io: Io<I>,
    client: Rc<ClientInfo>,
    version: Version,
    routing: Routing,
) -> Result<(), ServeError>
where
    I: Duplex + Send + 'static,
{
    let ctx = &outbound.ctx;
    let settings = ServerSettings {
        header_timeout: ctx.config.header_timeout,
        http2: ctx.config.outbound.http2_server.clone(),
        half_sent: ctx.half_sent.clone(),
    };
    let drain = client.listener.drain().watch();
    let connection = Rc::new(Connection::default());
    let served = Rc::new(Served {
        outbound,
        connection: connection.clone(),
        client,
        version,
        routing,
        last: RefCell::default(),
    });
    let service = hyper::service::service_fn(move |request| served.clone().handle(request));
    match version {
        Version::HTTP_2 => serve_http2(io, service, &settings, connection, drain).await,
        _ => serve_http1(io, service, &settings, connection, drain).await,
    }
}

impl Served {
    /// Answers a request, whatever happens.
    fn handle(self: Rc<Self>, request: Request<Incoming>) -> Answer {
        let emit_headers = self.outbound.ctx.config.outbound.emit_headers;
        let responder = Responder::new(&request, emit_headers);
        Answer {
            responder: match self.routing {
                Routing::Target(_) => responder,
                Routing::ByAuthority => responder.with_text(),
            },
            busy: Some(self.connection.busy()),
            sent: self.send(request),
            served: self,
        }
    }

    /// Checks a request and sends it. An endpoint that is ready has it when this returns.
    fn send(self: &Rc<Self>, request: Request<Incoming>) -> Sent {
        self.try_send(request)
            .unwrap_or_else(|error| Sent::Refused(Some(error)))
    }

    fn try_send(self: &Rc<Self>, mut request: Request<Incoming>) -> Result<Sent, Error> {
        if !prepare_request(&mut request)? {
            decline_upgrade(&mut request);
        }
        if self.version != Version::HTTP_2 {
            add_host(&mut request);
        }
        let in_flight = self.outbound.ctx.in_flight.begin()?;
        let stack = match &self.routing {
            Routing::Target(stack) => stack.clone(),
            Routing::ByAuthority => {
                if request.method() == Method::CONNECT {
                    return Ok(Sent::Tunnel(self.clone().connect(request)));
                }
                refuse_https(&request)?;
                let authority =
                    authority(&request).ok_or_else(|| Error::new(Reason::NoAuthority))?;
                match self.last(&authority) {
                    Some(stack) => {
                        as_server_expects(&mut request);
                        stack
                    }
                    None => {
                        let sent = self.clone().discover(authority, request);
                        return Ok(Sent::Routed {
                            response: sent,
                            _in_flight: in_flight,
                        });
                    }
                }
            }
        };
        Ok(Sent::Routed {
            response: self.route(&stack, request),
            _in_flight: in_flight,
        })
    }

    /// Gives a request to the router of its target.
    fn route(&self, stack: &TargetStack, request: Request<Incoming>) -> RouteFuture {
        let request = self.take_body(request);
        stack.router(&self.outbound, self.version).call(request)
    }

    /// The target of the last request, if this one has the same.
    fn last(&self, authority: &Authority) -> Option<Rc<TargetStack>> {
        let last = self.last.borrow();
        let (known, stack) = last.as_ref()?;
        (known == authority).then(|| stack.clone())
    }

    /// Finds the target that a request names, and sends it.
    fn discover(
        self: Rc<Self>,
        authority: Authority,
        mut request: Request<Incoming>,
    ) -> RouteFuture {
        Box::pin(async move {
            let stack = self.outbound.target(target_of(&authority)?).await?;
            refuse_opaque(&stack)?;
            *self.last.borrow_mut() = Some((detached(&authority), stack.clone()));
            as_server_expects(&mut request);
            self.route(&stack, request).await
        })
    }

    fn take_body(&self, request: Request<Incoming>) -> HttpRequest {
        let body = |body| RequestBody::new(body, || Upload::new(Some(self.connection.busy())));
        let context = RequestContext::arriving(Some(self.client.clone()));
        HttpRequest::new(request.map(body), context)
    }

    /// Whether the connection serves requests to other targets at the same time: the failure of one is none of theirs.
    fn is_shared(&self) -> bool {
        self.version == Version::HTTP_2 && matches!(self.routing, Routing::ByAuthority)
    }

    /// Opens a tunnel: what comes through it is treated as a connection to the target.
    fn connect(
        self: Rc<Self>,
        mut request: Request<Incoming>,
    ) -> LocalBoxFuture<'static, Result<(), Error>> {
        Box::pin(async move {
            if self.version == Version::HTTP_2 {
                let detail = "CONNECT over HTTP/2 is not served; use HTTP/1.1";
                return Err(Error::new(Reason::InvalidRequest).detail(detail));
            }
            let authority = authority(&request).ok_or_else(|| Error::new(Reason::NoAuthority))?;
            // Whether there is such a target is told before the tunnel opens.
            let stack = self.outbound.target(target_of(&authority)?).await?;
            let upgrade = hyper::upgrade::on(&mut request);
            tunnel::spawn(self.outbound.clone(), self.client.clone(), stack, upgrade);
            Ok(())
        })
    }
}

/// The answer to a request. A hand-written future, as an async block would move the response once more.
struct Answer {
    sent: Sent,
    responder: Responder,
    busy: Option<Busy>,
    served: Rc<Served>,
}

impl Future for Answer {
    type Output = Result<Response<ResponseBody>, h2::Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let (responder, busy) = (this.responder, &mut this.busy);
        let error = match &mut this.sent {
            Sent::Routed { response, .. } => match ready!(response.as_mut().poll(cx)) {
                Ok(mut response) => {
                    if this.served.version != Version::HTTP_2 {
                        // The version is that of this connection, whatever the endpoint speaks (RFC 9110, section 6.2).
                        *response.version_mut() = Version::HTTP_11;
                    }
                    let body = response.body_mut();
                    body.end_well(responder);
                    body.hold(busy.take());
                    return Poll::Ready(Ok(response));
                }
                Err(error) => error,
            },
            Sent::Tunnel(opened) => match ready!(opened.as_mut().poll(cx)) {
                Ok(()) => {
                    let mut body = ResponseBody::empty();
                    body.hold(busy.take());
                    return Poll::Ready(Ok(Response::new(body)));
                }
                Err(error) => error,
            },
            Sent::Refused(error) => error.take().expect("a refusal is told once"),
        };
        this.served.outbound.count_http_error(&error);
        if error.reason().is_fatal() && !this.served.is_shared() {
            this.served.connection.close();
        }
        let mut response = responder.respond(&error)?;
        response.body_mut().hold(busy.take());
        Poll::Ready(Ok(response))
    }
}

/// Refuses a target that asks for TLS: the proxy does not speak it for the client, and must not leave it out either.
fn refuse_https(request: &Request<Incoming>) -> Result<(), Error> {
    if request.uri().scheme() != Some(&Scheme::HTTPS) {
        return Ok(());
    }
    let detail =
        "https targets are not fetched in cleartext; use CONNECT, and speak TLS through the tunnel";
    Err(Error::new(Reason::InvalidRequest).detail(detail))
}

/// Refuses a request by name to a service that takes connections and no requests.
fn refuse_opaque(stack: &TargetStack) -> Result<(), Error> {
    match stack.discovered().protocol() {
        ProtocolKind::Opaque | ProtocolKind::Tls => {
            let detail = format!(
                "{} is opaque: open a tunnel to it by CONNECT",
                stack.target()
            );
            Err(Error::new(Reason::InvalidRequest).detail(detail))
        }
        ProtocolKind::Http1 | ProtocolKind::Http2 | ProtocolKind::Detect { .. } => Ok(()),
    }
}

/// A copy that does not hold on to the buffer that the request was read into.
fn detached(authority: &Authority) -> Authority {
    Authority::try_from(authority.as_str()).unwrap_or_else(|_| authority.clone())
}

fn target_of(authority: &Authority) -> Result<Target, Error> {
    let (host, port) = host_and_port(authority, 80);
    Target::new(&host, port).map_err(|_| {
        // What is before the @ may be a secret.
        let named = authority.as_str().rsplit('@').next().unwrap_or_default();
        let detail = format!("the authority {named:?} names no host and port");
        Error::new(Reason::InvalidRequest).detail(detail)
    })
}

/// A request to an explicit proxy names its target in full; the server expects a path and a `Host` (RFC 9112, 3.2.2).
fn as_server_expects(request: &mut Request<Incoming>) {
    if request.version() == Version::HTTP_2 {
        return;
    }
    if request.uri().scheme().is_some() {
        host_from_target(request);
        to_origin_form(request.uri_mut());
    }
}
