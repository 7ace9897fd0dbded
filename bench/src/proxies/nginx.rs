//! nginx, if it is installed.

use super::{Setup, Subject};
use crate::{
    error::{Context, Result},
    net::PROXY,
    process::{Program, find},
    workload::Protocol,
};
use std::{
    fmt::Write,
    fs,
    path::{Path, PathBuf},
};

/// Debian's nginx.
pub struct Nginx(PathBuf);

impl Nginx {
    /// The installed nginx, if any.
    pub fn find() -> Option<Self> {
        find("nginx").map(Self)
    }
}

impl Subject for Nginx {
    fn name(&self) -> &str {
        "nginx"
    }

    fn programs(&self, setup: &Setup<'_>) -> Result<Vec<Program>> {
        if setup.mesh.is_some() || !supports(setup.protocol) {
            return Ok(Vec::new());
        }
        let file = setup.scratch.join("nginx.conf");
        fs::write(&file, config(setup)).context("nginx.conf")?;
        let program = Program::new(&self.0)
            .arg("-c")
            .arg(file.display())
            .args(["-e", "stderr", "-p"])
            .arg(setup.scratch.display());
        Ok(vec![program])
    }
}

/// Whether nginx supports the protocol: it speaks no HTTP/2 to backends, and TCP only with a module.
fn supports(protocol: Protocol) -> bool {
    match protocol {
        Protocol::Http1 => true,
        Protocol::Http2 => false,
        Protocol::Opaque => Path::new(STREAM_MODULE).exists(),
    }
}

fn config(setup: &Setup<'_>) -> String {
    let scratch = setup.scratch.display();
    let mut servers = String::new();
    for endpoint in &setup.endpoints {
        let _ = write!(servers, "server {endpoint}; ");
    }
    let global = format!(
        "worker_processes {};\ndaemon off;\npid {scratch}/nginx.pid;\n\
         events {{ worker_connections 16384; }}\n",
        setup.workers
    );
    if setup.protocol == Protocol::Opaque {
        return format!(
            "load_module {STREAM_MODULE};\n{global}stream {{\n\
             upstream web {{ {servers} }}\n\
             server {{ listen {PROXY}; proxy_pass web; }}\n}}\n"
        );
    }
    let mut temporary = String::new();
    for name in ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"] {
        let _ = writeln!(temporary, "{name}_temp_path {scratch}/nginx-{name};");
    }
    format!(
        "{global}http {{\naccess_log off;\n{temporary}\
         upstream web {{ {servers} keepalive 1024; keepalive_requests 1000000000; }}\n\
         server {{\nlisten {PROXY};\nkeepalive_requests 1000000000;\nclient_max_body_size 0;\n\
         location / {{\nproxy_pass http://web;\nproxy_http_version 1.1;\n\
         proxy_set_header Connection \"\";\nproxy_set_header Host $http_host;\n}}\n}}\n}}\n"
    )
}

const STREAM_MODULE: &str = "/usr/lib/nginx/modules/ngx_stream_module.so";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proxies::tests::setup;

    #[test]
    fn connections_to_backends_are_kept() {
        let config = config(&setup(Protocol::Http1, Path::new("/scratch")));
        for part in [
            "worker_processes 2;",
            "server 10.9.0.11:8080; server 10.9.0.12:8080;",
            "keepalive 1024;",
            "listen 127.0.0.1:4140;",
        ] {
            assert!(config.contains(part), "{part} is not in {config}");
        }
    }
}
