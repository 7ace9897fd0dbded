//! A proxy as a process, for tests: started against a [`Controller`](crate::Controller), on free ports, and stopped with the test.

mod admin;
mod builder;
mod error;
mod known;
mod log;
mod process;
mod program;

pub use builder::ProxyBuilder;
pub use error::ProxyError;
pub use process::{ProxyExit, ProxyProcess};

#[cfg(test)]
mod tests;
