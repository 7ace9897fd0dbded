//! Warnings about settings that need an identity, in a proxy that has none.

use crate::config::grammar::kinds::DnsName;
use crate::config::reader::Reader;
use crate::config::variables::*;
use crate::config::{ControlAddr, ControlConfig, DefaultPolicy};

/// Warns about controllers with a name to verify, an identity, and a policy that requires identities of clients.
pub(super) fn warn_without_tls(r: &mut Reader<'_>, control: &ControlConfig, policy: DefaultPolicy) {
    let warnings = [
        nameless(&DESTINATION_SVC_NAME, &control.destination),
        nameless(&POLICY_SVC_NAME, &control.policy),
        closed(policy),
    ];
    r.warnings.extend(warnings.into_iter().flatten());
}

/// A controller on loopback has no TLS anyway, and no name.
fn nameless(name: &OptionalKey<DnsName>, controller: &ControlAddr) -> Option<String> {
    let (name, addr) = (name.name(), &controller.addr);
    controller.tls_name.as_ref()?;
    Some(format!(
        "{name} is set, but this proxy has no identity: {addr} is called in the clear and its identity is not \
         checked; set {}, or use a controller that serves plaintext, over a network that you trust",
        IDENTITY_LOCAL_NAME.name()
    ))
}

fn closed(policy: DefaultPolicy) -> Option<String> {
    let open = match policy {
        DefaultPolicy::AllAuthenticated => DefaultPolicy::AllUnauthenticated,
        DefaultPolicy::ClusterAuthenticated => DefaultPolicy::ClusterUnauthenticated,
        _ => return None,
    };
    Some(format!(
        "{}={} lets nobody in: this proxy has no identity, so no client can show one, and every inbound connection is \
         refused; set {}, or {} to let clients in without",
        INBOUND_DEFAULT_POLICY.name(),
        policy.name(),
        IDENTITY_LOCAL_NAME.name(),
        open.name()
    ))
}
