//! HAProxy, if it is installed.

use super::{Setup, Subject};
use crate::{
    error::{Context, Result},
    net::PROXY,
    process::{Program, find},
    workload::Protocol,
};
use std::{fmt::Write, fs, path::PathBuf};

/// Debian's HAProxy.
pub struct Haproxy(PathBuf);

impl Haproxy {
    /// The installed HAProxy, if any.
    pub fn find() -> Option<Self> {
        find("haproxy").map(Self)
    }
}

impl Subject for Haproxy {
    fn name(&self) -> &str {
        "haproxy"
    }

    fn programs(&self, setup: &Setup<'_>) -> Result<Vec<Program>> {
        if setup.mesh.is_some() {
            return Ok(Vec::new());
        }
        let file = setup.scratch.join("haproxy.cfg");
        fs::write(&file, config(setup)).context("haproxy.cfg")?;
        let program = Program::new(&self.0).args(["-db", "-f"]);
        Ok(vec![program.arg(file.display())])
    }
}

fn config(setup: &Setup<'_>) -> String {
    let (mode, proto) = match setup.protocol {
        Protocol::Http1 => ("http", ""),
        Protocol::Http2 => ("http", " proto h2"),
        Protocol::Opaque => ("tcp", ""),
    };
    // Bytes of TCP are moved through pipes of the largest size that the system grants, as HAProxy's manual advises.
    let (reuse, pipes) = match mode {
        "http" => ("    http-reuse always\n", ""),
        _ => ("    option splice-auto\n", "    tune.pipesize 1048576\n"),
    };
    let mut config = format!(
        "global\n    nbthread {}\n    maxconn 4000\n{pipes}\
         defaults\n    mode {mode}\n    timeout connect 5s\n    timeout client 60s\n    timeout server 60s\n\
         frontend in\n    bind {PROXY}{proto}\n    default_backend web\n\
         backend web\n    balance roundrobin\n{reuse}",
        setup.workers
    );
    for (number, endpoint) in setup.endpoints.iter().enumerate() {
        let _ = writeln!(config, "    server s{number} {endpoint}{proto}");
    }
    config
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proxies::tests::setup;
    use std::path::Path;

    #[test]
    fn it_speaks_the_same_to_both_sides() {
        let config = |protocol| config(&setup(protocol, Path::new("/scratch")));
        assert!(config(Protocol::Http2).contains("bind 127.0.0.1:4140 proto h2"));
        assert!(config(Protocol::Http2).contains("server s1 10.9.0.12:8080 proto h2"));
        let tcp = config(Protocol::Opaque);
        assert!(tcp.contains("mode tcp") && tcp.contains("splice-auto"));
    }
}
