//! The network namespace, and the kernel's settings in it.

use crate::InitError;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::{
    fs::{self, File, OpenOptions},
    io,
    os::fd::AsFd,
    path::Path,
};

/// Moves this thread into the network namespace at a path, such as `/var/run/netns/pod`.
pub fn enter_namespace(path: &Path) -> Result<(), InitError> {
    let failed = |error: io::Error| InitError::File {
        path: path.display().to_string(),
        error,
    };
    let namespace = File::open(path).map_err(failed)?;
    let network = Some(LinkNameSpaceType::Network);
    move_into_link_name_space(namespace.as_fd(), network).map_err(|error| failed(error.into()))
}

/// The time after which the kernel forgets connections that one side has closed.
pub(crate) struct CloseWait {
    seconds: u32,
}

impl CloseWait {
    /// Checks that the setting can be changed. It may not exist before the first rule: then only the change itself can tell.
    pub(crate) fn prepare(seconds: u32) -> Result<Self, InitError> {
        match OpenOptions::new().write(true).open(CLOSE_WAIT) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed(error)),
            _ => Ok(Self { seconds }),
        }
    }

    pub(crate) fn set(&self) -> Result<(), InitError> {
        fs::write(CLOSE_WAIT, self.seconds.to_string()).map_err(failed)
    }
}

fn failed(error: io::Error) -> InitError {
    InitError::File {
        path: CLOSE_WAIT.to_owned(),
        error,
    }
}

const CLOSE_WAIT: &str = "/proc/sys/net/netfilter/nf_conntrack_tcp_timeout_close_wait";
