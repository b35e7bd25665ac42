//! Kubernetes' API server: one question at a time over HTTPS, by the service account of the coordinator's pod.

use crate::lookup::{host_of, resolve};
use accord_trust::provider;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, version};

/// Files of a service account, as a pod has them.
const TOKEN: &str = "token";
const AUTHORITY: &str = "ca.crt";
/// Bytes of the longest of these files.
const FILE_MAX: u64 = 1 << 20;
/// Bytes of the longest answer.
const ANSWER_MAX: usize = 256 << 10;

/// The API server, and the service account by which it is asked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ApiServer {
    /// `host:port` of the server.
    pub address: String,
    /// Folder with `token` and `ca.crt` of the service account.
    pub account: PathBuf,
}

impl ApiServer {
    /// Posts a JSON document. Returns the status and the body of the answer.
    ///
    /// # Errors
    /// Returns the cause in words if the service account's files can't be read, or no answer comes.
    pub(super) async fn post(&self, path: &str, body: String) -> Result<(StatusCode, Bytes), String> {
        // Both files are renewed while the coordinator runs.
        let token = read(&self.account.join(TOKEN))?;
        let config = config(&self.account.join(AUTHORITY))?;
        let name = ServerName::try_from(host_of(&self.address).to_owned()).map_err(words)?;
        let stream = TcpStream::connect(&*resolve(&self.address).await?).await.map_err(words)?;
        let stream = TlsConnector::from(config).connect(name, stream).await.map_err(words)?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(words)?;
        // Ends with this call.
        let mut tasks = JoinSet::new();
        tasks.spawn(connection);
        let request = Request::post(path)
            .header(HOST, &self.address)
            .header(AUTHORIZATION, format!("Bearer {}", token.trim_ascii()))
            .header(CONTENT_TYPE, "application/json")
            .body(Full::new(Bytes::from(body)))
            .map_err(words)?;
        let answer = sender.send_request(request).await.map_err(words)?;
        let status = answer.status();
        let body = Limited::new(answer.into_body(), ANSWER_MAX).collect().await.map_err(words)?;
        Ok((status, body.to_bytes()))
    }
}

fn config(authority: &Path) -> Result<Arc<ClientConfig>, String> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(read(authority)?.as_bytes()) {
        let wrong = |error: &dyn std::fmt::Display| format!("{} is no authority: {error}", authority.display());
        roots.add(certificate.map_err(|error| wrong(&error))?).map_err(|error| wrong(&error))?;
    }
    let config = ClientConfig::builder_with_provider(provider()).with_protocol_versions(&[&version::TLS13]);
    Ok(Arc::new(config.map_err(words)?.with_root_certificates(roots).with_no_client_auth()))
}

fn read(file: &Path) -> Result<String, String> {
    let mut text = String::new();
    let opened = File::open(file).and_then(|opened| opened.take(FILE_MAX).read_to_string(&mut text));
    opened.map_err(|error| format!("cannot read {}: {error}", file.display()))?;
    Ok(text)
}

fn words(error: impl std::fmt::Display) -> String {
    error.to_string()
}
