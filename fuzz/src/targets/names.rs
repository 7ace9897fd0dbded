//! Names and addresses, as requests and controllers spell them.

use super::{Target, texts};
use http::uri::Authority;
use linkerd_profiles::Target as Name;
use linkerd_proxy_core::http::host_and_port;

pub(super) const TARGET: Target = Target {
    name: "names",
    run,
    seeds: || {
        texts(&[
            "web.default.svc.cluster.local:80",
            "Web.Default.:8080",
            "10.0.0.1:80",
            "[::ffff:10.0.0.1]:65535",
            "user:secret@web:80",
            "web",
        ])
    },
    words: &[b"[::1]", b":0", b":65536", b"..", b"%25", b"@", b"xn--"],
};

/// Accepted text is displayed in an accepted form with the same meaning.
fn run(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    if let Ok(target) = text.parse::<Name>() {
        same(&target);
    }
    if let Ok(authority) = Authority::try_from(input) {
        let (host, port) = host_and_port(&authority, 80);
        if let Ok(target) = Name::new(&host, port) {
            same(&target);
        }
    }
}

fn same(target: &Name) {
    assert_ne!(target.port(), 0);
    assert_eq!(target.to_string().parse().as_ref(), Ok(target));
}
