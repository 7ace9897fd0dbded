//! Capabilities of the programs that set the rules.

use rustix::thread::{
    CapabilitySet, capabilities, configure_capability_in_ambient_set, set_capabilities,
};
use std::io;

/// Passes NET_ADMIN and NET_RAW, as far as this thread may use them, to the programs that it starts.
///
/// A program started by a user other than root only has the capabilities of its file, so that each iptables program would
/// need them. Ambient capabilities make that unnecessary, and the file of this program may have them as permitted only: so
/// the same file also starts as the proxy, in a container without any capability.
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
        // Without the capability the programs fail, and explain it.
        let _ = configure_capability_in_ambient_set(capability, true);
    }
}

/// Gives up NET_RAW for this thread and those that it starts. To be called before there are others.
///
/// The program's file has it as permitted, for [`pass_on`]; a container that does not drop it would leave it to the proxy, which
/// opens no raw socket.
pub fn drop_net_raw() -> io::Result<()> {
    let mut own = capabilities(None)?;
    own.permitted -= CapabilitySet::NET_RAW;
    own.effective -= CapabilitySet::NET_RAW;
    // With it goes the ambient capability.
    own.inheritable -= CapabilitySet::NET_RAW;
    Ok(set_capabilities(None, own)?)
}
