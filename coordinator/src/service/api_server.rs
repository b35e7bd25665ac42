//! A client of the Kubernetes API server: one request per HTTPS connection, with the service account of the
//! coordinator's pod.

use crate::lookup::host_of;
use accord_proto::threads::on_thread;
use accord_trust::provider;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue};
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
    /// Posts a JSON document. Returns the status and the body of the answer. Files and the name service may block, so a thread reads them. It keeps
    /// `place`, even if the caller gives up.
    ///
    /// # Errors
    /// Returns the cause in words if the service account's files can't be read, or no answer comes.
    pub(super) async fn post(
        &self,
        path: &str,
        body: String,
        place: impl Send + 'static,
    ) -> Result<(StatusCode, Bytes), String> {
        let server = self.clone();
        let prepared = on_thread("accord-api-server", place, move || server.prepare()).await;
        let Prepared { addresses, name, config, bearer } = prepared.map_err(words)??;
        let stream = TcpStream::connect(&*addresses).await.map_err(words)?;
        let stream = TlsConnector::from(config).connect(name, stream).await.map_err(words)?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(words)?;
        // Dropping the set ends the connection's task with this call.
        let mut tasks = JoinSet::new();
        tasks.spawn(connection);
        let request = Request::post(path)
            .header(HOST, &self.address)
            .header(AUTHORIZATION, bearer)
            .header(CONTENT_TYPE, "application/json")
            .body(Full::new(Bytes::from(body)))
            .map_err(words)?;
        let answer = sender.send_request(request).await.map_err(words)?;
        let status = answer.status();
        let body = Limited::new(answer.into_body(), ANSWER_MAX).collect().await.map_err(words)?;
        Ok((status, body.to_bytes()))
    }

    /// Reads the service account's files, which are renewed while the coordinator runs, and looks the server's name up.
    fn prepare(&self) -> Result<Prepared, String> {
        let token = read(&self.account.join(TOKEN))?;
        let mut bearer = HeaderValue::try_from(format!("Bearer {}", token.trim_ascii())).map_err(words)?;
        bearer.set_sensitive(true);
        Ok(Prepared {
            addresses: self.address.to_socket_addrs().map_err(words)?.collect(),
            name: ServerName::try_from(host_of(&self.address).to_owned()).map_err(words)?,
            config: config(&self.account.join(AUTHORITY))?,
            bearer,
        })
    }
}

/// The parts of a connection to the API server.
struct Prepared {
    addresses: Vec<SocketAddr>,
    name: ServerName<'static>,
    config: Arc<ClientConfig>,
    /// The value of the header that shows the service account's token.
    bearer: HeaderValue,
}

fn config(authority: &Path) -> Result<Arc<ClientConfig>, String> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(read(authority)?.as_bytes()) {
        let wrong = |error: &dyn std::fmt::Display| format!("{} is no authority: {error}", authority.display());
        roots.add(certificate.map_err(|error| wrong(&error))?).map_err(|error| wrong(&error))?;
    }
    if roots.is_empty() {
        return Err(format!("{} holds no certificate", authority.display()));
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
    use super::*;

    #[test]
    fn faults_of_a_service_accounts_files_are_named_without_their_contents() {
        let folder = tempfile::tempdir().unwrap();
        let server = ApiServer { address: "127.0.0.1:443".to_owned(), account: folder.path().to_owned() };
        let fault = || server.prepare().err().unwrap();
        assert!(fault().contains(TOKEN), "{}", fault());
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        write(TOKEN, "secret\nsecret");
        assert!(!fault().contains("secret"), "{}", fault());
        write(TOKEN, "secret\n");
        assert!(fault().contains(AUTHORITY), "{}", fault());
        write(AUTHORITY, "");
        assert!(fault().contains("holds no certificate"), "{}", fault());
    }
}
