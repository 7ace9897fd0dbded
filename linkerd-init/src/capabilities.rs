//! Capabilities of the programs that set the rules.

use rustix::thread::{
    CapabilitySet, capabilities, configure_capability_in_ambient_set, set_capabilities,
};

/// Passes on NET_ADMIN and NET_RAW, as far as this thread may use them, to the programs that it starts.
///
/// Of another user than root a program that is started has the capabilities of its file alone, so that each program of
/// iptables would need them. As ambient ones they need none, and the file of this program may have them as permitted only:
/// as the proxy, in a container without any capability, the same file then starts all the same.
pub(crate) fn pass_on() {
    let Ok(mut own) = capabilities(None) else {
        return;
    };
    let passed = own.permitted & (CapabilitySet::NET_ADMIN | CapabilitySet::NET_RAW);
    own.effective |= passed;
    own.inheritable |= passed;
    if set_capabilities(None, own).is_err() {
        return;
    }
    for capability in passed.iter() {
        // Without it the programs fail, and say why.
        let _ = configure_capability_in_ambient_set(capability, true);
    }
}
