//! Counts the connections of a route: `outbound_{tcp,tls}_route_open_total`, `outbound_{tcp,tls}_route_close_total`.

use crate::{
    metrics::TcpRouteFamilies,
    server::{RelayEnd, relay_connection},
};
use linkerd_proxy_core::{
    Error, Reason,
    metrics::{Counter, Family, Labels},
    transport::{Duplex, Io, Pipes},
};
use pin_project_lite::pin_project;
use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};
use tower_layer::Layer;
use tower_service::Service;

/// Counts connections as open when they are requested, and as closed when they are dropped.
#[derive(Clone, Debug)]
pub struct TcpRouteMetricsLayer {
    open: Counter,
    close: Family<Counter>,
    labels: Labels,
}

/// See [`TcpRouteMetricsLayer`].
#[derive(Clone, Debug)]
pub struct TcpRouteMetrics<S> {
    inner: S,
    series: TcpRouteMetricsLayer,
}

/// A connection to an endpoint, counted as one of its route.
pub struct RoutedConnection {
    io: Io,
    open: Option<OpenConnection>,
}

/// An open connection of a route, until it is dropped.
struct OpenConnection {
    close: Family<Counter>,
    labels: Labels,
    error: &'static str,
}

impl TcpRouteMetricsLayer {
    /// Counts connections in series with these labels.
    pub fn new(families: &TcpRouteFamilies, labels: Labels) -> Self {
        // The series exist before the first connection, as with the incumbent.
        for error in ERRORS {
            families.close.get(labels.clone().with("error", error));
        }
        Self {
            open: families.open.get(labels.clone()),
            close: families.close.clone(),
            labels,
        }
    }
}

impl<S> Layer<S> for TcpRouteMetricsLayer {
    type Service = TcpRouteMetrics<S>;

    fn layer(&self, inner: S) -> Self::Service {
        let series = self.clone();
        TcpRouteMetrics { inner, series }
    }
}

impl<S> Service<()> for TcpRouteMetrics<S>
where
    S: Service<(), Response = Io, Error = Error>,
{
    type Response = RoutedConnection;
    type Error = Error;
    type Future = TcpRouteMetricsFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, (): ()) -> Self::Future {
        self.series.open.incr();
        let open = OpenConnection {
            close: self.series.close.clone(),
            labels: self.series.labels.clone(),
            error: "",
        };
        TcpRouteMetricsFuture {
            inner: self.inner.call(()),
            open: Some(open),
        }
    }
}

pin_project! {
    /// The future of [`TcpRouteMetrics`].
    pub struct TcpRouteMetricsFuture<F> {
        #[pin]
        inner: F,
        open: Option<OpenConnection>,
    }
}

impl<F> Future for TcpRouteMetricsFuture<F>
where
    F: Future<Output = Result<Io, Error>>,
{
    type Output = Result<RoutedConnection, Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let connected = ready!(this.inner.poll(cx));
        let mut open = this.open.take();
        if let (Err(error), Some(open)) = (&connected, &mut open) {
            open.error = match error.reason() {
                Reason::Forbidden => "forbidden",
                Reason::InvalidBackend => "invalid_backend",
                Reason::InvalidPolicy | Reason::NoBackend => "invalid_policy",
                _ => UNEXPECTED,
            };
        }
        Poll::Ready(connected.map(|io| RoutedConnection { io, open }))
    }
}

impl RoutedConnection {
    /// A connection that no route counts.
    pub fn without_route(io: Io) -> Self {
        Self { io, open: None }
    }

    /// The connection.
    pub fn io(&mut self) -> &mut Io {
        &mut self.io
    }

    /// Relays a client's connection until both sides have ended, or until the endpoint is trusted no more.
    pub async fn relay(mut self, client: &mut Io, pipes: &Pipes) -> RelayEnd {
        let end = match self.io.endpoint_trust() {
            None => relay_connection(client, &mut self.io, pipes).await,
            // Boxed: connections that are not encrypted would have to reserve its space.
            Some(trust) => {
                let lost = Box::pin(async move { trust.lost().await });
                tokio::select! {
                    end = relay_connection(client, &mut self.io, pipes) => end,
                    () = lost => {
                        tracing::debug!("a relay ends: its endpoint is trusted no more");
                        RelayEnd::BrokenOff
                    }
                }
            }
        };
        if let (RelayEnd::BrokenOff, Some(open)) = (end, &mut self.open) {
            open.error = UNEXPECTED;
        }
        end
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        let labels = self.labels.clone().with("error", self.error);
        self.close.get(labels).incr();
    }
}

/// The values of the label `error`.
const ERRORS: [&str; 5] = [
    "",
    "forbidden",
    "invalid_backend",
    "invalid_policy",
    UNEXPECTED,
];

const UNEXPECTED: &str = "unexpected";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{BelowStage, MockStage, TestMetrics, assert_readiness_passes};

    const OPEN: &str = "outbound_tcp_route_open_total";
    const CLOSE: &str = "outbound_tcp_route_close_total";

    type Stage = MockStage<(), Io, Error>;

    fn stage() -> (
        TestMetrics,
        TcpRouteMetrics<Stage>,
        BelowStage<(), Io, Error>,
    ) {
        let metrics = TestMetrics::new();
        let labels = Labels::new().with("route_name", "r");
        let layer = TcpRouteMetricsLayer::new(&metrics.families.outbound.tcp_route, labels);
        let (mock, below) = Stage::new();
        (metrics, layer.layer(mock), below)
    }

    fn counts(metrics: &TestMetrics, error: &str) -> (f64, f64) {
        let error = format!("error=\"{error}\"");
        (
            metrics.sum(OPEN, &["route_name=\"r\""]),
            metrics.sum(CLOSE, &[&error]),
        )
    }

    #[tokio::test]
    async fn a_connection_is_open_from_its_request_until_it_is_dropped() {
        let (metrics, mut stage, mut below) = stage();
        let connected = stage.call(());
        assert_eq!(counts(&metrics, ""), (1.0, 0.0));
        let (stream, _far) = tokio::io::duplex(1);
        let series = metrics.families.transport.series(Labels::new());
        let ((), respond) = below.next_request().await.unwrap();
        respond.send_response(Ok(Io::new(stream.into(), series)));
        let connection = connected.await.unwrap();
        assert_eq!(counts(&metrics, ""), (1.0, 0.0));
        drop(connection);
        assert_eq!(counts(&metrics, ""), (1.0, 1.0));
    }

    #[tokio::test]
    async fn a_failure_closes_it_with_its_reason() {
        for (reason, error) in [
            (Reason::Forbidden, "forbidden"),
            (Reason::InvalidBackend, "invalid_backend"),
            (Reason::InvalidPolicy, "invalid_policy"),
            (Reason::NoBackend, "invalid_policy"),
            (Reason::ConnectRefused, "unexpected"),
        ] {
            let (metrics, mut stage, mut below) = stage();
            let connected = stage.call(());
            let ((), respond) = below.next_request().await.unwrap();
            respond.send_response(Err(reason.into()));
            assert!(connected.await.is_err());
            assert_eq!(counts(&metrics, error), (1.0, 1.0));
        }
    }

    #[tokio::test]
    async fn one_that_is_given_up_is_closed_without_an_error() {
        let (metrics, mut stage, _below) = stage();
        drop(stage.call(()));
        assert_eq!(counts(&metrics, ""), (1.0, 1.0));
    }

    #[tokio::test]
    async fn is_ready_when_the_stage_below_is() {
        let (_metrics, stage, mut below) = stage();
        assert_readiness_passes(stage, &mut below);
    }
}
