//! The grammars of values: each is a pure function from text to a value, with a type named by rows of the table.

mod access_log;
mod addrs;
mod balancer;
mod names;
mod scalars;
mod value;

pub use access_log::{access_log, access_log_format, access_log_output, header_names};
pub use addrs::{Addr, addr, ip_set, networks, port_set, socket_addr, socket_addrs};
pub use balancer::{affinity, balancer_load};
pub use names::{dns_name, identity, local_name, suffixes};
pub use scalars::{
    authority_labels, boolean, console_access, core_count, default_policy, duration, empty,
    forwarded_header, frame_size, log_format, non_empty, number, optional_duration, percentile,
    positive, ratio, send_buffer, share, switch, text, window,
};
pub use value::{Grammar, InvalidValue, ValueKind};

use super::{NameSuffixes, Networks};
use std::collections::{BTreeSet, HashSet};
use std::net::{IpAddr, SocketAddr};

macro_rules! grammars {
    ($( $type:ident -> $value:ty = $parse:expr, $name:literal, $expected:literal; )+) => {
        /// The grammars as types, named by rows of the table.
        pub mod kinds {
            use super::*;
            $(
                #[doc = concat!("Accepts ", $expected, ".")]
                #[derive(Clone, Copy, Debug)]
                pub struct $type;

                impl Grammar for $type {
                    type Value = $value;
                    const NAME: &'static str = $name;
                    const EXPECTED: &'static str = $expected;

                    fn parse(text: &str) -> Result<Self::Value, InvalidValue> {
                        $parse(text)
                    }
                }
            )+
        }

        /// Every grammar, in the order of the documentation.
        pub const KINDS: &[ValueKind] = &[ $( ValueKind::of::<kinds::$type>() ),+ ];
    };
}

grammars! {
    Duration -> std::time::Duration = duration, "duration",
        "a duration: an integer followed by ms, s, m, h or d";
    OptionalDuration -> Option<std::time::Duration> = optional_duration, "duration or empty",
        "a duration (an integer followed by ms, s, m, h or d), or nothing for no limit";
    Bool -> bool = boolean, "bool", "true or false";
    Switch -> bool = switch, "switch", "1, 0, true or false";
    Number -> u32 = number::<u32>, "u32", "an integer from 0 to 4294967295";
    Count -> usize = number::<usize>, "count", "an integer of 0 or more";
    Positive -> usize = positive, "positive", "an integer of 1 or more";
    Cores -> usize = core_count, "cores", "a number of cores: an integer of 1 or more";
    Ratio -> f64 = ratio, "ratio", "a number above 0 and up to 1";
    Share -> f64 = share, "share", "a number from 0 to 1";
    Percentile -> f64 = percentile, "percentile", "a number above 0 and below 100";
    Float -> f64 = number::<f64>, "float", "a number";
    Window -> u32 = window, "window", "a number of bytes from 0 to 2147483647, the largest HTTP/2 window";
    FrameSize -> u32 = frame_size, "frame size",
        "a number of bytes from 16384 to 16777215, the frame sizes of HTTP/2";
    SendBuffer -> usize = send_buffer, "buffer", "a number of bytes from 0 to 4294967295";
    SocketAddress -> SocketAddr = socket_addr, "address", "IP:PORT, with IPv6 in brackets";
    SocketAddresses -> Vec<SocketAddr> = socket_addrs, "addresses",
        "one or two IP:PORT (IPv6 in brackets), separated by a comma without spaces";
    Authority -> Addr = addr, "authority", "IP:PORT or DNSNAME:PORT";
    IpSet -> HashSet<IpAddr> = ip_set, "IPs", "IP addresses, separated by commas without spaces";
    PortSet -> BTreeSet<u16> = port_set, "ports", "ports and ranges of ports (N or N-M), separated by commas";
    NetworkList -> Networks = networks, "networks", "networks in CIDR notation (IP/LENGTH), separated by commas";
    Suffixes -> NameSuffixes = suffixes, "DNS suffixes",
        "DNS suffixes, separated by commas; the suffix . matches every name";
    DnsName -> String = dns_name, "DNS name", "a DNS name";
    Identity -> String = identity, "identity", "a DNS name without a trailing dot, or a URI such as spiffe://HOST/PATH";
    LocalName -> String = local_name, "local name", "a DNS name without a trailing dot";
    Text -> String = text, "text", "any text";
    NonEmpty -> String = non_empty, "non-empty text", "a text that is not empty";
    Empty -> () = empty, "nothing", "no value: this feature can't be disabled";
    BalancerLoad -> linkerd_balance::LoadKind = balancer_load, "load", "peak-ewma or least-pending";
    AffinitySource -> linkerd_balance::Affinity = affinity, "affinity", "header:NAME or cookie:NAME";
    LogFormat -> crate::config::LogFormat = log_format, "log format", "plain or json";
    AccessLog -> crate::config::AccessLogFormat = access_log, "access log", "apache or json";
    AccessLogFormat -> crate::config::AccessLogFormat = access_log_format, "access log format", "full or text";
    AccessLogOutput -> crate::config::AccessLogOutput = access_log_output, "access log output",
        "stdout, stderr, or the path of a file, beginning with a slash";
    HeaderNames -> Vec<http::HeaderName> = header_names, "header names",
        "at most 16 names of headers, separated by commas";
    DefaultPolicy -> crate::config::DefaultPolicy = default_policy, "policy",
        "deny, all-authenticated, all-unauthenticated, cluster-authenticated, cluster-unauthenticated or audit";
    ForwardedHeader -> crate::config::ForwardedHeader = forwarded_header, "forwarded header",
        "off, forwarded, x-forwarded-for or both";
    ConsoleAccess -> crate::config::ConsoleAccess = console_access, "console access", "off, loopback or all";
    AuthorityLabels -> bool = authority_labels, "authority labels", "unsafe, or nothing";
}
