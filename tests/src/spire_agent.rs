//! A SPIFFE workload API at a Unix socket, like that of a SPIRE agent.

use futures::{StreamExt, future::BoxFuture, stream::BoxStream};
use http::{Request, Response};
use hyper::{body::Incoming, server::conn::http2, service::service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo};
use linkerd_api_proto::workload::{SECURITY_HEADER, X509Svid, X509SvidRequest, X509SvidResponse};
use linkerd_control::Authority;
use std::{convert::Infallible, path::PathBuf, time::Duration};
use tempfile::TempDir;
use tokio::{
    net::UnixListener,
    sync::watch,
    task::{JoinHandle, JoinSet},
};
use tokio_stream::wrappers::WatchStream;
use tonic::Status;
use tonic_prost::ProstCodec;

/// An agent, which answers all streams with its present answer and all later ones.
pub struct SpireAgent {
    answers: watch::Sender<Answer>,
    running: Option<JoinHandle<()>>,
    files: TempDir,
}

type Answer = Result<X509SvidResponse, Status>;

impl SpireAgent {
    /// Starts an agent that knows no workload.
    pub fn start() -> Self {
        let denied = Status::permission_denied("no identity issued");
        let mut agent = Self {
            answers: watch::Sender::new(Err(denied)),
            running: None,
            files: tempfile::tempdir().unwrap(),
        };
        agent.restart();
        agent
    }

    /// The path of the socket.
    pub fn socket(&self) -> PathBuf {
        self.files.path().join("agent.sock")
    }

    /// Issues an identity for an hour, with a bundle of these authorities. The first one signs.
    pub fn issue(&self, id: &str, authorities: &[&Authority]) {
        self.answer(vec![svid(id, authorities)]);
    }

    /// Sends these identities.
    pub fn answer(&self, svids: Vec<X509Svid>) {
        let _before = self.answers.send_replace(Ok(X509SvidResponse {
            svids,
            ..X509SvidResponse::default()
        }));
    }

    /// Ends all streams with a status, and answers new ones with it.
    pub fn fail(&self, status: Status) {
        let _before = self.answers.send_replace(Err(status));
    }

    /// Ends all streams and closes the socket, like a crash.
    pub async fn stop(&mut self) {
        if let Some(running) = self.running.take() {
            running.abort();
            let _ = running.await;
        }
        std::fs::remove_file(self.socket()).unwrap();
    }

    /// Serves at the socket again.
    pub fn restart(&mut self) {
        let listener = UnixListener::bind(self.socket()).unwrap();
        let answers = self.answers.subscribe();
        self.running = Some(tokio::spawn(accept(listener, answers)));
    }
}

/// An identity for an hour, signed by the first of these authorities, with a bundle of all.
pub fn svid(id: &str, authorities: &[&Authority]) -> X509Svid {
    let issued = authorities[0].issue(id, Duration::from_secs(3600)).unwrap();
    let bundles = authorities.iter().map(|authority| authority.trust_bundle());
    X509Svid {
        spiffe_id: id.to_owned(),
        x509_svid: issued.certificate,
        x509_svid_key: issued.key,
        bundle: bundles.flatten().collect(),
        hint: String::new(),
    }
}

impl Drop for SpireAgent {
    fn drop(&mut self) {
        if let Some(running) = &self.running {
            running.abort();
        }
    }
}

async fn accept(listener: UnixListener, answers: watch::Receiver<Answer>) {
    // The tasks of connections end with this task.
    let mut connections = JoinSet::new();
    while let Ok((socket, _)) = listener.accept().await {
        let answers = answers.clone();
        connections.spawn(async move {
            let service = service_fn(move |request| respond(answers.clone(), request));
            let http2 = http2::Builder::new(TokioExecutor::new());
            let _ = http2.serve_connection(TokioIo::new(socket), service).await;
        });
    }
}

async fn respond(
    answers: watch::Receiver<Answer>,
    request: Request<Incoming>,
) -> Result<Response<tonic::body::Body>, Infallible> {
    let has_metadata = request.headers().get(SECURITY_HEADER);
    let status = match (request.uri().path(), has_metadata) {
        ("/SpiffeWorkloadAPI/FetchX509SVID", Some(value)) if value == "true" => None,
        ("/SpiffeWorkloadAPI/FetchX509SVID", _) => Some(Status::invalid_argument("no metadata")),
        _ => Some(Status::unimplemented("no such method")),
    };
    let codec = ProstCodec::<X509SvidResponse, X509SvidRequest>::default();
    let mut grpc = tonic::server::Grpc::new(codec);
    Ok(match status {
        Some(status) => status.into_http(),
        None => grpc.server_streaming(Fetch(answers), request).await,
    })
}

struct Fetch(watch::Receiver<Answer>);

impl tonic::server::ServerStreamingService<X509SvidRequest> for Fetch {
    type Response = X509SvidResponse;
    type ResponseStream = BoxStream<'static, Answer>;
    type Future = BoxFuture<'static, Result<tonic::Response<Self::ResponseStream>, Status>>;

    fn call(&mut self, _: tonic::Request<X509SvidRequest>) -> Self::Future {
        let answers = WatchStream::new(self.0.clone()).boxed();
        Box::pin(async move { Ok(tonic::Response::new(answers)) })
    }
}
