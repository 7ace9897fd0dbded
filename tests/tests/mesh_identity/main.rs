//! Identities of proxies: their issuers, their trust anchors, and the replacement of both while traffic goes on.

#![allow(clippy::unwrap_used, missing_docs)]

mod anchors;
mod authority;
mod control;
mod control_admin;
mod control_process;
mod crowds;
mod first;
mod rotation;
mod spire;
mod untrusted;
