//! Pods with namespaces, addresses and redirection of their own, as in a cluster.

#![allow(clippy::unwrap_used, missing_docs)]

mod applications;
mod failures;
mod privacy;
mod rolling;
mod start;
mod traffic;
mod transfers;
mod ways;
