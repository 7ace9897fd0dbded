//! The attributes of the process, which all its spans share.

use crate::{config::TraceResourceConfig, process};
use linkerd_proxy_core::trace::AttributeValue::{self, Int, Text};

/// The attributes of this process, read once: its id and start, then those of the configuration. The last value of a key counts.
pub(super) fn attributes(config: &TraceResourceConfig) -> Vec<(String, AttributeValue)> {
    let mut all = vec![("process.pid".to_owned(), Int(std::process::id().into()))];
    if let Some(start) = process::start_seconds() {
        all.push(("process.start_timestamp".to_owned(), Int(start)));
    }
    let named = [
        ("host.name", &config.host),
        ("service.name", &config.service),
    ];
    for (key, value) in named {
        if let Some(value) = value {
            set(&mut all, key, value);
        }
    }
    if let Some(path) = &config.path {
        match std::fs::read_to_string(path) {
            Ok(text) => set_all(&mut all, text.lines()),
            Err(error) => {
                let path = path.display();
                tracing::warn!(%path, %error, "The attributes of traces cannot be read");
            }
        }
    }
    if let Some(text) = &config.extra {
        set_all(&mut all, text.lines());
    }
    if let Some(text) = &config.otel {
        set_all(&mut all, text.split(['\n', ',']));
    }
    all
}

/// Sets `key=value`, with or without quotes. A line without `=` is skipped, as by linkerd2-proxy.
fn set_all<'l>(all: &mut Vec<(String, AttributeValue)>, lines: impl Iterator<Item = &'l str>) {
    for line in lines {
        if let Some((key, value)) = line.trim().split_once('=') {
            set(all, key, value.trim_matches('"'));
        }
    }
}

fn set(all: &mut Vec<(String, AttributeValue)>, key: &str, value: &str) {
    if let Some((_, known)) = all.iter_mut().find(|(name, _)| name == key) {
        *known = Text(value.to_owned());
    } else if all.len() < MAX_ATTRIBUTES {
        all.push((key.to_owned(), Text(value.to_owned())));
    }
}

/// The most attributes: each export has all of them.
const MAX_ATTRIBUTES: usize = 128;

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn later_sources_override_earlier_ones() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("labels");
        fs::write(&path, "app=\"web\"\nno attribute\nservice.name=\"file\"\n").unwrap();
        let all = attributes(&TraceResourceConfig {
            host: Some("pod".to_owned()),
            service: Some("proxy".to_owned()),
            path: Some(path),
            extra: Some("k8s.pod.ip=10.0.0.1\napp=extra".to_owned()),
            otel: Some("app=otel,team=a".to_owned()),
        });
        let text = |key: &str| {
            let found = all.iter().find(|(name, _)| name == key);
            found.and_then(|(_, value)| value.as_text())
        };
        assert_eq!(text("host.name"), Some("pod"));
        assert_eq!(text("service.name"), Some("file"));
        assert_eq!(text("k8s.pod.ip"), Some("10.0.0.1"));
        assert_eq!((text("app"), text("team")), (Some("otel"), Some("a")));
        assert_eq!(all[0].0, "process.pid");
        assert!(all.iter().any(|(key, value)| {
            key == "process.start_timestamp" && matches!(value, Int(at) if *at > 0)
        }));
    }

    #[test]
    fn a_file_that_cannot_be_read_leaves_the_others() {
        let all = attributes(&TraceResourceConfig {
            path: Some("/nowhere".into()),
            extra: Some("a=b".to_owned()),
            ..TraceResourceConfig::default()
        });
        assert!(all.contains(&("a".to_owned(), Text("b".to_owned()))));
    }
}
