//! The console in a real browser: its layout, its scripts, and its keyboard.

use linkerd_control::{Authorization, ServerPolicy};
use linkerd_tests::{
    Browser, CHROMIUM, Load, Meshed, Proxy, SOON, Server, eventually, is_installed,
};
use serde_json::Value;
use std::{net::Ipv4Addr, time::Duration};

#[tokio::test]
async fn the_page_is_readable_at_both_widths_in_both_schemes_without_errors() {
    let Some((mesh, mut browser)) = refusing_proxy().await else {
        return;
    };
    for (width, dark) in [(375, false), (375, true), (1280, false), (1280, true)] {
        browser.show(width, dark).await;
        open_console(&mut browser, &mesh.api).await;
        let shown = browser.value(READABLE).await;
        let what = format!("{width} px, dark: {dark}: {shown:#}");
        let lightness = shown["background"].as_f64().unwrap();
        assert_eq!(lightness < 0.5, dark, "{what}");
        assert!(shown["texts"].as_u64().unwrap() > 50, "{what}");
        assert_eq!(shown["faint"], Value::Array(Vec::new()), "{what}");
    }
    assert_eq!(browser.errors(), [""; 0]);
}

#[tokio::test]
async fn no_width_makes_the_page_scroll_sideways() {
    let Some((mesh, mut browser)) = refusing_proxy().await else {
        return;
    };
    for proxy in [&mesh.web, &mesh.api] {
        open_console(&mut browser, proxy).await;
        for width in [320, 375, 700, 701, 899, 900, 1099, 1100, 1280] {
            browser.show(width, false).await;
            let beyond = browser.value(BEYOND_THE_EDGE).await;
            assert_eq!(beyond, Value::Array(Vec::new()), "{width} px");
        }
    }
}

#[tokio::test]
async fn refused_requests_are_failures_of_the_inbound_side() {
    let Some((mesh, mut browser)) = refusing_proxy().await else {
        return;
    };
    open_console(&mut browser, &mesh.api).await;
    let _load = Load::through(&mesh.web, 1, Duration::from_millis(10), "http://api/");
    let card = |name: &str| {
        format!(
            "[...document.querySelectorAll('.card')].find((card) => card.textContent.startsWith('{name}'))?.lastChild"
        )
    };
    let success = card("Inbound success");
    let text = format!("{success}?.textContent");
    browser.wait_for(&format!("{text}?.endsWith('%')")).await;
    assert_eq!(browser.value(&text).await, "0.0 %");
    assert_eq!(browser.value(&format!("{success}.className")).await, "bad");
    let failures = format!("{}.textContent", card("Failures, last minute"));
    assert_ne!(browser.value(&failures).await, "0");
}

#[tokio::test]
async fn an_inbound_request_counts_once_whoever_fails_it() {
    let Some((mesh, mut browser)) = refusing_proxy().await else {
        return;
    };
    open_console(&mut browser, &mesh.api).await;
    let admin = mesh.api.admin.addr.port();
    // The proxy's 502 is a response, and is among the errors as well. A rate limit is an error, and no response.
    let metrics = format!(
        r#"response_total{{direction="inbound",target_port="80",status_code="200",classification="success"}} 10
response_total{{direction="inbound",target_port="80",status_code="502",classification="failure"}} 4
response_total{{direction="inbound",target_port="{admin}",status_code="200",classification="success"}} 90
inbound_http_errors_total{{error="i/o",target_port="80"}} 4
inbound_http_errors_total{{error="unexpected",target_port="80"}} 2
inbound_http_authz_deny_total{{target_port="80"}} 3
inbound_http_authz_deny_total{{target_port="{admin}"}} 5
proxy_failures_total{{direction="inbound",protocol="http",phase="connect",reason="connect_refused"}} 4
proxy_failures_total{{direction="inbound",protocol="http",phase="route",reason="rate_limited"}} 2
proxy_failures_total{{direction="inbound",protocol="http",phase="accept",reason="unauthorized"}} 8
proxy_failures_total{{direction="inbound",protocol="connection",phase="detect",reason="not_meshed"}} 7
"#
    );
    let read = format!("import('/console/traffic.js').then((it) => it.readMetrics({metrics:?}))");
    let inbound = &browser.value(&read).await["inbound"];
    assert_eq!(inbound["ok"], 10, "{inbound}");
    assert_eq!(inbound["failed"], 4 + 2 + 3, "{inbound}");
}

