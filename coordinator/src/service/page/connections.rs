//! Browsers' connections. Those of strangers are few: the oldest one goes for the next. Those of users count as connections of their tools.

use super::super::protocol::Protocol;
use super::super::referral::Referral;
use super::super::tenants::TenantSlot;
use super::super::unauthenticated::{ConnectionSlot, UnauthenticatedConnections};
use super::answers::{Answer, refusal};
use super::guard;
use super::listener::PageListener;
use super::past::SAMPLE_EVERY;
use super::routes;
use super::site::{SignedIn, Site};
use super::write_deadline::WriteDeadline;
use accord_types::Result;
use accord_types::connection_slots::place_of;
use accord_types::short_lock::ShortLock;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::time::{interval, timeout};
use tokio_rustls::TlsAcceptor;

/// Connections of strangers; half of them may be of one address.
const STRANGERS_MAX: usize = 128;
/// Time for a handshake, and for a request to arrive.
const REQUEST_WITHIN: Duration = Duration::from_secs(10);
/// Time for which a write may wait for a browser that does not read.
const WRITE_WITHIN: Duration = Duration::from_secs(20);
/// Bytes of a request's headers, and headers.
const REQUEST_MAX: usize = 16 << 10;
const HEADERS_MAX: usize = 64;
/// Pause after the system could not give a connection: most likely it is out of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// The content of the page.
#[derive(Clone)]
enum PageContent {
    /// The page of the coordinator that leads.
    Page(Arc<Site>),
    /// The answer that another coordinator leads. `names` are those of this page's host.
    Referral { to: Referral, names: Arc<Vec<String>> },
}

impl PageContent {
    /// Answers a request. `connection_user` is that of the request's connection.
    async fn answer<B: Sync>(&self, request: &Request<B>, connection_user: &ConnectionUser) -> Answer {
        match self {
            Self::Page(site) => routes::answer(site, request, |signed_in| connection_user.admit(site, signed_in)).await,
            Self::Referral { to, names } => match guard::check(request, names) {
                Ok(()) => refusal(StatusCode::SERVICE_UNAVAILABLE, &to.text()),
                Err(refused) => *refused,
            },
        }
    }
}

/// Refuses browsers, because this coordinator does not lead, and says which one does. Never returns.
pub(crate) async fn refer(page: &PageListener, to: Referral) {
    accept(page, &PageContent::Referral { to, names: Arc::new(page.names.clone()) }).await;
}

/// Serves the page. Never returns.
pub(crate) async fn serve(page: &PageListener, site: Arc<Site>) {
    let samples = async {
        let mut ticks = interval(SAMPLE_EVERY);
        loop {
            ticks.tick().await;
            site.sample().await;
        }
    };
    let content = PageContent::Page(site.clone());
    tokio::select! {
        () = accept(page, &content) => {}
        () = samples => {}
    }
}

async fn accept(page: &PageListener, content: &PageContent) {
    let entrance = UnauthenticatedConnections::with_limits(STRANGERS_MAX);
    let PageListener { listener, tls, .. } = page;
    loop {
        let (stream, from) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!("page: cannot take a connection: {error}");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let acceptor = match tls.as_ref().map(|tls| tls.current()).transpose() {
            Ok(config) => config.map(TlsAcceptor::from),
            Err(error) => {
                tracing::warn!("page: {}", error.cause());
                continue;
            }
        };
        let turn = entrance.enter(&place_of(from.ip()));
        tokio::spawn(connect(content.clone(), stream, acceptor, turn));
    }
}

async fn connect(content: PageContent, stream: TcpStream, acceptor: Option<TlsAcceptor>, mut turn: ConnectionSlot) {
    // A socket that can't be set is about to fail anyway.
    let _ = stream.set_nodelay(true);
    let stream = WriteDeadline::new(stream, WRITE_WITHIN);
    let Some(acceptor) = acceptor else { return converse(content, stream, turn).await };
    let shaken = tokio::select! {
        shaken = timeout(REQUEST_WITHIN, acceptor.accept(stream)) => shaken,
        () = turn.over() => return,
    };
    match shaken {
        Ok(Ok(stream)) => converse(content, stream, turn).await,
        Ok(Err(error)) => tracing::info!("page: a handshake failed: {error}"),
        Err(_) => {}
    }
}

/// The user whose connection it is, once a request has shown that.
#[derive(Default)]
struct ConnectionUser {
    slot: ShortLock<Option<TenantSlot>>,
    is_known: Notify,
}

impl ConnectionUser {
    /// Counts the connection as the visitor's.
    fn admit(&self, site: &Site, signed_in: &SignedIn) -> Result<()> {
        if self.slot.lock().is_some() {
            return Ok(());
        }
        let slot = site.tenants.connect(signed_in.caller.user_name(), Protocol::Grpc)?;
        *self.slot.lock() = Some(slot);
        self.is_known.notify_one();
        Ok(())
    }
}

