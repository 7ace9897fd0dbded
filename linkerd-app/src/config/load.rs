//! Loads a [`Config`] from the environment: reads each variable by its row, and checks values that depend on each
//! other.

mod access_log;
mod control;
mod directions;
mod identity;
mod spire;
mod tap;
mod tls;
mod trace;

use super::effective::EffectiveValue;
use super::reader::Reader;
use super::variables::*;
use super::{
    AdminConfig, Config, ConfigErrors, DiscoveryConfig, DnsConfig, Env, LogConfig, OutboundConfig,
    ShutdownConfig, WorkersConfig,
};
use std::net::{IpAddr, SocketAddr};

/// A configuration, with its warnings and notes.
#[derive(Clone, Debug)]
pub struct LoadedConfig {
    /// The configuration.
    pub config: Config,
    /// Probable mistakes: each is worth a line at WARN.
    pub warnings: Vec<String>,
    /// Surprising effects: each is worth a line at INFO.
    pub notes: Vec<String>,
    /// Effective values of all variables, in the order of the table.
    pub effective: Vec<EffectiveValue>,
}

impl Config {
    /// Loads the configuration, or reports all of its errors.
    pub fn load(env: &Env) -> Result<LoadedConfig, ConfigErrors> {
        let mut reader = Reader::new(env);
        let config = config(&mut reader);
        reader.finish();
        match config {
            Some(config) if reader.errors.is_empty() => {
                let effective = reader.effective();
                Ok(LoadedConfig {
                    config,
                    warnings: reader.warnings,
                    notes: reader.notes,
                    effective,
                })
            }
            _ => Err(ConfigErrors {
                errors: reader.errors,
                warnings: reader.warnings,
            }),
        }
    }
}

impl LogConfig {
    /// Loads the settings of the log. It cannot fail, so that logging works before all else is read; [`Config::load`]
    /// reports the errors.
    pub fn load(env: &Env) -> Self {
        log(&mut Reader::new(env))
    }
}

/// Reads everything. `None` without a usable value; the reader has the errors.
fn config(r: &mut Reader<'_>) -> Option<Config> {
    let http2_client = directions::http2_client(r);
    let inbound = directions::inbound(r, http2_client.clone());
    let outbound = directions::outbound(r, http2_client.clone());
    let admin = admin(r);
    let tap = tap::tap(r);
    let tap_listen = tap.server.as_ref().map(|server| server.listen);
    listen_apart(r, inbound.listen, &outbound, &admin, tap_listen);
    let control = control::control(r, inbound.connect, outbound.connect, http2_client);
    if inbound.listen.is_some() {
        control::check_default_policy(r, inbound.default_policy);
    }
    let identity = identity::identity(r, inbound.connect, outbound.connect);
    let trace = trace::trace(r, inbound.connect, outbound.connect);
    let control = control?;
    let log = log(r);
    if identity.is_none() {
        tap::warn_without_identity(r, &tap);
        tls::warn_without_tls(r, &control, inbound.default_policy);
    }
    Some(Config {
        outbound,
        inbound,
        admin,
        tap,
        identity,
        dns: dns(r),
        discovery: DiscoveryConfig {
            max_destinations: r.value(&DISCOVERY_MAX_DESTINATIONS),
            max_endpoints: r.value(&DISCOVERY_MAX_ENDPOINTS),
        },
        workers: workers(r),
        access_log: access_log::access_log(r, log.is_off()),
        log,
        trace,
        header_timeout: r.value(&HTTP_HEADER_TIMEOUT),
        shutdown: ShutdownConfig {
            grace: r.value(&SHUTDOWN_GRACE_PERIOD),
            window: r.value(&SHUTDOWN_WINDOW),
        },
        control,
    })
}

fn admin(r: &mut Reader<'_>) -> AdminConfig {
    AdminConfig {
        listen: r.value(&ADMIN_LISTEN_ADDR),
        metrics_retain_idle: r.value(&METRICS_RETAIN_IDLE),
        native_histograms: r.value(&METRICS_NATIVE_HISTOGRAMS),
        shutdown_enabled: r.value(&SHUTDOWN_ENDPOINT_ENABLED),
        console: r.value(&ADMIN_CONSOLE),
    }
}

/// Checks that no listeners overlap. Workers share their ports, so the kernel does not refuse an address with two
/// listeners: it would hand connections to either.
fn listen_apart(
    r: &mut Reader<'_>,
    inbound: Option<SocketAddr>,
    outbound: &OutboundConfig,
    admin: &AdminConfig,
    tap: Option<SocketAddr>,
) {
    let outbound_name = if r.is_set(&OUTBOUND_LISTEN_ADDRS) {
        OUTBOUND_LISTEN_ADDRS.name()
    } else {
        OUTBOUND_LISTEN_ADDR.name()
    };
    let inbound = inbound.map(|addr| (INBOUND_LISTEN_ADDR.name(), addr));
    let mut listeners: Vec<_> = inbound.into_iter().collect();
    listeners.push((ADMIN_LISTEN_ADDR.name(), admin.listen));
    listeners.extend(tap.map(|addr| (CONTROL_LISTEN_ADDR.name(), addr)));
    listeners.extend(outbound.listen.iter().map(|&addr| (outbound_name, addr)));
    for (i, &(name, addr)) in listeners.iter().enumerate() {
        for &(other, other_addr) in &listeners[..i] {
            if overlap(addr, other_addr) {
                let problem =
                    format!("{other} ({other_addr}) and {name} ({addr}) listen on the same port");
                r.inconsistent(
                    problem,
                    Some("give each listener a port of its own".to_owned()),
                );
            }
        }
    }
}

/// Whether two listeners would get each other's connections. `[::]` accepts IPv4 too, unlike `0.0.0.0` for IPv6.
fn overlap(a: SocketAddr, b: SocketAddr) -> bool {
    let covers =
        |a: IpAddr, b: IpAddr| a == b || a.is_unspecified() && (a.is_ipv6() || b.is_ipv4());
    a.port() == b.port() && a.port() != 0 && (covers(a.ip(), b.ip()) || covers(b.ip(), a.ip()))
}

fn dns(r: &mut Reader<'_>) -> DnsConfig {
    let dns = DnsConfig {
        min_ttl: r.given(&DNS_MIN_TTL),
        max_ttl: r.given(&DNS_MAX_TTL),
    };
    if let (Some(min), Some(max)) = (dns.min_ttl, dns.max_ttl)
        && min > max
    {
        r.inconsistent(
            format!(
                "{} must not be more than {}",
                DNS_MIN_TTL.name(),
                DNS_MAX_TTL.name()
            ),
            None,
        );
    }
    dns
}

fn workers(r: &mut Reader<'_>) -> WorkersConfig {
    let fallback = r.lenient(&CORES);
    let min = r.lenient(&CORES_MIN).or_else(|| {
        r.derive(&CORES_MIN, fallback?);
        fallback
    });
    WorkersConfig {
        min: min.unwrap_or_else(|| CORES_MIN.default()),
        max: r.lenient(&CORES_MAX),
        max_ratio: r.lenient(&CORES_MAX_RATIO),
    }
}

fn log(r: &mut Reader<'_>) -> LogConfig {
    LogConfig {
        filter: r.value(&LOG),
        format: r
            .lenient(&LOG_FORMAT)
            .unwrap_or_else(|| LOG_FORMAT.default()),
    }
}
