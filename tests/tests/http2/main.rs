//! Behaviour of HTTP/2 and gRPC.

#![allow(clippy::unwrap_used, missing_docs)]

mod abandoned;
mod connections;
mod cut_short;
mod explicit;
mod frames;
mod grpc;
mod streams;
