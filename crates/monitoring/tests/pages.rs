//! The pages as scrapers and probes receive them over a socket.

use accord_monitoring::{Metric, Monitor, serve};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The server's limit of connections.
const PLACES: usize = 32;
const LIMIT: Duration = Duration::from_secs(20);

fn ask(address: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn get(address: SocketAddr, path: &str) -> String {
    ask(address, &format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"))
}

/// A process has one recorder, so this is one test.
#[test]
fn scrapers_and_probes_are_answered_and_crowds_are_bounded() {
    let table = [
        Metric::counter("made_total", "things made"),
        Metric::gauge("there", "things there").by("kind", &["round", "square"]),
    ];
    let ready = Arc::new(AtomicBool::new(false));
    let asked = ready.clone();
    let monitor = Monitor::install(&table, move || {
        asked.load(Ordering::Relaxed).then_some(()).ok_or_else(|| "no agent is registered".to_owned())
    })
    .unwrap();
    assert!(Monitor::install(&table, || Ok(())).is_err(), "there is one recorder");

    let (notify, reported) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            notify.send(listener.local_addr().unwrap()).unwrap();
            serve(listener, Arc::new(monitor)).await;
        });
    });
    let address = reported.recv().unwrap();

    let page = get(address, "/metrics");
    assert!(page.starts_with("HTTP/1.1 200 OK\r\n"), "{page}");
    assert!(page.contains("content-type: text/plain; version=0.0.4"), "{page}");
    for line in [
        "# HELP made_total things made\n",
        "# TYPE made_total counter\n",
        "made_total 0\n",
        "# TYPE there gauge\n",
        "there{kind=\"round\"} 0\n",
        "there{kind=\"square\"} 0\n",
    ] {
        assert!(page.contains(line), "{line:?} is not in {page}");
    }
    metrics::counter!("made_total").increment(3);
    metrics::gauge!("there", "kind" => "round").set(2.0);
    let page = get(address, "/metrics");
    assert!(page.contains("made_total 3\n") && page.contains("there{kind=\"round\"} 2\n"), "{page}");

    assert!(get(address, "/healthz").starts_with("HTTP/1.1 200 OK\r\n"));
    let page = get(address, "/readyz");
    assert!(page.starts_with("HTTP/1.1 503 ") && page.ends_with("not ready: no agent is registered\n"), "{page}");
    ready.store(true, Ordering::Relaxed);
    assert!(get(address, "/readyz").starts_with("HTTP/1.1 200 OK\r\n"));

    assert!(get(address, "/").starts_with("HTTP/1.1 404 "));
    let posted = ask(address, "POST /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
    assert!(posted.starts_with("HTTP/1.1 405 "), "{posted}");
    assert!(ask(address, "\u{1}\u{2}nonsense\r\n\r\n").starts_with("HTTP/1.1 400 "));
    let long = format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(64 * 1024));
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    let _cut_off = stream.write_all(long.as_bytes());
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    assert!(!answer.starts_with(b"HTTP/1.1 200"));

    many_connections_leave_slots(address);
}

/// Opens idle connections and connections that stay after their page: a further peer is served at once.
fn many_connections_leave_slots(address: SocketAddr) {
    let mut crowd = Vec::new();
    for number in 0..4 * PLACES {
        let mut stream = TcpStream::connect(address).unwrap();
        if number % 2 == 0 {
            stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
            stream.set_read_timeout(Some(LIMIT)).unwrap();
            assert!(stream.read(&mut [0; 64]).unwrap() > 0, "not answered beside {number}");
        }
        crowd.push(stream);
        assert!(get(address, "/healthz").starts_with("HTTP/1.1 200 OK\r\n"), "beside {number}");
    }
    // The oldest connections are closed, and the limit holds.
    let is_there = |stream: &mut TcpStream| {
        stream.set_nonblocking(true).unwrap();
        let mut rest = [0; 1024];
        loop {
            match stream.read(&mut rest) {
                Ok(0) => return false,
                Ok(_) => {}
                Err(error) => return error.kind() == ErrorKind::WouldBlock,
            }
        }
    };
    let there = crowd.iter_mut().filter_map(|stream| is_there(stream).then_some(())).count();
    assert!(there > 0 && there <= PLACES / 2, "{there} of one address");
    assert!(!is_there(&mut crowd[0]));
}
