//! A client of the Kubernetes API server: one request per HTTPS connection, with the service account of the
//! coordinator's pod.

use accord_proto::threads::on_thread;
use accord_trust::provider;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use std::fs::File;
use std::io::Read;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, version};

/// Names of a service account's files in a pod.
const TOKEN: &str = "token";
const AUTHORITY: &str = "ca.crt";
/// Longest file, in bytes.
const FILE_MAX: u64 = 1 << 20;
/// Longest answer, in bytes.
const ANSWER_MAX: usize = 256 << 10;

/// The address of the API server, and the service account of the requests.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ApiServer {
    /// `host:port` of the server.
    pub address: String,
    /// Folder with `token` and `ca.crt` of the service account.
    pub account: PathBuf,
}

impl ApiServer {
    /// Posts a JSON document. Returns the status and body of the answer.
    ///
    /// # Errors
    /// Returns the cause if the service account's files can't be read or the server does not answer.
    pub(super) async fn post(&self, path: &str, body: String) -> Result<(StatusCode, Bytes), String> {
        // Read for each request, because both files are renewed while the coordinator runs.
        let token = read(&self.account.join(TOKEN))?;
        let config = config(&self.account.join(AUTHORITY))?;
        let name = ServerName::try_from(host_of(&self.address).to_owned()).map_err(words)?;
        let stream = TcpStream::connect(&*self.resolve().await?).await.map_err(words)?;
        let stream = TlsConnector::from(config).connect(name, stream).await.map_err(words)?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(words)?;
        // Dropping the set ends the connection's task with this call.
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

    async fn resolve(&self) -> Result<Vec<SocketAddr>, String> {
        if let Ok(address) = self.address.parse() {
            return Ok(vec![address]);
        }
        let address = self.address.clone();
        let look_up = move || address.to_socket_addrs().map(Vec::from_iter);
        on_thread("accord-lookup", (), look_up).await.map_err(words)?.map_err(words)
    }
}

/// Returns the host of `host:port`, without the brackets of an IPv6 address.
fn host_of(address: &str) -> &str {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host)
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

#[cfg(test)]
mod tests {
    use super::host_of;

    #[test]
    fn the_host_of_an_address_is_without_port_and_brackets() {
        assert_eq!(
            ["10.0.0.1:443", "[fd00::1]:443", "api.site:6443"].map(host_of),
            ["10.0.0.1", "fd00::1", "api.site"]
        );
    }
}
