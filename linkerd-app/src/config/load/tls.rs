//! Warnings about settings that need TLS, which this version does not have yet.

use crate::config::grammar::kinds::DnsName;
use crate::config::reader::Reader;
use crate::config::variables::*;
use crate::config::{ControlAddr, ControlConfig, DefaultPolicy};

/// Warns about controllers with a name to verify, an identity, and a policy that requires identities of clients.
pub(super) fn warn_without_tls(r: &mut Reader<'_>, control: &ControlConfig, policy: DefaultPolicy) {
    let warnings = [
        nameless(&DESTINATION_SVC_NAME, &control.destination),
        nameless(&POLICY_SVC_NAME, &control.policy),
        identity(r),
        closed(policy),
    ];
    r.warnings.extend(warnings.into_iter().flatten());
}

/// A controller on loopback has no TLS anyway, and no name.
fn nameless(name: &OptionalKey<DnsName>, controller: &ControlAddr) -> Option<String> {
    let (name, addr) = (name.name(), &controller.addr);
    controller.tls_name.as_ref()?;
    Some(format!(
        "{name} is set, but TLS is not built yet: {addr} is called in the clear and its identity is not \
         checked; use a controller that serves plaintext, over a network that you trust"
    ))
}

fn identity(r: &Reader<'_>) -> Option<String> {
    let names = r.set_for("identity");
    let is_one = names.len() == 1;
    let are = if is_one { "is" } else { "are" };
    let them = if is_one { "it" } else { "them" };
    let names = names.split_last().map(|(last, others)| match others {
        [] => (*last).to_owned(),
        others => format!("{} and {last}", others.join(", ")),
    })?;
    Some(format!(
        "{names} {are} set, but TLS is not built yet: the proxy has no identity, and all that it sends is in the \
         clear; unset {them}, or use this version where that is allowed"
    ))
}

fn closed(policy: DefaultPolicy) -> Option<String> {
    let open = match policy {
        DefaultPolicy::AllAuthenticated => DefaultPolicy::AllUnauthenticated,
        DefaultPolicy::ClusterAuthenticated => DefaultPolicy::ClusterUnauthenticated,
        _ => return None,
    };
    Some(format!(
        "{}={} lets nobody in: TLS is not built yet, so no client has an identity, and every inbound connection is \
         refused; set {} to let clients in without",
        INBOUND_DEFAULT_POLICY.name(),
        policy.name(),
        open.name()
    ))
}
