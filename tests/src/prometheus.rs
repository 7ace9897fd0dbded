//! A real Prometheus that scrapes an admin server.

use crate::{Admin, ports};
use serde_json::Value;
use std::{fs, net::SocketAddr, process::Stdio};
use tokio::process::{Child, Command};

/// A Prometheus on loopback, with native histograms. Dropping it ends the process.
pub struct Prometheus {
    api: Admin,
    _files: tempfile::TempDir,
    _process: Child,
}

impl Prometheus {
    /// Starts a Prometheus that scrapes `target` each second. Its program is from Debian's package `prometheus`.
    pub async fn start(target: SocketAddr) -> Self {
        let files = tempfile::tempdir().unwrap();
        let config = files.path().join("prometheus.yaml");
        let job = format!("{{job_name: proxy, static_configs: [{{targets: ['{target}']}}]}}");
        let text = format!("global: {{scrape_interval: 1s}}\nscrape_configs: [{job}]\n");
        fs::write(&config, text).unwrap();
        // The port of a socket that is already closed.
        let addr = ports::addr_of(&ports::bound());
        let process = Command::new(PROMETHEUS)
            .arg(format!("--config.file={}", config.display()))
            .arg(format!("--storage.tsdb.path={}", files.path().display()))
            .arg(format!("--web.listen-address={addr}"))
            .arg("--enable-feature=native-histograms")
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        crate::eventually(crate::SOON, "Prometheus listens", || async {
            tokio::net::TcpStream::connect(addr).await.ok()
        })
        .await;
        Self {
            api: Admin { addr },
            _files: files,
            _process: process,
        }
    }

    /// The value of an expression with one result; `None` while there is none.
    pub async fn query(&self, expression: &str) -> Option<f64> {
        let escaped: String = expression.bytes().map(|b| format!("%{b:02x}")).collect();
        let reply = self
            .api
            .get(&format!("/api/v1/query?query={escaped}"))
            .await;
        let answer: Value = serde_json::from_slice(&reply.body).ok()?;
        answer["data"]["result"][0]["value"][1]
            .as_str()?
            .parse()
            .ok()
    }
}

/// The program of Debian's package.
pub const PROMETHEUS: &str = "/usr/bin/prometheus";