/// Answers a connection's requests.
async fn converse(content: PageContent, stream: impl AsyncRead + AsyncWrite + Unpin, mut turn: ConnectionSlot) {
    let connection_user = ConnectionUser::default();
    let service = service_fn(|request| {
        let (content, connection_user) = (&content, &connection_user);
        async move { Ok::<_, Infallible>(content.answer(&request, connection_user).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(REQUEST_WITHIN)
        .max_buf_size(REQUEST_MAX)
        .max_headers(HEADERS_MAX)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    tokio::select! {
        _ended = &mut connection => return,
        () = turn.over() => return,
        () = connection_user.is_known.notified() => drop(turn),
    }
    // A peer that breaks off or sends nonsense has its answer already.
    let _ended = connection.await;
}

#[cfg(test)]
mod tests {
    use super::super::listener::AnonymousAccess;
    use super::*;
    use crate::leadership::{LeadershipStatus as Leading, Outcome};
    use crate::service::board::Boards;
    use crate::service::driver::{Driver, DriverSettings};
    use crate::service::questions::Questions;
    use crate::service::tenants::Tenants;
    use accord_trust::issue::Authority;
    use accord_trust::{Role, Trust, provider};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio_rustls::TlsConnector;
    use tokio_rustls::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
    use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
    use tokio_rustls::rustls::{ClientConfig, DigitallySignedStruct, Error, SignatureScheme, version};

    /// A browser whose user has clicked the warning away.
    #[derive(Debug)]
    struct AcceptsAll;

    impl ServerCertVerifier for AcceptsAll {
        fn verify_server_cert(
            &self,
            _end_entity: &CertificateDer<'_>,
            _intermediates: &[CertificateDer<'_>],
            _server_name: &ServerName<'_>,
            _ocsp_response: &[u8],
            _now: UnixTime,
        ) -> Result<ServerCertVerified, Error> {
            Ok(ServerCertVerified::assertion())
        }

        fn verify_tls12_signature(
            &self,
            _message: &[u8],
            _certificate: &CertificateDer<'_>,
            _signature: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            Err(Error::General("TLS 1.3 is spoken".to_owned()))
        }

        fn verify_tls13_signature(
            &self,
            _message: &[u8],
            _certificate: &CertificateDer<'_>,
            _signature: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            Ok(HandshakeSignatureValid::assertion())
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            provider().signature_verification_algorithms.supported_schemes()
        }
    }

    #[tokio::test]
    async fn a_coordinator_that_follows_names_the_leader_at_once() {
        let loopback = "127.0.0.1:0".parse().unwrap();
        let page = PageListener::bind(loopback, None, None, AnonymousAccess::Counts).await.unwrap();
        let address = page.listener.local_addr().unwrap();
        let (outcome, known) = tokio::sync::watch::channel(follows(Some("c1.site:7447")));
        tokio::spawn(async move { refer(&page, Referral::new(known)).await });
        let get = async |path: &str, host: &str| {
            let mut stream = TcpStream::connect(address).await.unwrap();
            let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
            stream.write_all(request.as_bytes()).await.unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.unwrap();
            answer
        };
        for path in ["/", "/events", "/enter?code=x"] {
            let answer = get(path, "127.0.0.1").await;
            assert!(answer.starts_with("HTTP/1.1 503") && answer.contains("the one at c1.site:7447 does"), "{answer}");
        }
        assert!(get("/", "another.site").await.starts_with("HTTP/1.1 421"), "no other site's name leads here");
        outcome.send_replace(follows(None));
        let answer = get("/", "localhost").await;
        assert!(answer.starts_with("HTTP/1.1 503") && answer.contains("no coordinator leads"), "{answer}");
    }

    fn follows(leader: Option<&str>) -> Outcome {
        Outcome::Stands(Leading::Follows(leader.map(str::to_owned)), None)
    }

    #[tokio::test]
    async fn a_page_for_other_machines_is_encrypted_and_its_cookie_too() {
        let hour = Duration::from_secs(3_600);
        let own = Authority::new("c1", hour).unwrap().identity(Role::Coordinator, hour).unwrap();
        let loopback = "127.0.0.1:0".parse().unwrap();
        let page =
            PageListener::bind(loopback, None, Some("https://accord.site"), AnonymousAccess::Nothing).await.unwrap();
        let page = page.encrypted(Arc::new(Trust::fixed(own)));
        let address = page.listener.local_addr().unwrap();
        let driver = Arc::new(Driver::new(DriverSettings::default()));
        let (boards, questions) = (Boards::new(driver.clone()), Questions::new(&driver));
        let site = Site::new(&page, driver, boards, questions, Tenants::new(None));
        let caller = super::super::super::caller::Caller {
            roles: vec![Role::Tenant("eva".to_owned())],
            address: None,
            refused: None,
        };
        let url = site.open(&caller).unwrap().url;
        let path = url.strip_prefix("https://accord.site").unwrap().to_owned();
        tokio::spawn(async move { serve(&page, site).await });

        let config = ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&version::TLS13])
            .unwrap()
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(AcceptsAll))
            .with_no_client_auth();
        let connector = TlsConnector::from(Arc::new(config));
        let tcp = TcpStream::connect(address).await.unwrap();
        let mut stream = connector.connect(ServerName::try_from("accord.site").unwrap(), tcp).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nHost: accord.site\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 303"), "{answer}");
        let cookie = answer.lines().find_map(|line| line.strip_prefix("set-cookie: ")).unwrap();
        assert!(cookie.starts_with("__Host-accord=") && cookie.ends_with("SameSite=Strict; Secure"), "{cookie}");
        // What is not encrypted gets no answer.
        let mut clear = TcpStream::connect(address).await.unwrap();
        clear.write_all(b"GET / HTTP/1.1\r\nHost: accord.site\r\n\r\n").await.unwrap();
        let mut bytes = Vec::new();
        let _ = clear.read_to_end(&mut bytes).await;
        assert!(!bytes.starts_with(b"HTTP"), "{bytes:?}");
    }
}
