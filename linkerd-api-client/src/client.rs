//! Server-streaming calls with converted messages.

use bytes::Bytes;
use futures::{FutureExt, StreamExt};
use linkerd_api_proto::stream;
use linkerd_proxy_core::subscription::{Call, Code, Status};
use parking_lot::Mutex;
use std::error::Error as _;
use tonic::{body::Body, client::GrpcService};

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A gRPC client's transport, cloned for each call.
pub trait ApiService:
    GrpcService<
        Body,
        Error: Into<BoxError>,
        Future: Send,
        ResponseBody: http_body::Body<Data = Bytes, Error: Into<BoxError> + Send> + Send + 'static,
    > + Clone
    + Send
    + 'static
{
}

impl<T> ApiService for T
where
    T: GrpcService<Body> + Clone + Send + 'static,
    T::Error: Into<BoxError>,
    T::Future: Send,
    T::ResponseBody: http_body::Body<Data = Bytes> + Send + 'static,
    <T::ResponseBody as http_body::Body>::Error: Into<BoxError> + Send,
{
}

/// A service, cloned for each call.
pub(crate) struct ApiClient<T> {
    // The lock makes the client shareable even if the service itself is not.
    service: Mutex<T>,
    max_message: Option<u32>,
}

impl<T: ApiService> ApiClient<T> {
    pub(crate) fn new(service: T) -> Self {
        Self {
            service: Mutex::new(service),
            max_message: None,
        }
    }

    /// A client that refuses messages longer than `max_message` bytes.
    pub(crate) fn with_limit(service: T, max_message: u32) -> Self {
        Self {
            max_message: Some(max_message),
            ..Self::new(service)
        }
    }

    /// Calls a method, and converts each message of the response.
    pub(crate) fn call<Req, Rsp, U>(
        &self,
        method: &'static str,
        request: Req,
        convert: impl Fn(Rsp) -> U + Send + 'static,
    ) -> Call<U>
    where
        Req: prost::Message + Send + 'static,
        Rsp: prost::Message + Default + 'static,
        U: 'static,
    {
        let (service, limit) = (self.service.lock().clone(), self.max_message);
        async move {
            let opened = stream::open(service, method, request).await;
            let mut messages = opened.map_err(|error| status(&error))?;
            if let Some(limit) = limit {
                messages = messages.limit(limit);
            }
            let converted = messages.map(move |message| match message {
                Ok(message) => Ok(convert(message)),
                Err(error) => Err(status(&error)),
            });
            Ok(converted.boxed())
        }
        .boxed()
    }
}

/// A failure, with its cause: tonic names only the step that failed.
fn status(status: &tonic::Status) -> Status {
    let mut message = status.message().to_owned();
    let mut source = status.source();
    while let Some(cause) = source {
        source = cause.source();
        let text = cause.to_string();
        if !message.contains(&text) {
            message = format!("{message}: {text}");
        }
        if let Some(h2) = cause.downcast_ref::<h2::Error>() {
            if is_connection_end(h2) {
                return Status::connection_end(message);
            }
            break;
        }
    }
    Status::new(Code::from(i32::from(status.code())), message)
}

/// Whether a connection has ended as one does whose server stops: by GOAWAY without an error, with its streams cancelled, or
/// by its end alone.
fn is_connection_end(error: &h2::Error) -> bool {
    match error.reason() {
        Some(h2::Reason::NO_ERROR | h2::Reason::CANCEL) => error.is_remote(),
        Some(_) => false,
        None => error.is_io(),
    }
}
