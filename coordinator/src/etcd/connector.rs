//! Connections to members of etcd, in clear or with TLS.

use super::error::EtcdError;
use super::location::EtcdTls;
use crate::lookup::{host_of, resolve};
use accord_trust::provider;
use hyper_util::rt::TokioIo;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, version};
use tonic::transport::{Channel, Endpoint, Uri};
use tower::service_fn;

/// Bytes of the longest file of certificates.
const FILE_MAX: u64 = 1 << 20;
/// The name of gRPC in a handshake.
const PROTOCOL: &[u8] = b"h2";

trait Wire: AsyncRead + AsyncWrite + Send {}
impl<T: AsyncRead + AsyncWrite + Send> Wire for T {}

type Stream = Pin<Box<dyn Wire>>;

/// Connects to `member`. The files are read anew, as they may have been renewed.
///
/// # Errors
/// Returns why there is no connection.
pub(super) async fn connect(member: &str, tls: Option<&EtcdTls>) -> Result<Channel, EtcdError> {
    let stream = match tls.map(config).transpose()? {
        Some(config) => secured(member, config).await?,
        None => Box::pin(plain(member).await?),
    };
    let away = |why: &dyn std::fmt::Display| EtcdError::away(member, &why.to_string());
    let endpoint = Endpoint::from_shared(format!("http://{member}")).map_err(|error| away(&error))?;
    let mut stream = Some(TokioIo::new(stream));
    // A channel whose connection has ended is not used again.
    let once = service_fn(move |_: Uri| {
        let stream = stream.take().ok_or_else(|| std::io::Error::from(std::io::ErrorKind::ConnectionAborted));
        std::future::ready(stream)
    });
    endpoint.connect_with_connector(once).await.map_err(|error| away(&error))
}

async fn plain(member: &str) -> Result<TcpStream, EtcdError> {
    let addresses = resolve(member).await.map_err(|why| EtcdError::away(member, &why))?;
    let stream = TcpStream::connect(&*addresses).await.map_err(|error| EtcdError::away(member, &error.to_string()))?;
    // A socket that can't be set is about to fail anyway.
    let _ = stream.set_nodelay(true);
    Ok(stream)
}

async fn secured(member: &str, config: ClientConfig) -> Result<Stream, EtcdError> {
    let broken = |error: &dyn std::fmt::Display| EtcdError::handshake(member, &error.to_string());
    let name = ServerName::try_from(host_of(member).to_owned()).map_err(|error| broken(&error))?;
    let stream = plain(member).await?;
    let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.map_err(|error| broken(&error))?;
    Ok(Box::pin(stream))
}

fn config(tls: &EtcdTls) -> Result<ClientConfig, EtcdError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(&tls.authority)? {
        roots.add(certificate).map_err(|error| unusable(&tls.authority, &error))?;
    }
    let config = ClientConfig::builder_with_provider(provider()).with_protocol_versions(&[&version::TLS13]);
    let config = config.map_err(|error| EtcdError::files(error.to_string()))?.with_root_certificates(roots);
    let mut config = match &tls.own {
        Some((certificate, key)) => {
            let secret = PrivateKeyDer::from_pem_slice(&read(key)?).map_err(|error| unusable(key, &error))?;
            let chain = certificates(certificate)?;
            config.with_client_auth_cert(chain, secret).map_err(|error| unusable(certificate, &error))?
        }
        None => config.with_no_client_auth(),
    };
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    Ok(config)
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, EtcdError> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&read(file)?).collect();
    match found {
        Ok(found) if !found.is_empty() => Ok(found),
        Ok(_) => Err(unusable(file, &"it holds no certificate")),
        Err(error) => Err(unusable(file, &error)),
    }
}

fn unusable(file: &Path, why: &dyn std::fmt::Display) -> EtcdError {
    EtcdError::files(format!("{} can't be used for TLS with etcd: {why}", file.display()))
}

fn read(file: &Path) -> Result<Vec<u8>, EtcdError> {
    let mut bytes = Vec::new();
    let opened = File::open(file).and_then(|opened| opened.take(FILE_MAX).read_to_end(&mut bytes));
    opened.map_err(|error| unusable(file, &error))?;
    Ok(bytes)
}
