//! The inbound side as a whole, in this process: applications and peers are streams in memory, and the clock is paused.

mod http;
mod opaque;
mod policy;
mod profiles;
mod proxy;
mod source;
mod upgrades;

use proxy::{TestProxy, in_process, in_process_with};