#[tokio::test]
async fn the_keyboard_alone_explains_a_request() {
    let Some((mesh, mut browser)) = refusing_proxy().await else {
        return;
    };
    browser.show(1280, false).await;
    open_console(&mut browser, &mesh.api).await;
    // The focus follows the order of the document, and is visible.
    let mut visited = Vec::new();
    while visited.last().is_none_or(|name| name != "url") {
        browser.press("Tab").await;
        let focus = browser.value(FOCUS).await;
        let name = focus["name"].as_str().unwrap_or_default().to_owned();
        assert_eq!(focus["follows"], true, "{name} after {visited:?}");
        assert_eq!(focus["outlined"], true, "{name}");
        visited.push(name);
        assert!(visited.len() < 100, "{visited:?}");
    }
    for name in ["pause", "live-toggle", "direction", "method"] {
        assert!(visited.iter().any(|seen| seen == name), "{visited:?}");
    }
    browser.write("http://nowhere/").await;
    browser.press("Enter").await;
    let answer = answer(&mut browser).await;
    assert!(answer.contains("no service at nowhere:80"), "{answer}");
    // Back to the method and the direction, and to the other one.
    for key in ["Shift+Tab", "Shift+Tab", "ArrowRight"] {
        browser.press(key).await;
    }
    let focus = browser.value("document.activeElement.value").await;
    assert_eq!(focus, "inbound");
    browser.press("Enter").await;
    browser
        .wait_for(&text_is("Enter the port of the application."))
        .await;
    for _ in 0..4 {
        browser.press("Tab").await;
    }
    browser.write("80").await;
    browser.press("Enter").await;
    let missing = "Enter the client address: whether a client is let in depends on it.";
    browser.wait_for(&text_is(missing)).await;
    // The proxy answers 404, which browsers log; nothing else is an error.
    let errors = browser.errors().iter();
    let others: Vec<_> = errors.filter(|e| !e.contains("/explain?")).collect();
    assert!(others.is_empty(), "{others:?}");
}

/// A proxy that has refused a request of another one, and a browser. `None` without the program.
async fn refusing_proxy() -> Option<(Meshed, Browser)> {
    if !is_installed("chromium", CHROMIUM) {
        return None;
    }
    let server = Server::says("hello").await;
    let admit_loopback = "LINKERD_PROXY_INBOUND_ADMIT_LOOPBACK";
    let mesh = Meshed::start(|web| web, |api| api.env(admit_loopback, "0")).await;
    let elsewhere = Authorization::of_networks("elsewhere", [(Ipv4Addr::new(192, 0, 2, 0), 24)]);
    let policy = ServerPolicy::new("api").authorize(elsewhere);
    let port = server.addr().port();
    mesh.controller.server(port).set(policy);
    mesh.serve_api(server.addr(), |endpoint| endpoint);
    // The default policy may let the first one in.
    eventually(SOON, "a request is denied", || async {
        let reply = mesh.http1().await.get("http://api/").await.ok()?;
        (reply.status == 403).then_some(())
    })
    .await;
    Some((mesh, Browser::start().await))
}

pub async fn open_console(browser: &mut Browser, proxy: &Proxy) {
    let url = format!("http://{}/console", proxy.admin.addr);
    browser.open(&url).await;
    let state = "document.getElementById('status')?.textContent.startsWith('Live')";
    browser.wait_for(state).await;
}

/// The expression for an answer of the form of `/explain`.
fn text_is(text: &str) -> String {
    format!("document.getElementById('explain-answer').textContent === '{text}'")
}

/// The answer of the form of `/explain`.
pub async fn answer(browser: &mut Browser) -> String {
    let part = "document.getElementById('explain-answer').textContent";
    browser.wait_for(part).await;
    browser.value(part).await.as_str().unwrap().to_owned()
}

/// The lightness of the background, and texts with less contrast than 4.5 to 1 (WCAG 2, level AA).
const READABLE: &str = r#"(() => {
    const lightness = (color) => {
        const [r, g, b] = color.match(/[\d.]+/g).map((part) => {
            const share = part / 255;
            return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
        });
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const ground = (node) => {
        const color = getComputedStyle(node).backgroundColor;
        return color === "rgba(0, 0, 0, 0)" && node.parentElement ? ground(node.parentElement) : color;
    };
    const texts = [...document.querySelectorAll("body *")].filter((node) =>
        node.checkVisibility() && [...node.childNodes].some((part) => part.nodeType === 3 && part.data.trim()));
    const contrast = (node) => {
        const both = [lightness(getComputedStyle(node).color), lightness(ground(node))];
        return (Math.max(...both) + 0.05) / (Math.min(...both) + 0.05);
    };
    const faint = texts.filter((node) => contrast(node) < 4.5).map((node) => node.textContent.slice(0, 40));
    return { background: lightness(ground(document.body)), texts: texts.length, faint };
})()"#;

/// Elements that make the page scroll sideways.
pub const BEYOND_THE_EDGE: &str = r#"(() => {
    const page = document.documentElement;
    if (page.scrollWidth <= page.clientWidth) return [];
    const beyond = [...document.querySelectorAll("body *")].filter((node) => node.getBoundingClientRect().right > page.clientWidth);
    return [page.scrollWidth, ...beyond.map((node) => node.tagName + " " + node.textContent.slice(0, 60))];
})()"#;

/// The element with the focus: its name, whether it follows the last one in the document, and whether it is outlined.
const FOCUS: &str = r#"(() => {
    const node = document.activeElement, last = window.lastFocus;
    window.lastFocus = node;
    return {
        name: node.id || node.name || node.textContent,
        follows: !last || Boolean(last.compareDocumentPosition(node) & Node.DOCUMENT_POSITION_FOLLOWING),
        outlined: getComputedStyle(node).outlineStyle !== "none",
    };
})()"#;
