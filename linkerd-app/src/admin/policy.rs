//! The policy of the admin port: TLS of the mesh is terminated, and requests are let in as those of any inbound port.

use super::{
    reply::{self, Reply},
    secure::{PLAIN, secure},
};
use crate::{
    failures::{FailureLog, RequestFailures, RequestHead},
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
    tls::TlsStatus,
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
    failures: Rc<FailureLog>,
}

/// The requests of one connection.
pub(super) struct AdminAdmission {
    port: Rc<PortPolicy>,
    client: Rc<ClientInfo>,
    admission: RefCell<Admission>,
    failures: RequestFailures,
    /// Whether informational headers are allowed.
    emit_headers: bool,
}

impl AdminPolicy {
    /// The policy of the admin server's listener at `addr`, whose port is watched from the start. Refusals are kept in
    /// `failures`.
    pub fn new(
        ctx: &Rc<PolicyContext>,
        addr: SocketAddr,
        mesh: Option<MeshIdentity>,
        drain: drain::Handle,
        failures: Rc<FailureLog>,
    ) -> Result<Self, Error> {
        Ok(Self {
            port: Rc::new(PortPolicy::new(ctx, addr)?),
            addr,
            listener: ListenerContext::new(drain),
            mesh,
            handshakes: Handshakes::default(),
            failures,
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
            Some(mesh) => {
                let limits = (timeout, timeout);
                let secured =
                    secure(mesh, &self.handshakes, (stream, peer.ip()), limits, drain).await;
                secured.inspect_err(|error| self.failed(peer, error))?
            }
        };
        let mut io = Io::new(stream, self.port.present().peer(&tls).connections());
        io.put_back(read);
        let client = Rc::new(self.client(peer, tls));
        let admission = Admission::new(self.port.clone(), client.clone());
        let admission = AdminAdmission {
            port: self.port.clone(),
            emit_headers: client.tls.identity().is_some(),
            failures: self.failures.requests(Side::Inbound, &client),
            client,
            admission: RefCell::new(admission),
        };
        Ok((io, admission))
    }

    /// Keeps the failure of a connection, unless it was closed unused: browsers open some without using them.
    fn failed(&self, peer: SocketAddr, error: &Error) {
        if error.reason() == Reason::ClosedBeforeDetection {
            return;
        }
        let client = self.client(peer, PLAIN);
        self.failures
            .connection(Side::Inbound, &client, self.addr, error);
    }

    fn client(&self, peer: SocketAddr, tls: TlsStatus) -> ClientInfo {
        ClientInfo {
            addr: SocketAddr::new(peer.ip().to_canonical(), peer.port()),
            local: self.addr,
            orig_dst: None,
            tls,
            listener: self.listener.clone(),
        }
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
                let head = RequestHead::of(&request);
                self.failures.request(Some(&head), &responder, &error);
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
    /// Whether a request is let in despite the default policy. In a pod without its own policies, the default would fail the
    /// probes, and lock out clients inside the pod.
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
    // Only an endpoint's reset is no answer, and this server has no endpoint.
    if let Ok(response) = responder.respond(error) {
        let (head, _) = response.into_parts();
        reply = Response::from_parts(head, reply.into_body());
    }
    reply
}

/// The paths of probes.
const PROBES: [&str; 2] = ["/live", "/ready"];
