//! Names of containers and volumes, and the mount paths of volumes.

/// The name of the proxy's container.
pub(crate) const PROXY: &str = "linkerd-proxy";

/// The names of the containers that check or redirect traffic.
pub(crate) const INIT: &str = "linkerd-init";
pub(crate) const VALIDATOR: &str = "linkerd-network-validator";

/// The names of the volumes.
pub(crate) const VOLUMES: &[&str] = &[LOCK_VOLUME, IDENTITY_VOLUME, TOKEN_VOLUME];

pub(super) const LOCK_VOLUME: &str = "linkerd-proxy-init-xtables-lock";
pub(super) const IDENTITY_VOLUME: &str = "linkerd-identity-end-entity";
pub(super) const TOKEN_VOLUME: &str = "linkerd-identity-token";
pub(super) const IDENTITY_DIR: &str = "/var/run/linkerd/identity/end-entity";
pub(super) const TOKEN_DIR: &str = "/var/run/secrets/tokens";
