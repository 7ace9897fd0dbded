//! Sockets: accepting, dialling, telling protocols apart, copying bytes.

mod options;

pub use options::SocketOptions;
