//! A gRPC service and its client, without generated code.

use crate::{Body, BoxError, Fail, Http2};
use futures::{Stream, StreamExt, future::BoxFuture, stream::BoxStream};
use http::{Request, Response, uri::PathAndQuery};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use std::task::{Context, Poll};
use tonic::{Status, Streaming};
use tonic_prost::ProstCodec;

/// The message of requests and responses.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Message {
    /// A text. `fail:<code>` makes the service answer with a status.
    #[prost(string, tag = "1")]
    pub text: String,
    /// Number of messages in a stream.
    #[prost(uint32, tag = "2")]
    pub count: u32,
}

impl Message {
    /// A message.
    pub fn new(text: &str, count: u32) -> Self {
        let text = text.to_owned();
        Self { text, count }
    }
}

type Codec = ProstCodec<Message, Message>;

/// Serves `/test.Echo/{Unary,Stream,Bidi}`; to be used as a server's handler.
pub async fn grpc_handler(request: Request<Incoming>) -> Result<Response<Body>, Fail> {
    let mut grpc = tonic::server::Grpc::new(Codec::default());
    let response = match request.uri().path() {
        "/test.Echo/Unary" => grpc.unary(Unary, request).await,
        "/test.Echo/Stream" => grpc.server_streaming(ServerStream, request).await,
        "/test.Echo/Bidi" => grpc.streaming(Bidi, request).await,
        _ => Status::unimplemented("no such method").into_http(),
    };
    Ok(response.map(|body| body.map_err(BoxError::from).boxed_unsync()))
}

struct Unary;
struct ServerStream;
struct Bidi;

fn answer(message: Message) -> Result<Message, Status> {
    match message.text.strip_prefix("fail:") {
        Some(code) => Err(Status::new(code.parse::<i32>().unwrap().into(), "as asked")),
        None => Ok(message),
    }
}

impl tonic::server::UnaryService<Message> for Unary {
    type Response = Message;
    type Future = BoxFuture<'static, Result<tonic::Response<Message>, Status>>;

    fn call(&mut self, request: tonic::Request<Message>) -> Self::Future {
        Box::pin(async move { answer(request.into_inner()).map(tonic::Response::new) })
    }
}

type Answers = BoxStream<'static, Result<Message, Status>>;

impl tonic::server::ServerStreamingService<Message> for ServerStream {
    type Response = Message;
    type ResponseStream = Answers;
    type Future = BoxFuture<'static, Result<tonic::Response<Answers>, Status>>;

    fn call(&mut self, request: tonic::Request<Message>) -> Self::Future {
        let message = request.into_inner();
        let texts = (0..message.count).map(move |n| answer(Message::new(&message.text, n)));
        let answers = futures::stream::iter(texts).boxed();
        Box::pin(async move { Ok(tonic::Response::new(answers)) })
    }
}

impl tonic::server::StreamingService<Message> for Bidi {
    type Response = Message;
    type ResponseStream = Answers;
    type Future = BoxFuture<'static, Result<tonic::Response<Answers>, Status>>;

    fn call(&mut self, request: tonic::Request<Streaming<Message>>) -> Self::Future {
        let answers = request.into_inner().map(|message| answer(message?)).boxed();
        Box::pin(async move { Ok(tonic::Response::new(answers)) })
    }
}

/// A client of the service. Clones share a connection.
#[derive(Clone)]
pub struct Grpc(tonic::client::Grpc<Channel>);

/// An HTTP/2 connection in the form that generated clients need.
#[derive(Clone)]
pub struct Channel(pub Http2);

impl Grpc {
    /// A client of the service with this name.
    pub fn new(http2: Http2, name: &str) -> Self {
        let origin = format!("http://{name}/").parse().unwrap();
        Self(tonic::client::Grpc::with_origin(Channel(http2), origin))
    }

    /// Unary: one message, one answer.
    pub async fn unary(&self, message: Message) -> Result<Message, Status> {
        let mut grpc = self.0.clone();
        let path = PathAndQuery::from_static("/test.Echo/Unary");
        let request = tonic::Request::new(message);
        let response = grpc.unary(request, path, Codec::default()).await?;
        Ok(response.into_inner())
    }

    /// Server streaming: one message, many answers.
    pub async fn stream(&self, message: Message) -> Result<Streaming<Message>, Status> {
        let mut grpc = self.0.clone();
        let path = PathAndQuery::from_static("/test.Echo/Stream");
        let request = tonic::Request::new(message);
        let response = grpc
            .server_streaming(request, path, Codec::default())
            .await?;
        Ok(response.into_inner())
    }

    /// Bidirectional: many messages, many answers.
    pub async fn bidi(
        &self,
        messages: impl Stream<Item = Message> + Send + 'static,
    ) -> Result<Streaming<Message>, Status> {
        let mut grpc = self.0.clone();
        let path = PathAndQuery::from_static("/test.Echo/Bidi");
        let request = tonic::Request::new(messages);
        let response = grpc.streaming(request, path, Codec::default()).await?;
        Ok(response.into_inner())
    }
}

impl tower_service::Service<Request<tonic::body::Body>> for Channel {
    type Response = Response<Incoming>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response<Incoming>, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<tonic::body::Body>) -> Self::Future {
        let http2 = self.0.clone();
        let request = request.map(|body| body.map_err(BoxError::from).boxed_unsync());
        Box::pin(async move { http2.start(request).await })
    }
}
