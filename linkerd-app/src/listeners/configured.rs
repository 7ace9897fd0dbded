//! The listeners of the configuration, bound before any thread starts.

use super::{ListenerError, ListenerSpec, ProxyListeners};
use crate::config::{
    Config,
    variables::{
        ADMIN_LISTEN_ADDR, CONTROL_LISTEN_ADDR, INBOUND_LISTEN_ADDR, OUTBOUND_LISTEN_ADDRS,
    },
};
use linkerd_proxy_core::transport;
use std::{
    io,
    net::{SocketAddr, TcpListener},
};

/// The listening sockets of the configuration.
#[derive(Debug)]
pub struct ConfiguredSockets {
    /// For each address, one socket for each worker.
    outbound: Vec<Vec<TcpListener>>,
    /// One socket for each worker; none without inbound traffic.
    inbound: Vec<TcpListener>,
    admin: TcpListener,
    /// `None` without a tap server.
    tap: Option<TcpListener>,
}

/// The sockets of the servers on the control thread.
#[derive(Debug)]
pub struct ControlSockets {
    /// Of the admin server.
    pub admin: TcpListener,
    /// Of the tap server, if there is one.
    pub tap: Option<TcpListener>,
}

/// A listener of the configuration cannot be bound.
#[derive(Debug, thiserror::Error)]
#[error(
    "Failed to bind {what} listener on {addr}: {error}; {}; `{variable}` sets it", advice(.error)
)]
pub struct BindError {
    /// The listener.
    pub what: &'static str,
    /// The address.
    pub addr: SocketAddr,
    /// The system's error.
    pub error: io::Error,
    /// The variable that sets the address.
    pub variable: &'static str,
}

/// Advice by the system's error.
fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            "ports below 1024 are for root and for CAP_NET_BIND_SERVICE"
        }
        io::ErrorKind::AddrNotAvailable => "it is not an address of this host",
        _ => "is another process using it?",
    }
}

/// Addresses of the listeners.
#[derive(Clone, Debug)]
pub struct ListenAddresses {
    /// Of the outbound listeners.
    pub outbound: Vec<SocketAddr>,
    /// Of the inbound listener, if there is one.
    pub inbound: Option<SocketAddr>,
    /// Of the admin server.
    pub admin: SocketAddr,
    /// Of the tap server, if there is one.
    pub tap: Option<SocketAddr>,
}

impl ConfiguredSockets {
    /// Binds all listeners.
    pub fn bind(config: &Config, workers: usize) -> Result<Self, BindError> {
        let bind = |what, addr, backlog, count, variable| {
            transport::bind(addr, backlog, count).map_err(|error| BindError {
                what,
                addr,
                error,
                variable,
            })
        };
        let (outbound, inbound, admin) = (&config.outbound, &config.inbound, &config.admin);
        // Outbound first: an application that starts with the proxy is not refused.
        let outbound = outbound
            .listen
            .iter()
            .map(|addr| {
                let variable = OUTBOUND_LISTEN_ADDRS.name();
                bind("outbound", *addr, outbound.backlog, workers, variable)
            })
            .collect::<Result<_, _>>()?;
        let variable = INBOUND_LISTEN_ADDR.name();
        let backlog = inbound.backlog;
        let inbound = match inbound.listen {
            Some(addr) => bind("inbound", addr, backlog, workers, variable)?,
            None => Vec::new(),
        };
        let mut admin = bind("admin", admin.listen, backlog, 1, ADMIN_LISTEN_ADDR.name())?;
        let tap = match &config.tap.server {
            Some(tap) => bind("tap", tap.listen, backlog, 1, CONTROL_LISTEN_ADDR.name())?.pop(),
            None => None,
        };
        Ok(Self {
            outbound,
            inbound,
            admin: admin.swap_remove(0),
            tap,
        })
    }

    /// The addresses of the sockets.
    pub fn addresses(&self) -> io::Result<ListenAddresses> {
        let first = |sockets: &Vec<TcpListener>| sockets[0].local_addr();
        Ok(ListenAddresses {
            outbound: self.outbound.iter().map(first).collect::<Result<_, _>>()?,
            inbound: self
                .inbound
                .first()
                .map(TcpListener::local_addr)
                .transpose()?,
            admin: self.admin.local_addr()?,
            tap: self.tap.as_ref().map(TcpListener::local_addr).transpose()?,
        })
    }

    /// The sockets of the control thread, and the listeners of the workers.
    pub fn into_parts(self) -> (ControlSockets, Vec<ConfiguredListener>) {
        let outbound = self.outbound.into_iter().enumerate();
        let outbound = outbound.map(|(index, sockets)| match index {
            0 => (ListenerSpec::outbound("outbound"), sockets),
            _ => (ListenerSpec::outbound(format!("outbound-{index}")), sockets),
        });
        let inbound =
            (!self.inbound.is_empty()).then_some((ListenerSpec::inbound("inbound"), self.inbound));
        let control = ControlSockets {
            admin: self.admin,
            tap: self.tap,
        };
        (control, outbound.chain(inbound).collect())
    }
}

/// A listener of the configuration, with one socket for each worker.
pub type ConfiguredListener = (ListenerSpec, Vec<TcpListener>);

impl ProxyListeners {
    /// Adds the listeners of the configuration.
    pub async fn add_configured(
        &mut self,
        configured: Vec<ConfiguredListener>,
    ) -> Result<(), ListenerError> {
        for (listener, sockets) in configured {
            let addr = sockets.first().map(TcpListener::local_addr);
            // There is a socket, as there is a worker.
            let Some(addr) = addr.transpose().map_err(|error| {
                let name = listener.name.clone();
                ListenerError::Socket { name, error }
            })?
            else {
                continue;
            };
            self.add(listener, addr, sockets).await?;
        }
        Ok(())
    }
}
