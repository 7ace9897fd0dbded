//! Sockets: accepting, dialling, telling protocols apart, relaying bytes.

mod connect;
mod detect;
mod duplex;
mod io;
mod listen;
mod options;
mod outbox;
mod pipe;
mod relay;
mod socket;

pub use connect::{ConnectOptions, connect, connect_error};
pub use detect::{Detected, classify, detect, detect_until_drain};
pub use duplex::Duplex;
pub use io::{Activity, Io, TransferCost, TransportMetrics, TransportSeries};
pub use listen::{Accepted, Listener, bind, original_dst};
pub use options::SocketOptions;
pub(crate) use outbox::deliver;
pub use outbox::deliveries;
pub use pipe::{Pipe, Pipes};
pub use relay::relay;
pub use socket::Socket;
