//! Making the call `Destination.Get`.

use crate::convert::status;
use futures::{FutureExt, StreamExt, TryStreamExt};
use linkerd_api_proto::destination::{
    GetDestination, Update, destination_client::DestinationClient,
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
    // Cloned for each call. The lock makes it shareable when the client itself is not.
    client: Mutex<DestinationClient<T>>,
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
            client: Mutex::new(DestinationClient::new(service)),
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
        let mut client = self.client.lock().clone();
        let request = GetDestination {
            scheme: String::new(),
            path: path.to_owned(),
            context_token: self.context_token.clone(),
        };
        async move {
            match client.get(request).await {
                Ok(response) => Ok(response
                    .into_inner()
                    .map_err(|error| status(&error))
                    .boxed()),
                Err(error) => Err(status(&error)),
            }
        }
        .boxed()
    }
}
