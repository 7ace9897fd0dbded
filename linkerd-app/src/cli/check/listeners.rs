//! Addresses of the listeners: each can be bound now.

use super::{port_holder::port_holder, report::CheckLine};
use crate::config::{Config, variables};
use linkerd_proxy_core::transport;
use std::{io, net::SocketAddr};

/// A listener of the configuration.
struct ConfiguredAddress {
    name: &'static str,
    addr: SocketAddr,
    variable: &'static str,
}

/// Binds each address, and closes it at once. `is_proxy_there`: a proxy answers at the address of the admin server, and
/// may be the one that is configured here.
pub(super) fn check(config: &Config, is_proxy_there: bool) -> Vec<CheckLine> {
    let admin = port_holder(config.admin.listen.port());
    addresses(config)
        .into_iter()
        .map(|address| {
            let ConfiguredAddress {
                name,
                addr,
                variable,
            } = address;
            let line = format!("{name} {addr}");
            // Without SO_REUSEPORT, as the proxy binds: a shared port would be refused to it, too.
            let Err(error) = transport::bind(addr, None, 1) else {
                return CheckLine::ok(line, "can be bound");
            };
            let holder = port_holder(addr.port());
            let is_own = is_proxy_there && holder == admin;
            match error.kind() {
                io::ErrorKind::AddrInUse if is_own => {
                    let admin = config.admin.listen;
                    CheckLine::warn(line, "in use by a proxy that runs already")
                        .fix(format!("ask it: linkerd-proxy check --admin {admin}"))
                }
                io::ErrorKind::AddrInUse => {
                    let holder = holder.map_or("another process".to_owned(), |it| it.to_string());
                    let fix = format!("end that process, or set {variable} to another port");
                    CheckLine::failed(line, format!("in use by {holder}")).fix(fix)
                }
                io::ErrorKind::AddrNotAvailable => CheckLine::failed(line, error.to_string())
                    .fix(format!("set {variable} to an address of this host")),
                io::ErrorKind::PermissionDenied => CheckLine::failed(line, error.to_string())
                    .fix(format!("set {variable} to a port from 1024 on")),
                _ => CheckLine::failed(line, error.to_string())
                    .fix(format!("{variable} sets the address")),
            }
        })
        .collect()
}

fn addresses(config: &Config) -> Vec<ConfiguredAddress> {
    let address = |name, addr, variable| ConfiguredAddress {
        name,
        addr,
        variable,
    };
    let outbound = config.outbound.listen.iter();
    let outbound =
        outbound.map(|addr| address("outbound", *addr, variables::OUTBOUND_LISTEN_ADDRS.name()));
    let inbound = config.inbound.listen;
    let inbound =
        inbound.map(|addr| address("inbound", addr, variables::INBOUND_LISTEN_ADDR.name()));
    let admin = address(
        "admin",
        config.admin.listen,
        variables::ADMIN_LISTEN_ADDR.name(),
    );
    let tap = config.tap.server.as_ref();
    let tap = tap.map(|tap| address("tap", tap.listen, variables::CONTROL_LISTEN_ADDR.name()));
    outbound.chain(inbound).chain([admin]).chain(tap).collect()
}
