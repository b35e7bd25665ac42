//! The cost of TLS for a lane between two threads, compared with TCP, and with a plain rustls program over the same
//! kind of connection.

use crate::report::Report;
use accord_fabric::transport::{SharedLane, accept_tls, connect_tls, pair};
use accord_trust::issue::Authority;
use accord_trust::{Identity, Role};
use rustls::pki_types::ServerName;
use rustls::{ClientConnection, ServerConnection, StreamOwned};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

const ROUNDS: usize = 7;
const WORDS: usize = 10_000;
/// The size of a launch and a wait on the wire.
const WORD: usize = 288;
const STREAM: usize = 256 << 20;
/// The size of a transfer's chunk.
const CHUNK: usize = 1 << 20;
const SHAKES: usize = 50;
const SOON: Duration = Duration::from_secs(10);
const HOUR: Duration = Duration::from_secs(3600);
const PROTOCOL: &[u8] = b"accord-bench/1";

pub(crate) fn run() -> Result<Report, String> {
    let authority = Authority::new("bench", HOUR).map_err(|error| error.to_string())?;
    let of = |role| authority.identity(role, HOUR).map_err(|error| error.to_string());
    let (client, server) = (of(Role::Tenant("bench".to_owned()))?, of(Role::Coordinator)?);
    let mut report = Report::of("accord-bench tls".to_owned());
    let mut samples = BTreeMap::<&str, Vec<f64>>::new();
    for _ in 0..ROUNDS {
        let mut keep = |what, value| samples.entry(what).or_default().push(value);
        let (here, there) = text(pair())?;
        keep("tcp_ping", ping(&here, &there)?);
        let (here, there) = secure(&client, &server)?;
        keep("tls_ping", ping(&here, &there)?);
        keep("tls_stream", stream(|bytes| here.send(bytes), |bytes| there.read_exact(bytes))?);
        let (mut here, mut there) = plain(&client, &server)?;
        keep("rustls_stream", stream(|bytes| here.write_all(bytes), |bytes| there.read_exact(bytes))?);
        let start = Instant::now();
        for _ in 0..SHAKES {
            secure(&client, &server)?;
        }
        keep("tls_open", start.elapsed().as_secs_f64() * 1e6 / SHAKES as f64);
    }
    for (name, samples) in samples {
        report.put(name, "us", samples);
    }
    let ping = report.median("tls_ping")? / report.median("tcp_ping")?;
    let stream = report.median("rustls_stream")? / report.median("tls_stream")?;
    report.at_most("there and back, 288 bytes: TLS / TCP", ping, "x", 1.25);
    report.at_least("256 MiB: a plain rustls program's time / the lane's", stream, "x", 0.85);
    Ok(report)
}

fn text<T, E: std::fmt::Display>(result: Result<T, E>) -> Result<T, String> {
    result.map_err(|error| error.to_string())
}

/// Returns both ends of a lane through TLS.
fn secure(client: &Identity, server: &Identity) -> Result<(SharedLane, SharedLane), String> {
    let (near, far) = text(pair())?;
    let (client, server) = (text(client.to_coordinator(PROTOCOL))?, text(server.server(&[PROTOCOL]))?);
    std::thread::scope(|scope| {
        let far = scope.spawn(move || accept_tls(far, server, SOON));
        let near = text(connect_tls(near, client, SOON))?;
        let far = text(far.join().map_err(|_| "a panic")?)?;
        Ok((near, far))
    })
}

type Near = StreamOwned<ClientConnection, TcpStream>;
type Far = StreamOwned<ServerConnection, TcpStream>;

/// Returns both ends of a connection as in a plain program of rustls.
fn plain(client: &Identity, server: &Identity) -> Result<(Near, Far), String> {
    let listener = text(TcpListener::bind("127.0.0.1:0"))?;
    let near = text(TcpStream::connect(text(listener.local_addr())?))?;
    let (far, _) = text(listener.accept())?;
    text(near.set_nodelay(true).and_then(|()| far.set_nodelay(true)))?;
    let name = text(ServerName::try_from("accord.invalid"))?;
    let mut near = StreamOwned::new(text(ClientConnection::new(text(client.to_coordinator(PROTOCOL))?, name))?, near);
    let mut far = StreamOwned::new(text(ServerConnection::new(text(server.server(&[PROTOCOL]))?))?, far);
    std::thread::scope(|scope| {
        let shaken = scope.spawn(|| far.conn.complete_io(&mut far.sock).map(drop));
        text(near.conn.complete_io(&mut near.sock))?;
        text(shaken.join().map_err(|_| "a panic")?)
    })?;
    Ok((near, far))
}

/// Returns the time of a round trip in microseconds.
fn ping(here: &SharedLane, there: &SharedLane) -> Result<f64, String> {
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut word = [0; WORD];
            (0..WORDS).all(|_| there.read_exact(&mut word).and_then(|()| there.send(&word)).is_ok())
        });
        let mut word = [0; WORD];
        let start = Instant::now();
        for _ in 0..WORDS {
            text(here.send(&word).and_then(|()| here.read_exact(&mut word)))?;
        }
        Ok(start.elapsed().as_secs_f64() * 1e6 / WORDS as f64)
    })
}

/// Returns the time of a whole stream in microseconds.
fn stream(
    mut send: impl FnMut(&[u8]) -> std::io::Result<()> + Send,
    mut receive: impl FnMut(&mut [u8]) -> std::io::Result<()>,
) -> Result<f64, String> {
    let from = vec![1_u8; STREAM];
    // Written before, because otherwise the first access to each page is measured.
    let mut to = vec![2_u8; STREAM];
    let start = Instant::now();
    std::thread::scope(|scope| {
        scope.spawn(|| from.chunks(CHUNK).all(|chunk| send(chunk).is_ok()));
        text(to.chunks_mut(CHUNK).try_for_each(&mut receive))
    })?;
    Ok(start.elapsed().as_secs_f64() * 1e6)
}
