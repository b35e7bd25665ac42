//! A headless Chromium by WebDriver, over loopback.

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const SOON: Duration = Duration::from_secs(60);
const STARTED: &str = "was started successfully on port ";

pub(super) const TAB: char = '\u{e004}';
pub(super) const ENTER: char = '\u{e007}';

/// A browser with one window. It ends when dropped.
pub(super) struct Browser {
    driver: Child,
    port: u16,
    session: String,
    _profile: tempfile::TempDir,
}

impl Browser {
    /// Starts a browser; `None` where there is none, with the reason printed.
    pub(super) fn start() -> Option<Self> {
        let is_there = |program: &str| Command::new(program).arg("--version").output().is_ok();
        if let Some(missing) = ["chromium", "chromedriver"].iter().find(|program| !is_there(program)) {
            println!("skipped: no {missing} (packages chromium and chromium-driver)");
            return None;
        }
        let mut driver = Command::new("chromedriver").arg("--port=0").stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(driver.stdout.take().unwrap()).lines().map_while(Result::ok);
        let port = lines.find_map(|line| line.split_once(STARTED).map(|(_, port)| port.to_owned()));
        let port = port.unwrap().trim_end_matches('.').parse().unwrap();
        let profile = tempfile::tempdir().unwrap();
        let mut browser = Self { driver, port, session: String::new(), _profile: profile };
        let folder = format!("--user-data-dir={}", browser._profile.path().display());
        let arguments = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--no-proxy-server",
            &folder,
        ];
        let wanted = json!({
            "browserName": "chrome",
            "goog:chromeOptions": { "args": arguments },
            "goog:loggingPrefs": { "browser": "ALL" },
        });
        let made = browser.ask("POST", "", &json!({ "capabilities": { "alwaysMatch": wanted } }));
        browser.session = format!("/{}", made["sessionId"].as_str().unwrap());
        Some(browser)
    }

    pub(super) fn open(&self, url: &str) {
        self.ask("POST", "/url", &json!({ "url": url }));
    }

    /// The value of an expression in the page.
    pub(super) fn value(&self, expression: &str) -> Value {
        let script = format!("return ({expression});");
        self.ask("POST", "/execute/sync", &json!({ "script": script, "args": [] }))
    }

    /// What a script hands to `done`, which it may call later.
    pub(super) fn later(&self, script: &str) -> Value {
        let script = format!("const done = arguments[0]; {script}");
        self.ask("POST", "/execute/async", &json!({ "script": script, "args": [] }))
    }

    /// Has a script run at the begin of each page.
    pub(super) fn begin_with(&self, script: &str) {
        self.command("Page.addScriptToEvaluateOnNewDocument", &json!({ "source": script }));
    }

    pub(super) fn open_again(&self) {
        self.ask("POST", "/refresh", &json!({}));
    }

    pub(super) fn text(&self, expression: &str) -> String {
        self.value(expression).as_str().unwrap_or_else(|| panic!("{expression} is no text")).to_owned()
    }

    /// Waits until an expression is true in the page.
    pub(super) fn until(&self, expression: &str) {
        let begun = Instant::now();
        while self.value(expression) != json!(true) {
            let text = self.text("document.body.innerText");
            assert!(begun.elapsed() < SOON, "{expression} is not true; the page says: {text}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Presses and releases keys, one after the other.
    pub(super) fn press(&self, keys: &str) {
        let actions = keys
            .chars()
            .flat_map(|key| ["keyDown", "keyUp"].map(|kind| json!({ "type": kind, "value": key.to_string() })));
        let actions: Vec<Value> = actions.collect();
        self.ask("POST", "/actions", &json!({ "actions": [{ "type": "key", "id": "keys", "actions": actions }] }));
    }

    /// Presses Tab until an expression is true of the element that has the focus, which is `focused` there.
    pub(super) fn tab_to(&self, expression: &str) {
        for _ in 0..60 {
            self.press(&TAB.to_string());
            if self.value(&format!("((focused) => {expression})(document.activeElement)")) == json!(true) {
                return;
            }
        }
        panic!("no element has the focus of which {expression}");
    }

    /// Gives the page a width, and its user a preference for dark or light.
    pub(super) fn resize(&self, width: u32, height: u32, scheme: &str) {
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.command("Emulation.setDeviceMetricsOverride", &size);
        let features = json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
        self.command("Emulation.setEmulatedMedia", &features);
    }

    fn command(&self, name: &str, parameters: &Value) {
        self.ask("POST", "/goog/cdp/execute", &json!({ "cmd": name, "params": parameters }));
    }

    /// Errors that the browser has logged since it was asked last.
    pub(super) fn errors(&self) -> Vec<String> {
        let log = self.ask("POST", "/se/log", &json!({ "type": "browser" }));
        let entries = log.as_array().unwrap().iter().filter(|entry| entry["level"] == "SEVERE");
        entries.map(|entry| entry["message"].to_string()).collect()
    }

    /// Writes a picture of the page, for people to look at.
    pub(super) fn picture(&self, name: &str) {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("page");
        std::fs::create_dir_all(&folder).unwrap();
        let picture = self.ask("GET", "/screenshot", &Value::Null);
        std::fs::write(folder.join(name).with_extension("png"), decoded(picture.as_str().unwrap())).unwrap();
    }

    fn ask(&self, method: &str, path: &str, body: &Value) -> Value {
        let value = self.answer(method, path, body).unwrap_or_else(|error| panic!("{method} {path}: {error}"));
        assert!(value["error"].is_null(), "{method} {path}: {value:#}");
        value
    }

    fn answer(&self, method: &str, path: &str, body: &Value) -> std::io::Result<Value> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
        stream.set_read_timeout(Some(SOON))?;
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let head = format!(
            "{method} /session{}{path} HTTP/1.1\r\nHost: localhost:{}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            self.session,
            self.port,
            body.len()
        );
        stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body.as_bytes()))?;
        // The driver keeps the connection open.
        let (mut reader, mut length) = (BufReader::new(stream), 0);
        loop {
            let mut line = String::new();
            reader.read_line(&mut line)?;
            match line.to_ascii_lowercase().split_once(':') {
                Some(("content-length", bytes)) => length = bytes.trim().parse().map_err(std::io::Error::other)?,
                None if line.trim_end().is_empty() => break,
                _ => {}
            }
        }
        let mut json = vec![0; length];
        reader.read_exact(&mut json)?;
        let mut answer: Value = serde_json::from_slice(&json)?;
        Ok(answer["value"].take())
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The browser ends with its session.
        if !self.session.is_empty() {
            let _ = self.answer("DELETE", "", &Value::Null);
        }
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}

/// The bytes that a text in Base64 stands for.
fn decoded(text: &str) -> Vec<u8> {
    let digit = |sign: u8| match sign {
        b'A'..=b'Z' => u32::from(sign - b'A'),
        b'a'..=b'z' => u32::from(sign - b'a') + 26,
        b'0'..=b'9' => u32::from(sign - b'0') + 52,
        b'+' => 62,
        b'/' => 63,
        other => panic!("{other} is no digit"),
    };
    let signs: Vec<u8> = text.bytes().filter(|sign| *sign != b'=').collect();
    let groups = signs.chunks(4).flat_map(|group| {
        let bits = (0..4).fold(0, |bits, at| bits << 6 | group.get(at).map_or(0, |sign| digit(*sign)));
        bits.to_be_bytes()[1..group.len()].to_vec()
    });
    groups.collect()
}
