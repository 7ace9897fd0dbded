//! Making the call `Destination.Get`.

use crate::convert::status;
use futures::{FutureExt, StreamExt, TryStreamExt};
use linkerd_api_proto::{
    destination::{GetDestination, Update},
    stream::{self, method},
};
use linkerd_proxy_core::subscription::Call;
use parking_lot::Mutex;
use tonic::client::GrpcService;

/// What opens a stream of endpoint updates. The control plane's client does; tests script it.
pub trait GetEndpoints: Send + Sync + 'static {
    /// Asks for the endpoints of `path`, a `name:port`.
    fn get(&self, path: &str) -> Call<Update>;
}

/// The control plane, over gRPC.
pub(crate) struct OverGrpc<T> {
    // Cloned for each call. The lock makes it shareable when the service itself is not.
    service: Mutex<T>,
    context_token: String,
}

type BoxError = Box<dyn std::error::Error + Send + Sync>;

impl<T> OverGrpc<T>
where
    T: GrpcService<tonic::body::Body>,
    T::Error: Into<BoxError>,
    T::ResponseBody: http_body::Body<Data = bytes::Bytes> + Send + 'static,
    <T::ResponseBody as http_body::Body>::Error: Into<BoxError> + Send,
{
    pub(crate) fn new(service: T, context_token: String) -> Self {
        Self {
            service: Mutex::new(service),
            context_token,
        }
    }
}

impl<T> GetEndpoints for OverGrpc<T>
where
    T: GrpcService<tonic::body::Body> + Clone + Send + 'static,
    T::Future: Send,
    T::Error: Into<BoxError>,
    T::ResponseBody: http_body::Body<Data = bytes::Bytes> + Send + 'static,
    <T::ResponseBody as http_body::Body>::Error: Into<BoxError> + Send,
{
    fn get(&self, path: &str) -> Call<Update> {
        let service = self.service.lock().clone();
        let request = GetDestination {
            scheme: String::new(),
            path: path.to_owned(),
            context_token: self.context_token.clone(),
        };
        async move {
            let opened = stream::open(service, method::GET, request).await;
            let updates = opened.map_err(|error| status(&error))?;
            Ok(updates.map_err(|error| status(&error)).boxed())
        }
        .boxed()
    }
}
