//! The policy of the admin port: TLS of the mesh is terminated, and requests are let in as those of any inbound port.

use super::reply::{self, Reply};
use crate::{
    identity::MeshIdentity,
    inbound::{Admission, Handshakes, PolicyContext, PortPolicy},
};
use bytes::Bytes;
use http::{Request, Response};
use hyper::body::Incoming;
use linkerd_profiles::Meta;
use linkerd_proxy_core::{
    Error, Reason, drain,
    http::{HttpRequest, RequestContext, Responder},
    tls::{FirstBytes, NoClientHello, NoTlsReason, TlsStatus, read_client_hello},
    transport::{ClientInfo, Io, ListenerContext, Side, TransportStream},
};
use serde_json::Value;
use std::{cell::RefCell, net::SocketAddr, rc::Rc, time::Duration};

/// The policy of the admin port.
///
/// - **Waits for** the first message of a client, and for its handshake, each for the time that the caller allows.
/// - **Fails as** `TlsDetectionTimeout`, `ClientTlsFailed`, `NoCertificate`, `HandshakeLimit`; requests as [`Admission`]
///   says.
/// - **Bounds**: handshakes, as those of a worker.
/// - **Metrics**: those of an inbound port, with the listener's address as the target.
pub struct AdminPolicy {
    port: Rc<PortPolicy>,
    addr: SocketAddr,
    listener: Rc<ListenerContext>,
    mesh: Option<MeshIdentity>,
    handshakes: Handshakes,
}

/// The requests of one connection.
pub(super) struct AdminAdmission {
    port: Rc<PortPolicy>,
    client: Rc<ClientInfo>,
    admission: RefCell<Admission>,
    /// Whether informational headers are allowed.
    emit_headers: bool,
}

impl AdminPolicy {
    /// The policy of the admin server's listener at `addr`, the port of which is watched from the start.
    pub fn new(
        ctx: &Rc<PolicyContext>,
        addr: SocketAddr,
        mesh: Option<MeshIdentity>,
        drain: drain::Handle,
    ) -> Result<Self, Error> {
        Ok(Self {
            port: Rc::new(PortPolicy::new(ctx, addr)?),
            addr,
            listener: ListenerContext::new(drain),
            mesh,
            handshakes: Handshakes::default(),
        })
    }

    /// The handshakes that have begun and not ended, for `/state`.
    pub(super) fn inspect_handshakes(&self) -> Value {
        self.handshakes.inspect()
    }

    /// Terminates TLS that is for this proxy; a connection without TLS stays as it is.
    pub(super) async fn accept(
        &self,
        stream: TransportStream,
        peer: SocketAddr,
        timeout: Duration,
        drain: &mut drain::Watch,
    ) -> Result<(Io, AdminAdmission), Error> {
        let (stream, read, tls) = match &self.mesh {
            None => (stream, Bytes::new(), PLAIN),
            Some(mesh) => self.secure(mesh, stream, timeout, drain).await?,
        };
        let mut io = Io::new(stream, self.port.present().peer(&tls).connections());
        io.put_back(read);
        let client = Rc::new(ClientInfo {
            addr: SocketAddr::new(peer.ip().to_canonical(), peer.port()),
            local: self.addr,
            orig_dst: None,
            tls,
            listener: self.listener.clone(),
        });
        let admission = Admission::new(self.port.clone(), client.clone());
        let admission = AdminAdmission {
            port: self.port.clone(),
            emit_headers: client.tls.identity().is_some(),
            client,
            admission: RefCell::new(admission),
        };
        Ok((io, admission))
    }

    async fn secure(
        &self,
        mesh: &MeshIdentity,
        mut stream: TransportStream,
        timeout: Duration,
        drain: &mut drain::Watch,
    ) -> Result<(TransportStream, Bytes, TlsStatus), Error> {
        let server = mesh.server();
        let FirstBytes { read, hello } = read_client_hello(&mut stream, timeout, drain).await?;
        let hello = match hello {
            Ok(hello) if server.is_asked_for(&hello) => hello,
            Ok(hello) => {
                let detail = format!("TLS is for {}, not for this proxy", hello.server_name);
                return Err(Error::new(Reason::ClientTlsFailed).detail(detail));
            }
            Err(late @ NoClientHello::TimedOut(_)) => {
                return Err(Error::new(Reason::TlsDetectionTimeout).detail(late.to_string()));
            }
            Err(_) => return Ok((stream, read, PLAIN)),
        };
        let _handshake = self.handshakes.begin()?;
        let terminating = server.terminate(hello, stream, false);
        let terminated = tokio::time::timeout(timeout, terminating).await;
        let terminated = terminated.map_err(|_| {
            let late = match server.has_certificate() {
                true => Reason::ClientTlsFailed,
                false => Reason::NoCertificate,
            };
            Error::new(late).detail(format!("timed out after {timeout:?}"))
        })??;
        Ok((terminated.stream, Bytes::new(), terminated.status))
    }
}

impl AdminAdmission {
    /// Answers a request by `answer` if it is let in, and counts it.
    pub(super) async fn answer<F: Future<Output = Reply>>(
        &self,
        request: Request<Incoming>,
        answer: impl FnOnce(Request<Incoming>) -> F,
    ) -> Reply {
        if self.is_exempt(request.uri().path()) {
            return answer(request).await;
        }
        let responder = Responder::new(&request, Side::Inbound, self.emit_headers);
        let context = RequestContext::arriving(Some(self.client.clone()));
        let mut request = HttpRequest::new(request, context);
        let admitted = self.admission.borrow_mut().admit(&mut request);
        let permit = match admitted {
            Ok(permit) => permit,
            Err(error) => {
                self.port.count_error(&error);
                return refusal(&responder, &error);
            }
        };
        let (request, context) = request.into_parts();
        let reply = answer(request).await;
        let latency = context.arrived.elapsed();
        permit.application.count_answer(reply.status(), latency);
        reply
    }
}

impl AdminAdmission {
    /// Whether a request is let in against the default policy: that of a pod without policies of its own would end its
    /// probes, and lock out those who are inside of it.
    fn is_exempt(&self, path: &str) -> bool {
        let snapshot = self.port.present();
        let policy = snapshot.policy();
        let is_from_pod = self.client.addr.ip().is_loopback() || PROBES.contains(&path);
        let is_default = matches!(*policy.meta, Meta::Default(_));
        let authorize = || policy.authorize_connection(self.client.addr, &self.client.tls);
        is_from_pod && is_default && authorize().is_err()
    }
}

/// The answer to a request that is not let in.
fn refusal(responder: &Responder, error: &Error) -> Reply {
    let mut reply = reply::empty(error.status());
    // Only an endpoint's reset is no answer, and there is no endpoint.
    if let Ok(response) = responder.respond(error) {
        let (head, _) = response.into_parts();
        reply = Response::from_parts(head, reply.into_body());
    }
    reply
}

/// The paths of probes.
const PROBES: [&str; 2] = ["/live", "/ready"];
const PLAIN: TlsStatus = TlsStatus::None(NoTlsReason::NoTlsFromRemote);
