//! The HTTP server of three pages, for probes and scrapers.

use crate::Monitor;
use accord_types::connection_slots::{ConnectionSlots, Ticket, place_of};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::collections::HashMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};

/// Most connections at one time, more than a site's scrapers need. At the limit a new connection displaces the oldest
/// one of the address that has the most.
const CONNECTIONS_MAX: usize = 32;
/// Most connections of one address.
const OF_ONE_ADDRESS_MAX: usize = CONNECTIONS_MAX / 2;
/// Timeout for the head of a request.
const HEADER_TIMEOUT: Duration = Duration::from_secs(5);
/// Longest life of a connection. Scrapers reconnect.
const CONNECTION_MAX: Duration = Duration::from_secs(300);
/// Most bytes of a request.
const REQUEST_MAX: usize = 16 * 1024;
/// Pause after the system refused a connection, most likely for lack of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// The content type of Prometheus' text format.
const PROMETHEUS_TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Serves connections until the future is dropped. Runs on the service's own thread, so that `/healthz` hangs if the
/// service does.
pub async fn serve(listener: TcpListener, monitor: Arc<Monitor>) {
    let mut connections = Connections::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, from)) => connections.enter(stream, from, &monitor),
                Err(error) => {
                    tracing::warn!("metrics: cannot take a connection: {error}");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            },
            Some(over) = connections.tasks.join_next() => {
                // A displaced connection has left `slots` already.
                if let Ok(ticket) = over {
                    connections.leave(ticket);
                }
            }
        }
    }
}

/// The open connections. A liveness probe must not wait until other connections end.
struct Connections {
    slots: ConnectionSlots,
    tasks: JoinSet<Ticket>,
    handles: HashMap<Ticket, AbortHandle>,
}

impl Connections {
    fn new() -> Self {
        let slots = ConnectionSlots::new(CONNECTIONS_MAX, OF_ONE_ADDRESS_MAX);
        Self { slots, tasks: JoinSet::new(), handles: HashMap::new() }
    }

    fn enter(&mut self, stream: TcpStream, from: SocketAddr, monitor: &Arc<Monitor>) {
        let (ticket, leaves) = self.slots.enter(&place_of(from.ip()));
        if let Some(handle) = leaves.and_then(|leaves| self.handles.remove(&leaves)) {
            handle.abort();
        }
        let monitor = monitor.clone();
        let handle = self.tasks.spawn(async move {
            let service = service_fn(|request| {
                let page = page(&request, &monitor);
                async { Ok::<_, Infallible>(page) }
            });
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEADER_TIMEOUT)
                .max_buf_size(REQUEST_MAX)
                .serve_connection(TokioIo::new(stream), service);
            // A peer that disconnects or sends a malformed request needs no further answer.
            let _ended = tokio::time::timeout(CONNECTION_MAX, connection).await;
            ticket
        });
        self.handles.insert(ticket, handle);
    }

    fn leave(&mut self, ticket: Ticket) {
        self.slots.leave(ticket);
        self.handles.remove(&ticket);
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
