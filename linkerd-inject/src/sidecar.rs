//! The parts that are added to a pod: containers and volumes.

mod env;
mod init;
mod input;
mod names;
mod proxy;
mod volumes;

pub(crate) use self::init::redirecting_container;
pub use self::input::MeshInstallation;
pub(crate) use self::input::Sidecar;
pub(crate) use self::names::{INIT, PROXY, VALIDATOR, VOLUMES};
pub(crate) use self::proxy::proxy_container;
pub(crate) use self::volumes::volumes;
