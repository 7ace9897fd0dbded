//! Who gets the requests, and what becomes of them when a server fails.

#![allow(clippy::unwrap_used, missing_docs)]

mod lost;
mod outages;
mod shares;
