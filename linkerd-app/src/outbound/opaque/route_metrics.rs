//! Counts the connections of a route: `outbound_tcp_route_open_total`, `outbound_tcp_route_close_total`.

use crate::metrics::OutboundFamilies;
use linkerd_proxy_core::{
    Error, Reason,
    metrics::{Counter, Family, Labels},
    transport::Io,
};
use pin_project_lite::pin_project;
use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};
use tower_layer::Layer;
use tower_service::Service;

/// Counts connections as open when they are asked for, and as closed when they are dropped.
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
    _open: Option<OpenConnection>,
}

/// An open connection of a route, until it is dropped.
struct OpenConnection {
    close: Family<Counter>,
    labels: Labels,
    error: &'static str,
}

impl TcpRouteMetricsLayer {
    /// Counts connections in series with these labels.
    pub fn new(families: &OutboundFamilies, labels: Labels) -> Self {
        Self {
            open: families.tcp_route_open.get(labels.clone()),
            close: families.tcp_route_close.clone(),
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
                Reason::InvalidPolicy => "invalid_policy",
                _ => "unexpected",
            };
        }
        Poll::Ready(connected.map(|io| RoutedConnection { io, _open: open }))
    }
}

impl RoutedConnection {
    /// A connection that no route counts.
    pub fn without_route(io: Io) -> Self {
        Self { io, _open: None }
    }

    /// The connection.
    pub fn io(&mut self) -> &mut Io {
        &mut self.io
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        let labels = self.labels.clone().with("error", self.error);
        self.close.get(labels).incr();
    }
}
