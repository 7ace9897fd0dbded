//! Loads the settings of taps.

use super::super::reader::Reader;
use super::super::variables::*;
use crate::config::{TapConfig, TapServerConfig};

/// Taps. The server is on if its client is named.
pub(super) fn tap(r: &mut Reader<'_>) -> TapConfig {
    let listen = r.value(&CONTROL_LISTEN_ADDR);
    let client = r.given(&TAP_SVC_NAME);
    let is_disabled = r.given(&TAP_DISABLED).is_some_and(|text| !text.is_empty());
    // The grammar accepts identities only.
    let client = client.and_then(|client| client.parse().ok());
    let client = client.filter(|_| !is_disabled);
    TapConfig {
        server: client.map(|client| TapServerConfig { listen, client }),
        shows_secrets: r.value(&TAP_SECRET_HEADERS),
    }
}

/// Warns of a tap server that refuses every client, as none can prove its identity.
pub(super) fn warn_without_identity(r: &mut Reader<'_>, tap: &TapConfig) {
    if tap.server.is_some() {
        r.warnings.push(format!(
            "{} is set, but this proxy has no identity: its tap server will refuse every client; set {} and its companions, \
             or unset it",
            TAP_SVC_NAME.name(),
            IDENTITY_LOCAL_NAME.name(),
        ));
    }
}
