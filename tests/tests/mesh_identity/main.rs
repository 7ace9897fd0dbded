//! Identities of proxies: their issuers, their trust anchors, and the replacement of both while traffic goes on.

#![allow(clippy::unwrap_used, missing_docs)]

mod anchors;
mod control;
mod crowds;
mod first;
mod rotation;
mod spire;
mod untrusted;
