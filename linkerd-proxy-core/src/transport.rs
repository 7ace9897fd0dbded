//! Sockets: accept, dial, protocol detection, relay.

mod accept_errors;
mod address;
mod client_info;
mod connect;
mod detect;
mod duplex;
mod guard;
mod io;
mod listen;
mod options;
mod outbox;
mod own_connections;
mod pipe;
mod relay;
mod rounds;
mod socket;
mod socket_state;

pub use accept_errors::AcceptErrors;
pub use address::{reached, reached_ip};
pub use client_info::{ClientInfo, NoTlsReason, TlsStatus};
pub use connect::{ConnectOptions, Dialer, is_descriptor_limit};
pub use detect::{Detected, Lookalikes, classify, detect, detect_until_drain};
pub use duplex::Duplex;
pub use guard::DialGuard;
pub use io::{Activity, Io, TransferCost, TransportMetrics, TransportSeries};
pub use listen::{Accepted, Listener, bind, original_dst};
pub use options::SocketOptions;
pub(crate) use outbox::deliver;
pub use outbox::deliveries;
pub use own_connections::{LoopError, OwnConnection, OwnConnections, Side};
pub use pipe::{Pipe, Pipes};
pub use relay::relay;
pub use rounds::begin_round;
pub(crate) use rounds::round;
pub use socket::Socket;
pub use socket_state::Peek;
