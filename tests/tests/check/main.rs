//! The command `check`, before the start and against running proxies.

#![allow(clippy::unwrap_used, missing_docs)]

mod before_start;
mod running;

use linkerd_tests::{Builder, Exit};
use serde_json::Value;

/// The document of `check --output json`.
struct Checked {
    code: i32,
    document: Value,
}

impl Checked {
    /// Runs `check` with the environment of a proxy, and these arguments.
    async fn run(proxy: Builder, arguments: &[&str]) -> Self {
        let arguments = [&["check", "--output", "json"], arguments].concat();
        let Exit { status, output } = proxy.arguments(&arguments).run().await;
        let document = serde_json::from_str(&output);
        Self {
            code: status.code().unwrap(),
            document: document.unwrap_or_else(|error| panic!("{error}: {output}")),
        }
    }

    /// The line with a name, in a section.
    fn line(&self, section: &str, name: &str) -> &Value {
        let lines = self.document["checks"].as_array().unwrap();
        let mut lines = lines.iter();
        lines
            .find(|line| line["section"] == section && line["name"] == name)
            .unwrap_or_else(|| panic!("no {section}: {name} in {:#}", self.document))
    }

    /// Asserts the status of a line, and texts in its detail and its fix.
    fn assert(&self, section: &str, name: &str, status: &str, detail: &str, fix: &str) {
        let line = self.line(section, name);
        assert_eq!(line["status"], status, "{line:#}");
        for (field, part) in [("detail", detail), ("fix", fix)] {
            let text = line[field].as_str().unwrap_or_default();
            assert!(text.contains(part), "{part} in {line:#}");
        }
    }

    /// Asserts that exactly these lines fail.
    fn assert_only_failures(&self, names: &[&str]) {
        let lines = self.document["checks"].as_array().unwrap().iter();
        let failed = lines.filter(|line| line["status"] == "fail");
        let failed: Vec<_> = failed.map(|line| line["name"].as_str().unwrap()).collect();
        assert_eq!(failed, names, "{:#}", self.document);
    }
}
