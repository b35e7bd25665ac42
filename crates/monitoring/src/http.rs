//! The HTTP server: three pages, for probes and scrapers.

use crate::Monitor;
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

/// Connections at one time. More are closed at once: nobody needs so many scrapers.
const CONNECTIONS_MAX: usize = 32;
/// How long a connection may take to say what it wants.
const HEADER_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a connection may live. Scrapers connect again.
const CONNECTION_MAX: Duration = Duration::from_secs(300);
/// Bytes of a request that are kept.
const REQUEST_MAX: usize = 16 * 1024;
/// Pause after the system could not give a connection: most likely it is out of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// What Prometheus' text format calls itself.
const PROMETHEUS_TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Answers until it is dropped. Runs on the service's own thread: if that hangs, so does `/healthz`.
pub async fn serve(listener: TcpListener, monitor: Arc<Monitor>) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!("metrics: cannot take a connection: {error}");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let Ok(place) = places.clone().try_acquire_owned() else { continue };
        let monitor = monitor.clone();
        tokio::spawn(async move {
            let service = service_fn(|request| {
                let page = page(&request, &monitor);
                async { Ok::<_, Infallible>(page) }
            });
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEADER_TIMEOUT)
                .max_buf_size(REQUEST_MAX)
                .serve_connection(TokioIo::new(stream), service);
            // Whoever breaks off or sends nonsense has its answer already.
            let _ended = tokio::time::timeout(CONNECTION_MAX, connection).await;
            drop(place);
        });
    }
}

fn page(request: &Request<Incoming>, monitor: &Monitor) -> Response<Full<Bytes>> {
    if ![Method::GET, Method::HEAD].contains(request.method()) {
        let mut response = text(StatusCode::METHOD_NOT_ALLOWED, "only GET".to_owned());
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return response;
    }
    match request.uri().path() {
        "/metrics" => {
            let mut response = text(StatusCode::OK, monitor.render());
            response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(PROMETHEUS_TEXT));
            response
        }
        "/healthz" => text(StatusCode::OK, "alive\n".to_owned()),
        "/readyz" => match (monitor.ready)() {
            Ok(()) => text(StatusCode::OK, "ready\n".to_owned()),
            Err(why) => text(StatusCode::SERVICE_UNAVAILABLE, format!("not ready: {why}\n")),
        },
        _ => text(StatusCode::NOT_FOUND, "there are /metrics, /healthz and /readyz\n".to_owned()),
    }
}

fn text(status: StatusCode, body: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(body));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}
