//! Shares of requests among endpoints, and failures of endpoints.

#![allow(clippy::unwrap_used, missing_docs)]

mod lost;
mod outages;
mod preferences;
mod shares;
