use super::*;
use crate::mesh::testing::{mesh, refused};

#[test]
fn endpoints_have_the_proxy_of_their_service_or_their_own() {
    let mesh = mesh(
        "
services:
  - name: web
    port: 80
    identity: Web.test
    proxyPort: 4143
    endpoints:
      - 127.0.0.1:1
      - {address: 'backend.test:2', identity: other.test}
      - {address: '127.0.0.1:3', proxyPort: 5143}
",
    );
    let web = &mesh.services[0];
    let addr = |port| Endpoint::new(([127, 0, 0, 1], port).into());
    let expected = [
        addr(1).identity("web.test").inbound_port(4143),
        addr(3).identity("web.test").inbound_port(5143),
    ];
    assert_eq!(web.endpoints, expected);
    let of_host = &web.hosts[0].endpoint;
    assert_eq!(of_host.identity.as_deref(), Some("other.test"));
    assert_eq!(of_host.inbound_port, Some(4143));
}

#[test]
fn wrong_endpoints_are_refused() {
    for (endpoints, problem) in [
        (
            "127.0.0.1:1",
            "4:14: expected a list, each item on a line that begins with `- `",
        ),
        (
            "[80]",
            "4:15: \"80\" is not an endpoint's address; write an IP address or a host name",
        ),
        (
            "[we~b:80]",
            "4:15: \"we~b:80\" is not an endpoint's address; write an IP address or a host name",
        ),
        (
            "[256.0.0.1:80]",
            "4:15: \"256.0.0.1:80\" is not an endpoint's address",
        ),
        (
            "['web:80', 'WEB.:80']",
            "4:25: endpoint WEB.:80 is listed twice",
        ),
        (
            "[[]]",
            "4:15: expected an address such as 127.0.0.1:9001, or `address:` with its other fields, not a list",
        ),
        (
            "['http://user:pass@web:80']",
            "4:15: an endpoint's address has no user, no password and no `@`; write an IP address or a host name",
        ),
        (
            "[127.0.0.1]",
            "4:15: \"127.0.0.1\" is not an endpoint's address",
        ),
        (
            "['::1:9001']",
            "4:15: \"::1:9001\" is not an endpoint's address; write an IPv6 address in brackets, with a port: '[::1]:9001'",
        ),
        (
            "['[::1]']",
            "4:15: \"[::1]\" is not an endpoint's address; write an IPv6 address in brackets, with a port: '[::1]:PORT'",
        ),
        (
            "[127.0.0.1:0]",
            "4:15: endpoint 127.0.0.1:0 has port 0; use 1 to 65535",
        ),
        (
            "['127.0.0.1:1', '127.0.0.1:1']",
            "4:30: endpoint 127.0.0.1:1 is listed twice",
        ),
        ("[{weight: 1}]", "4:15: the endpoint has no `address`"),
        (
            "[{adress: '127.0.0.1:1'}]",
            "4:16: unknown field `adress`; did you mean `address`?",
        ),
        (
            "[{address: '127.0.0.1:1', protocol: h3}]",
            "4:50: `h3` is no protocol; use h2 or opaque",
        ),
        (
            "[{address: '127.0.0.1:1', identity: we b}]",
            "4:50: `we b` is not the identity of a proxy; write one DNS name, such as",
        ),
        (
            "[{address: '127.0.0.1:1', identity: a.test, proxyPort: 0}]",
            "4:69: 0 is not between 1 and 65535",
        ),
        (
            "[{address: '127.0.0.1:1', proxyPort: 4143}]",
            "4:51: a `proxyPort` takes mutual TLS only; add the `identity`",
        ),
        (
            "[{address: '127.0.0.1:1', identity: a.test, proxyPort: 1}]",
            "4:15: endpoint 127.0.0.1:1 has the `proxyPort` itself; give the port of the application",
        ),
        (
            "[{address: '127.0.0.1:1', weight: -1}]",
            "4:15: weight -1 is not between 0 and 100000",
        ),
        (
            "[{address: '127.0.0.1:1', weight: .nan}]",
            "4:15: weight NaN is not between 0 and 100000",
        ),
        (
            "[{address: '127.0.0.1:1', weight: 0}]",
            "4:15: all endpoints have weight 0; give one of them",
        ),
    ] {
        refused(
            &format!("services:\n- name: web\n  port: 80\n  endpoints: {endpoints}\n"),
            problem,
        );
    }
}
