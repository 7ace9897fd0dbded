//! A collector of spans, over OTLP and gRPC.

use futures::future::BoxFuture;
use http::{Request, Response};
use hyper::{body::Incoming, server::conn::http2, service::service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo};
use linkerd_api_proto::{
    otlp::{
        ExportTraceServiceRequest, ExportTraceServiceResponse, KeyValue, Span, any_value::Value,
    },
    stream::method,
};
use parking_lot::Mutex;
use std::{convert::Infallible, net::SocketAddr, sync::Arc};
use tokio::{
    net::TcpListener,
    task::{JoinHandle, JoinSet},
};
use tonic::Status;
use tonic_prost::ProstCodec;

/// A collector on a loopback port, which stores the received spans.
pub struct Collector {
    addr: SocketAddr,
    requests: Requests,
    running: JoinHandle<()>,
}

type Requests = Arc<Mutex<Vec<ExportTraceServiceRequest>>>;

impl Collector {
    /// Starts a collector that accepts all spans.
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (addr, requests) = (listener.local_addr().unwrap(), Requests::default());
        Self {
            addr,
            running: tokio::spawn(accept(listener, requests.clone())),
            requests,
        }
    }

    /// The address.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// All spans so far.
    pub fn spans(&self) -> Vec<Span> {
        let requests = self.requests.lock();
        let processes = requests.iter().flat_map(|request| &request.resource_spans);
        let scopes = processes.flat_map(|process| &process.scope_spans);
        scopes.flat_map(|scope| scope.spans.clone()).collect()
    }

    /// The attributes of the first process that sent spans.
    pub fn resource(&self) -> Vec<KeyValue> {
        let requests = self.requests.lock();
        let process = requests.first().and_then(|it| it.resource_spans.first());
        let resource = process.and_then(|process| process.resource.clone());
        resource.unwrap_or_default().attributes
    }

    /// Waits until the spans meet a condition.
    pub async fn wait_for<T>(&self, what: &str, find: impl Fn(&[Span]) -> Option<T>) -> T {
        crate::eventually(crate::SOON, what, || {
            let found = find(&self.spans());
            async { found }
        })
        .await
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.running.abort();
    }
}

/// The value of an attribute as text; `None` if there is none.
pub fn attribute(attributes: &[KeyValue], key: &str) -> Option<String> {
    let found = attributes.iter().find(|attribute| attribute.key == key)?;
    match found.value.as_ref()?.value.as_ref()? {
        Value::StringValue(text) => Some(text.clone()),
        Value::IntValue(number) => Some(number.to_string()),
    }
}

async fn accept(listener: TcpListener, requests: Requests) {
    // The tasks of connections end with this task.
    let mut connections = JoinSet::new();
    while let Ok((socket, _)) = listener.accept().await {
        let requests = requests.clone();
        connections.spawn(async move {
            let service = service_fn(move |request| respond(requests.clone(), request));
            let http2 = http2::Builder::new(TokioExecutor::new());
            let _ = http2.serve_connection(TokioIo::new(socket), service).await;
        });
    }
}

async fn respond(
    requests: Requests,
    request: Request<Incoming>,
) -> Result<Response<tonic::body::Body>, Infallible> {
    let codec = ProstCodec::<ExportTraceServiceResponse, ExportTraceServiceRequest>::default();
    Ok(match request.uri().path() == method::EXPORT_SPANS {
        true => {
            let mut grpc = tonic::server::Grpc::new(codec);
            grpc.unary(Export(requests), request).await
        }
        false => Status::unimplemented("no such method").into_http(),
    })
}

struct Export(Requests);

impl tonic::server::UnaryService<ExportTraceServiceRequest> for Export {
    type Response = ExportTraceServiceResponse;
    type Future = BoxFuture<'static, Result<tonic::Response<Self::Response>, Status>>;

    fn call(&mut self, request: tonic::Request<ExportTraceServiceRequest>) -> Self::Future {
        self.0.lock().push(request.into_inner());
        Box::pin(async { Ok(tonic::Response::new(ExportTraceServiceResponse::default())) })
    }
}
