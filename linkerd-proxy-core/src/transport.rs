//! Sockets: accepting, dialling, telling protocols apart, relaying bytes.

mod connect;
mod detect;
mod duplex;
mod io;
mod listen;
mod options;
mod pipe;
mod relay;

pub use connect::{ConnectOptions, connect, connect_error};
pub use detect::{Detected, classify, detect, detect_until_drain};
pub use duplex::Duplex;
pub use io::{Activity, Io, TransferCost, TransportMetrics, TransportSeries};
pub use listen::{Accepted, Listener, bind, original_dst};
pub use options::SocketOptions;
pub use pipe::{Pipe, Pipes};
pub use relay::relay;
