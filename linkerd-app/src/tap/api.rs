//! The Tap API (`io.linkerd.proxy.tap.Tap`, proto/tap.proto of linkerd2-proxy-api) for one client.

mod events;
mod matches;

pub use matches::{InvalidMatch, read_request};

use super::registry::{TapRefused, TapRegistry};
use futures::{StreamExt, stream, stream::BoxStream};
use linkerd_api_proto::tap::{self as proto, tap_server::Tap};

use tonic::{Code, Request, Response, Status};

/// Serves the requests of one connection.
///
/// - **Fails as** `UNAUTHENTICATED`, `INVALID_ARGUMENT` with the name of the field, `RESOURCE_EXHAUSTED`, `UNAVAILABLE`.
/// - **Bounds**: those of the registry.
#[derive(Clone, Debug)]
pub struct TapApi {
    registry: TapRegistry,
    client: TapClient,
}

/// The client of a connection.
#[derive(Clone, Debug)]
pub enum TapClient {
    /// The one that may tap, by its name in `/state`.
    Authorized(String),
    /// Any other, with the message that it gets.
    Refused(&'static str),
}

impl TapApi {
    /// An API for a client.
    pub fn new(registry: TapRegistry, client: TapClient) -> Self {
        Self { registry, client }
    }
}

#[tonic::async_trait]
impl Tap for TapApi {
    type ObserveStream = BoxStream<'static, Result<proto::TapEvent, Status>>;

    async fn observe(
        &self,
        request: Request<proto::ObserveRequest>,
    ) -> Result<Response<Self::ObserveStream>, Status> {
        let client = match &self.client {
            TapClient::Authorized(client) => client.clone(),
            TapClient::Refused(message) => return Err(Status::unauthenticated(*message)),
        };
        let settings = read_request(request.into_inner(), client).map_err(|invalid| {
            tracing::warn!(%invalid, "invalid tap request");
            Status::from(invalid)
        })?;
        let tap = self.registry.open(settings)?;
        let events = stream::unfold(tap, |mut tap| async move {
            let event = tap.next().await.ok()?;
            let message = events::message(tap.tap().id, &event);
            Some((Ok(message), tap))
        });
        Ok(Response::new(events.boxed()))
    }
}

impl From<TapRefused> for Status {
    fn from(refused: TapRefused) -> Self {
        let code = match refused {
            TapRefused::Shutdown => Code::Unavailable,
        };
        Self::new(code, refused.to_string())
    }
}

impl From<InvalidMatch> for Status {
    fn from(invalid: InvalidMatch) -> Self {
        Self::invalid_argument(invalid.to_string())
    }
}
