//! Addresses that must not be dialled.

use super::{
    OwnListeners,
    address::{reached, reached_ip},
};
use crate::{Error, Reason};
use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

/// Addresses that must not be dialled.
///
/// Targets come from clients and from the control plane: they must reach neither listeners on loopback only nor this proxy
/// itself.
#[derive(Clone, Debug)]
pub struct DialGuard {
    /// Whether loopback addresses may be dialled.
    pub allow_loopback: bool,
    /// The proxy's own listeners, as they are added and removed.
    pub listeners: OwnListeners,
    /// The admin server, if its address must not be dialled either.
    pub admin: Option<SocketAddr>,
    /// The addresses of this machine or pod: each of them reaches a listener on all addresses.
    pub local_ips: Arc<[IpAddr]>,
}

impl DialGuard {
    /// Refuses an address before it is dialled.
    pub fn check(&self, addr: SocketAddr) -> Result<(), Error> {
        let is = reached(addr);
        let is_local = is.ip().is_loopback() || self.local_ips.contains(&is.ip());
        self.check_reached(is, is_local)
            .map_err(|error| error.peer(addr))
    }

    /// Checks both ends of an established connection: addresses of the machine may have changed since the dial, and a
    /// connection from an address to itself stays on this machine.
    pub fn check_connected(&self, local: SocketAddr, peer: SocketAddr) -> Result<(), Error> {
        let is = reached(peer);
        let is_local = is.ip().is_loopback() || is.ip() == reached_ip(local.ip());
        self.check_reached(is, is_local)
            .map_err(|error| error.peer(peer))
    }

    fn check_reached(&self, is: SocketAddr, is_local: bool) -> Result<(), Error> {
        if is.ip().is_loopback() && !self.allow_loopback {
            return Err(Error::new(Reason::Prohibited));
        }
        let is_own = |own: &SocketAddr| {
            let everywhere = own.ip().is_unspecified() && is_local;
            own.port() == is.port() && (everywhere || reached_ip(own.ip()) == is.ip())
        };
        match self.admin.as_ref().is_some_and(is_own) || self.listeners.any(is_own) {
            true => Err(Error::new(Reason::Loop)),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn guard(allow_loopback: bool) -> DialGuard {
        DialGuard {
            allow_loopback,
            listeners: OwnListeners::from_iter(["127.0.0.1:4140".parse().unwrap()]),
            admin: Some("0.0.0.0:4191".parse().unwrap()),
            local_ips: ["10.0.0.9".parse().unwrap()].into(),
        }
    }

    fn reason(guard: &DialGuard, addr: &str) -> Option<Reason> {
        let checked = guard.check(addr.parse().unwrap());
        checked.err().map(|error| error.reason())
    }

    #[test]
    fn loopback_is_dialled_only_where_that_is_allowed_however_it_is_spelt() {
        for addr in [
            "127.0.0.1:80",
            "127.8.8.8:80",
            "[::1]:80",
            "0.0.0.0:80",
            "[::]:80",
            "[::ffff:127.0.0.1]:80",
            "[::ffff:0.0.0.0]:80",
            "[::127.0.0.1]:80",
        ] {
            assert_eq!(reason(&guard(false), addr), Some(Reason::Prohibited));
            assert_eq!(reason(&guard(true), addr), None);
        }
        assert_eq!(reason(&guard(false), "10.0.0.1:80"), None);
    }

    #[test]
    fn the_proxy_never_dials_itself_however_it_is_spelt() {
        for addr in [
            "127.0.0.1:4140",
            "0.0.0.0:4140",
            "[::ffff:127.0.0.1]:4140",
            "127.0.0.1:4191",
            "127.0.0.2:4191",
            "[::1]:4191",
            "[::]:4191",
            "10.0.0.9:4191",
            "[::ffff:10.0.0.9]:4191",
            "[::10.0.0.9]:4191",
        ] {
            assert_eq!(reason(&guard(true), addr), Some(Reason::Loop), "{addr}");
        }
        assert_eq!(reason(&guard(true), "10.0.0.8:4191"), None);
        assert_eq!(reason(&guard(true), "127.0.0.2:4140"), None);
    }

    #[test]
    fn a_listener_is_refused_from_when_it_is_added_until_it_is_removed() {
        let (guard, addr) = (guard(true), "127.0.0.1:4500");
        assert_eq!(reason(&guard, addr), None);
        guard.listeners.add(addr.parse().unwrap());
        assert_eq!(reason(&guard, addr), Some(Reason::Loop));
        guard.listeners.remove(addr.parse().unwrap());
        assert_eq!(reason(&guard, addr), None);
    }

    #[test]
    fn an_address_that_the_machine_got_later_is_seen_when_it_is_connected() {
        let (local, peer) = ("10.0.0.7:40000", "10.0.0.7:4191");
        let guard = guard(true);
        assert_eq!(reason(&guard, peer), None);
        let checked = guard.check_connected(local.parse().unwrap(), peer.parse().unwrap());
        assert_eq!(checked.unwrap_err().reason(), Reason::Loop);
        let elsewhere =
            guard.check_connected(local.parse().unwrap(), "10.0.0.8:4191".parse().unwrap());
        assert!(elsewhere.is_ok());
    }

    proptest! {
        #[test]
        fn what_is_allowed_is_neither_loopback_nor_a_listener(ip: IpAddr, port in 4138u16..4193) {
            let guard = guard(false);
            if guard.check((ip, port).into()).is_ok() {
                let is = reached_ip(ip);
                prop_assert!(!is.is_loopback());
                prop_assert!(port != 4191 || !guard.local_ips.contains(&is));
            }
        }
    }
}
