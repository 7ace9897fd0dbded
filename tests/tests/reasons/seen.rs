//! Places where a reason must be seen.

use linkerd_tests::{Proxy, Reply, SOON, eventually};

/// The proof that a reason was seen everywhere.
pub struct Seen(());

/// The reasons of the document, by their labels.
pub fn documented() -> impl Iterator<Item = &'static str> {
    DOCUMENT.lines().filter_map(|line| line.strip_prefix("## "))
}

/// The label of a reason whose test has this name.
pub fn label(name: &'static str) -> &'static str {
    name.strip_prefix("r#").unwrap_or(name)
}

/// Checks the reason in the headers of the response, and in all other places.
pub async fn answered(proxy: &Proxy, reply: &Reply, name: &'static str) -> Seen {
    let label = label(name);
    let (origin, phase) = origin_and_phase(label);
    let status = reply.header("proxy-status").unwrap_or_default();
    assert_told(status, label);
    assert!(reply.header("l5d-proxy-error").is_some(), "{reply:?}");
    if let Some(message) = reply.header("grpc-message") {
        let fields = format!("(reason {label}, origin {origin}, phase {phase}; ");
        assert!(message.contains(&fields), "{message}");
    }
    unanswered(proxy, name).await
}

/// Checks the reason in the head of a response as it was sent, and in all other places.
pub async fn answered_in_bytes(proxy: &Proxy, head: &str, name: &'static str) -> Seen {
    assert_told(head, label(name));
    assert!(head.contains("\r\nl5d-proxy-error: "), "{head}");
    unanswered(proxy, name).await
}

fn assert_told(headers: &str, label: &str) {
    let (origin, phase) = origin_and_phase(label);
    for part in [
        format!("; details=\"{label}\"; side="),
        format!("; origin={origin}; phase={phase}"),
        "; hint=\"".to_owned(),
    ] {
        assert!(headers.contains(&part), "{part}: {headers}");
    }
}

/// Checks the reason in the metrics, in `/state` and in the log. For failures without headers of the proxy.
pub async fn unanswered(proxy: &Proxy, name: &'static str) -> Seen {
    let label = label(name);
    let (origin, phase) = origin_and_phase(label);
    let labels = [("reason", label), ("origin", &origin), ("phase", &phase)];
    proxy
        .metric_reaches("proxy_failures_total", &labels, 1.0)
        .await;
    let record = eventually(SOON, "it is among the last failures", || async {
        let mut state = proxy.admin.state().await;
        let last = state["failures"]["last"].take();
        let mut last = last.as_array().unwrap().clone().into_iter();
        last.find(|record| record["reason"] == label)
    })
    .await;
    assert_eq!(
        (&record["origin"], &record["phase"]),
        (&origin.into(), &phase.into())
    );
    assert!(!record["hint"].as_str().unwrap().is_empty(), "{record}");
    assert!(!record["detail"].as_str().unwrap().is_empty(), "{record}");
    proxy.wait_for_log(&format!("reason=\"{label}\"")).await;
    Seen(())
}

/// Origin and phase of a reason in the document.
fn origin_and_phase(label: &str) -> (String, String) {
    let heading = format!("\n## {label}\n");
    let (_, section) = DOCUMENT
        .split_once(&heading)
        .expect("the reason is documented");
    let (_, line) = section.split_once("\nOrigin: `").unwrap();
    let (origin, line) = line.split_once("`. Phase: `").unwrap();
    let (phase, _) = line.split_once('`').unwrap();
    (origin.to_owned(), phase.to_owned())
}

const DOCUMENT: &str = include_str!("../../../docs/reasons.md");
