//! Dialers of each side of the proxy.

use crate::config::{Config, ConnectConfig};
use linkerd_proxy_core::transport::{
    ConnectOptions, DialGuard, Dialer, Network, OwnConnections, OwnListeners, Side,
};
use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

/// The dialers of both directions. They share the table of dialled connections.
#[derive(Clone, Debug)]
pub struct Dialers {
    /// Dials endpoints. Refuses loopback, unless that is allowed, and the proxy's own listeners.
    pub outbound: Arc<Dialer>,
    /// Dials applications, also on loopback. Refuses the proxy's own directions.
    pub inbound: Arc<Dialer>,
}

impl Dialers {
    /// Dialers of a proxy with these listeners, and its admin server at `admin`.
    pub fn new(
        config: &Config,
        listeners: &OwnListeners,
        admin: SocketAddr,
        own: &OwnConnections,
    ) -> Self {
        let local_ips = local_ips(config);
        let dialer = |side, connect: &ConnectConfig, allow_loopback, admin| Dialer {
            side,
            options: connect_options(connect),
            guard: DialGuard {
                allow_loopback,
                listeners: listeners.clone(),
                admin,
                local_ips: local_ips.clone(),
            },
            own: own.clone(),
            network: Network::System,
        };
        let (outbound, inbound) = (&config.outbound, &config.inbound);
        Self {
            outbound: Arc::new(dialer(
                Side::Outbound,
                &outbound.connect,
                outbound.allow_loopback,
                Some(admin),
            )),
            inbound: Arc::new(dialer(Side::Inbound, &inbound.connect, true, None)),
        }
    }
}

/// The dialer of a controller; any address is allowed.
pub fn controller(connect: &ConnectConfig, own: &OwnConnections) -> Arc<Dialer> {
    Arc::new(Dialer {
        side: Side::Control,
        options: connect_options(connect),
        guard: DialGuard {
            allow_loopback: true,
            listeners: OwnListeners::default(),
            admin: None,
            local_ips: [].into(),
        },
        own: own.clone(),
        network: Network::System,
    })
}

/// The configured addresses of the pod, and those that the machine has now. A later address is detected after the connect.
fn local_ips(config: &Config) -> Arc<[IpAddr]> {
    let mut ips: Vec<_> = config.inbound.ips.iter().copied().collect();
    match nix::ifaddrs::getifaddrs() {
        Ok(interfaces) => {
            let storages = interfaces.filter_map(|interface| interface.address);
            ips.extend(storages.filter_map(|address| {
                let v4 = address.as_sockaddr_in().map(|v4| IpAddr::V4(v4.ip()));
                v4.or_else(|| address.as_sockaddr_in6().map(|v6| IpAddr::V6(v6.ip())))
            }));
        }
        Err(error) => tracing::warn!(%error, "the addresses of this machine cannot be listed"),
    }
    ips.sort_unstable();
    ips.dedup();
    ips.into()
}

fn connect_options(connect: &ConnectConfig) -> ConnectOptions {
    ConnectOptions {
        timeout: connect.timeout,
        socket: connect.socket,
    }
}
