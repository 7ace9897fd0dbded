//! Checks of a request, and the removal of hop-by-hop fields.

use super::claims::{
    L5D_CLIENT_ID, L5D_DST_CANONICAL, remove_claims, remove_other_spellings, remove_spellings,
};
use http::Version;
use linkerd_proxy_core::{
    Error, Refusable,
    http::{HttpRequest, add_host, decline_upgrade, prepare_request},
};
use std::task::{Context, Poll};
use tower_layer::Layer;
use tower_service::Service;

/// Checks the message (RFC 9110, 9112), removes hop-by-hop fields, and keeps an upgrade only where it is asked for.
///
/// - **Fails as** `InvalidRequest`, `InvalidFraming`.
#[derive(Clone, Copy, Debug)]
pub struct NormaliseLayer {
    /// The version of the connection.
    pub version: Version,
    /// Fields that only proxies may set.
    pub claims: ClientClaims,
}

/// The treatment of fields that only proxies may set: the client's identity, and the service that it asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientClaims {
    /// Passed on: the client is the proxy's own application.
    Kept,
    /// Removed: the client may be lying.
    Removed,
    /// Removed, except the service in the head: the client is a proxy of the mesh.
    RemovedButService,
}

/// See [`NormaliseLayer`].
#[derive(Clone, Debug)]
pub struct Normalise<S> {
    inner: S,
    rules: NormaliseLayer,
}

impl NormaliseLayer {
    fn apply(self, request: &mut HttpRequest) -> Result<(), Error> {
        match self.claims {
            ClientClaims::Kept => {}
            ClientClaims::Removed => remove_claims(request.headers_mut()),
            ClientClaims::RemovedButService => {
                remove_spellings(request.headers_mut(), &L5D_CLIENT_ID);
                remove_other_spellings(request.headers_mut(), &L5D_DST_CANONICAL);
            }
        }
        if self.claims != ClientClaims::Kept {
            request.body_mut().scrub_trailers(remove_claims);
        }
        if !prepare_request(request)? {
            decline_upgrade(request);
        }
        if self.version != Version::HTTP_2 {
            add_host(request);
        }
        Ok(())
    }
}

impl<S> Layer<S> for NormaliseLayer {
    type Service = Normalise<S>;

    fn layer(&self, inner: S) -> Self::Service {
        let rules = *self;
        Normalise { inner, rules }
    }
}

impl<S> Service<HttpRequest> for Normalise<S>
where
    S: Service<HttpRequest, Error = Error>,
{
    type Response = S::Response;
    type Error = Error;
    type Future = Refusable<S::Future, Error>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: HttpRequest) -> Self::Future {
        match self.rules.apply(&mut request) {
            Ok(()) => Refusable::called(self.inner.call(request)),
            Err(error) => Refusable::refused(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{BelowStage, MockStage, assert_readiness_passes, request};
    use http::{HeaderValue, header::HOST};
    use linkerd_proxy_core::Reason;

    type Stage = MockStage<HttpRequest, (), Error>;
    type Below = BelowStage<HttpRequest, (), Error>;

    fn stage(claims: ClientClaims) -> (Normalise<Stage>, Below) {
        let (mock, below) = Stage::new();
        let layer = NormaliseLayer {
            version: Version::HTTP_11,
            claims,
        };
        (layer.layer(mock), below)
    }

    #[tokio::test]
    async fn claims_are_removed_where_clients_may_lie_and_hop_by_hop_fields_everywhere() {
        for (claims, passed_on) in [
            (ClientClaims::Kept, [true, true]),
            (ClientClaims::Removed, [false, false]),
            (ClientClaims::RemovedButService, [false, true]),
        ] {
            let (mut stage, mut below) = stage(claims);
            let mut claiming = request("");
            for (name, value) in [
                ("l5d-client-id", "admin"),
                ("l5d_client_id", "admin"),
                ("l5d-dst-canonical", "web.shop.svc:80"),
                ("connection", "x-hop"),
                ("x-hop", "1"),
            ] {
                let value = HeaderValue::from_static(value);
                claiming.headers_mut().insert(name, value);
            }
            let _answer = stage.call(claiming);
            let (passed, _) = below.next_request().await.unwrap();
            let headers = passed.headers();
            let names = [L5D_CLIENT_ID, L5D_DST_CANONICAL];
            assert_eq!(names.map(|name| headers.contains_key(name)), passed_on);
            assert!(!headers.contains_key("x-hop"));
            assert_eq!(headers.contains_key("l5d_client_id"), passed_on[0]);
        }
    }

    #[tokio::test]
    async fn an_invalid_request_is_refused_and_not_passed_on() {
        let (mut stage, mut below) = stage(ClientClaims::Kept);
        let mut two_hosts = request("");
        let other = HeaderValue::from_static("other.example");
        two_hosts.headers_mut().append(HOST, other);
        let error = stage.call(two_hosts).await.unwrap_err();
        assert_eq!(error.reason(), Reason::InvalidRequest);
        assert!(
            tokio_test::task::spawn(below.next_request())
                .poll()
                .is_pending()
        );
    }

    #[tokio::test]
    async fn the_error_of_the_stage_below_is_passed_on() {
        let (mut stage, mut below) = stage(ClientClaims::Kept);
        let answer = stage.call(request(""));
        let (_, respond) = below.next_request().await.unwrap();
        respond.send_response(Err(Reason::NoRoute.into()));
        assert_eq!(answer.await.unwrap_err().reason(), Reason::NoRoute);
    }

    #[tokio::test]
    async fn is_ready_when_the_stage_below_is() {
        let (stage, mut below) = stage(ClientClaims::Removed);
        assert_readiness_passes(stage, &mut below);
    }
}
