//! A Kubernetes API server for tests, which reviews tokens only; each token contains the answer to its review.

use crate::Result;
use rcgen::generate_simple_self_signed;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tempfile::TempDir;

/// The token of the coordinator's service account.
const OWN_TOKEN: &str = "own.account.token";
/// Bytes of an answer that is far too long.
const HUGE: usize = 8 << 20;
/// How long the server is silent for a token that makes it hang.
const SILENCE: Duration = Duration::from_secs(60);

/// A running API server. Its threads end with the test's process.
pub struct ApiServer {
    address: SocketAddr,
    folder: TempDir,
    asked: Arc<AtomicUsize>,
}

impl ApiServer {
    /// Starts a server on a loopback address, with a certificate of its own.
    ///
    /// # Errors
    /// Returns an error if the system provides no port or folder.
    pub fn start() -> Result<Self> {
        let failed = |error: &dyn std::fmt::Display| error.to_string();
        let made = generate_simple_self_signed(["127.0.0.1".to_owned()]).map_err(|error| failed(&error))?;
        let folder = TempDir::new().map_err(|error| failed(&error))?;
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text);
        write("ca.crt", &made.cert.pem()).map_err(|error| failed(&error))?;
        write("token", OWN_TOKEN).map_err(|error| failed(&error))?;
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
        let config = ServerConfig::builder_with_provider(accord_trust::provider())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(|error| failed(&error))?
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)
            .map_err(|error| failed(&error))?;
        let config = Arc::new(config);
        let listener = TcpListener::bind("127.0.0.1:0").map_err(|error| failed(&error))?;
        let address = listener.local_addr().map_err(|error| failed(&error))?;
        let asked = Arc::new(AtomicUsize::new(0));
        let counter = asked.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (config, asked) = (config.clone(), counter.clone());
                std::thread::spawn(move || serve(stream, config, &asked));
            }
        });
        Ok(Self { address, folder, asked })
    }

    /// Returns the server's address.
    pub fn address(&self) -> String {
        self.address.to_string()
    }

    /// Returns the folder with token and authority of the coordinator's service account.
    pub fn account(&self) -> &Path {
        self.folder.path()
    }

    /// Returns how many tokens were reviewed.
    pub fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }

    /// Writes a token whose middle part is the server's answer: `user-NAMESPACE-NAME`, or one of the faults below.
    /// Returns its file.
    ///
    /// # Errors
    /// Returns an error if the file can't be written.
    pub fn token(&self, says: &str) -> Result<PathBuf> {
        let file = self.folder.path().join(says);
        std::fs::write(&file, format!("head.{says}.signature\n")).map_err(|error| error.to_string())?;
        Ok(file)
    }
}

fn serve(stream: TcpStream, config: Arc<ServerConfig>, asked: &AtomicUsize) -> Option<()> {
    let mut stream = BufReader::new(StreamOwned::new(ServerConnection::new(config).ok()?, stream));
    let (mut first, mut length, mut bearer) = (String::new(), 0, String::new());
    stream.read_line(&mut first).ok()?;
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(": ") else { break };
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.parse().ok()?,
            "authorization" => value.clone_into(&mut bearer),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).ok()?;
    asked.fetch_add(1, Ordering::SeqCst);
    let (status, answer) = answer(&first, &bearer, &serde_json::from_slice(&body).unwrap_or_default());
    let head =
        format!("HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n", answer.len());
    let stream = stream.get_mut();
    stream.write_all(head.as_bytes()).ok()?;
    stream.write_all(answer.as_bytes()).ok()?;
    stream.flush().ok()
}

/// Returns the status line and the body of an answer, by the API server's rules unless the token says otherwise.
fn answer(first: &str, bearer: &str, question: &Value) -> (&'static str, String) {
    if !first.starts_with("POST /apis/authentication.k8s.io/v1/tokenreviews ") || question["kind"] != "TokenReview" {
        return ("404 Not Found", json!({"kind": "Status"}).to_string());
    }
    if bearer != format!("Bearer {OWN_TOKEN}") {
        return ("401 Unauthorized", json!({"kind": "Status"}).to_string());
    }
    let token = question["spec"]["token"].as_str().unwrap_or_default();
    let says = token.split('.').nth(1).unwrap_or_default();
    let review = |status: Value| ("201 Created", json!({"kind": "TokenReview", "status": status}).to_string());
    let accepted = |user: &str, audiences: &[&str]| {
        review(json!({"authenticated": true, "user": {"username": user}, "audiences": audiences}))
    };
    match says.split_once('-') {
        Some(("user", account)) if question["spec"]["audiences"] == json!(["accord"]) => {
            accepted(&format!("system:serviceaccount:{}", account.replacen('-', ":", 1)), &["accord"])
        }
        _ => match says {
            "audience" => accepted("system:serviceaccount:physics:train", &["https://kubernetes.default.svc"]),
            "person" => accepted("admin", &["accord"]),
            "garbage" => ("201 Created", "<html>".to_owned()),
            "huge" => ("201 Created", " ".repeat(HUGE)),
            "forbidden" => ("403 Forbidden", json!({"kind": "Status"}).to_string()),
            "broken" => ("500 Internal Server Error", String::new()),
            "hang" => {
                std::thread::sleep(SILENCE);
                ("201 Created", String::new())
            }
            _ => review(json!({"authenticated": false, "error": "[invalid bearer token]"})),
        },
    }
}
