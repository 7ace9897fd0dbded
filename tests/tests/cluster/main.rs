//! Pods with their own namespaces, addresses and redirection, as in a cluster.

#![allow(clippy::unwrap_used, missing_docs)]

mod applications;
mod failures;
mod privacy;
mod rolling;
mod start;
mod traffic;
mod transfers;
mod ways;
