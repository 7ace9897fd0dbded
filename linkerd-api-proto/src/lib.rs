//! The wire types of the control plane's gRPC APIs.
//!
//! They are the published `linkerd2-proxy-api` bindings, so that they cannot drift from the control plane's API.
//! Nothing here depends on the proxy; conversions to the proxy's own types live with those types, over the plain ones
//! of [`convert`] where two crates need the same. Streams are opened by [`stream`].

pub mod convert;
pub mod stream;

pub use linkerd2_proxy_api::{
    destination, grpc_route, http_route, http_types, identity, inbound, meta, net, opaque_route,
    outbound, tap, tls_route,
};
pub use prost_types;
