//! A headless Chromium, driven by the DevTools protocol over pipes: JSON messages, each with a NUL at its end.

use crate::soon;
use serde_json::{Value, json};
use std::process::Stdio;
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    process::{Child, ChildStdin, ChildStdout, Command},
};

/// A browser with one page. Dropping it ends the process.
pub struct Browser {
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    /// The page, which commands are for; empty until it is there.
    session: String,
    /// The id of the last command.
    last_id: u64,
    errors: Vec<String>,
    _process: Child,
    _profile: tempfile::TempDir,
}

impl Browser {
    /// Starts the browser with an empty page. Its program is from Debian's package `chromium`.
    pub async fn start() -> Self {
        let profile = tempfile::tempdir().unwrap();
        // The protocol uses the descriptors 3 and 4, which become the pipes of standard input and output.
        let mut process = Command::new("sh")
            .args(["-c", r#"exec "$@" 3<&0 4>&1 >/dev/null"#, "sh", CHROMIUM])
            .args(["--headless=new", "--no-sandbox", "--disable-gpu"])
            .args(["--disable-dev-shm-usage", "--no-first-run"])
            .arg("--remote-debugging-pipe")
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .arg("about:blank")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut browser = Self {
            input: process.stdin.take().unwrap(),
            output: BufReader::new(process.stdout.take().unwrap()),
            session: String::new(),
            last_id: 0,
            errors: Vec::new(),
            _process: process,
            _profile: profile,
        };
        let target = json!({ "url": "about:blank" });
        let target = browser.call("Target.createTarget", target).await;
        let target = json!({ "targetId": target["targetId"], "flatten": true });
        let attached = browser.call("Target.attachToTarget", target).await;
        attached["sessionId"]
            .as_str()
            .unwrap()
            .clone_into(&mut browser.session);
        for domain in ["Runtime.enable", "Log.enable", "Page.enable"] {
            browser.call(domain, json!({})).await;
        }
        browser
    }

    /// Opens a page.
    pub async fn open(&mut self, url: &str) {
        let opened = self.call("Page.navigate", json!({ "url": url })).await;
        assert!(opened.get("errorText").is_none(), "{url}: {opened}");
    }

    /// Sets the width of the page, and whether the person prefers a dark one.
    pub async fn show(&mut self, width: u32, dark: bool) {
        let size =
            json!({ "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false });
        self.call("Emulation.setDeviceMetricsOverride", size).await;
        let scheme = if dark { "dark" } else { "light" };
        let scheme = json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
        self.call("Emulation.setEmulatedMedia", scheme).await;
    }

    /// The value of an expression of JavaScript, or of its promise.
    pub async fn value(&mut self, expression: &str) -> Value {
        let evaluated =
            json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let evaluated = self.call("Runtime.evaluate", evaluated).await;
        let exception = evaluated.get("exceptionDetails");
        assert!(exception.is_none(), "{expression}: {evaluated:#}");
        evaluated["result"]["value"].clone()
    }

    /// Waits until an expression is true.
    pub async fn wait_for(&mut self, expression: &str) {
        let wait = format!(
            "new Promise((found) => {{ const look = () => ({expression}) ? found() : setTimeout(look, 50); look(); }})"
        );
        self.value(&wait).await;
    }

    /// Presses and releases a key: `Tab`, `Shift+Tab`, `Enter`, `ArrowRight`.
    pub async fn press(&mut self, key: &str) {
        let (shift, key) = match key.strip_prefix("Shift+") {
            Some(key) => (8, key),
            None => (0, key),
        };
        let (code, text) = match key {
            "Tab" => (9, ""),
            "Enter" => (13, "\r"),
            "ArrowRight" => (39, ""),
            other => panic!("{other}: its code is not known here"),
        };
        for kind in ["keyDown", "keyUp"] {
            let text = if kind == "keyDown" { text } else { "" };
            let event = json!({
                "type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code, "text": text,
                "modifiers": shift,
            });
            self.call("Input.dispatchKeyEvent", event).await;
        }
    }

    /// Types a text where the focus is.
    pub async fn write(&mut self, text: &str) {
        self.call("Input.insertText", json!({ "text": text })).await;
    }

    /// Exceptions of scripts, and errors of the page's log, such as refused resources.
    pub fn errors(&self) -> &[String] {
        &self.errors
    }

    /// Runs a command.
    async fn call(&mut self, method: &str, params: Value) -> Value {
        self.last_id += 1;
        let id = self.last_id;
        let mut message = json!({ "id": id, "method": method, "params": params });
        if !self.session.is_empty() {
            message["sessionId"] = self.session.as_str().into();
        }
        let mut message = message.to_string().into_bytes();
        message.push(0);
        soon(self.input.write_all(&message)).await.unwrap();
        loop {
            let mut message = soon(self.message()).await;
            if message["id"] == id {
                assert!(message.get("error").is_none(), "{method}: {message:#}");
                return message["result"].take();
            }
            self.note_error(&message);
        }
    }

    async fn message(&mut self) -> Value {
        let mut message = Vec::new();
        let read = self.output.read_until(0, &mut message).await.unwrap();
        assert!(read > 0, "{CHROMIUM} has ended");
        message.pop();
        serde_json::from_slice(&message).unwrap()
    }

    fn note_error(&mut self, event: &Value) {
        let params = &event["params"];
        let error = match event["method"].as_str() {
            Some("Runtime.exceptionThrown") => &params["exceptionDetails"],
            Some("Log.entryAdded") if params["entry"]["level"] == "error" => &params["entry"],
            Some("Runtime.consoleAPICalled") if params["type"] == "error" => params,
            _ => return,
        };
        self.errors.push(error.to_string());
    }
}

/// The program of Debian's package.
pub const CHROMIUM: &str = "/usr/bin/chromium";
