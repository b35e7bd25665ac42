//! The cost of TLS for programs whose devices are on other hosts. Compared with the same cluster without TLS, and with
//! a plain program that sends as many bytes over one connection by rustls.

use crate::report::{Report, accord, build_folder, compile};
use accord_trust::lane::LaneSeeds;
use rustls::pki_types::ServerName;
use rustls::{ClientConnection, ServerConnection, StreamOwned};
use serde_json::json;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

const PORT: &str = "7797";
const ROUNDS: &str = "9";
const MIB: &str = "256";
const SESSIONS: &str = "15";
/// The argument that makes `accord-bench` the plain program, on both hosts.
pub(crate) const PLAIN_PROGRAM: &str = "__rustls";
const PROTOCOL: &[u8] = b"accord-bench/1";
/// The size of a transfer's chunk.
const CHUNK: usize = 1 << 20;
/// The second host of a local cluster.
const PEER: &str = "10.77.0.2";

pub(crate) fn run() -> Result<Report, String> {
    let compiled = |name: &str| {
        let program = build_folder()?.join(name);
        compile(&crate::root().join(format!("benches/programs/{name}.c")), &program)?;
        Ok::<_, String>(program.to_string_lossy().into_owned())
    };
    let (remote, open) = (compiled("remote")?, compiled("open")?);
    let own = std::env::current_exe().map_err(|error| error.to_string())?.to_string_lossy().into_owned();
    let mut report = Report::of("accord-bench secure".to_owned());
    // In turn, twice: a slow change of the machine's speed favours neither.
    for round in 1..=2 {
        let text = accord(
            &["run", "--bare", "--local-cluster", "2x1", "-np", "2", "--", &own, PLAIN_PROGRAM, PORT, ROUNDS, MIB],
            &[],
        )?;
        report.take_lines(&format!("rustls/{round}/"), &text)?;
        for (way, option) in [("tls", None), ("tcp", Some("--insecure-plain-tcp"))] {
            let cluster = |size, rest: &[&str]| {
                let arguments = ["run", "--local-cluster", size].into_iter().chain(option);
                accord(&arguments.chain(rest.iter().copied()).collect::<Vec<_>>(), &[])
            };
            let text = cluster("3x2", &["-np", "2", "--", &remote, PORT, ROUNDS, MIB])?;
            report.take_lines(&format!("{way}/{round}/"), &text)?;
            report.take_lines(&format!("{way}/{round}/"), &cluster("2x1", &["--", &open, SESSIONS])?)?;
        }
    }
    let mean = |way: &str, name: &str| {
        let [first, second] = [1, 2].map(|round| report.median(&format!("{way}/{round}/{name}")));
        Ok::<_, String>(f64::midpoint(first?, second?))
    };
    let ratio = |name: &str| Ok::<_, String>(mean("tls", name)? / mean("tcp", name)?);
    let copyin = mean("rustls", "send")? / mean("tls", "copyin")?;
    let (launch, in_a_row) = (ratio("launch_wait")?, ratio("launch_wait_in_a_row")?);
    let session = ratio("open")?;
    report.at_least("copyin of 256 MiB: a plain rustls program's time / Accord's through TLS", copyin, "x", 0.85);
    report.at_most("launch and wait: TLS / plain TCP", launch, "x", 1.25);
    report.at_most("launch and wait in a row: TLS / plain TCP", in_a_row, "x", 1.25);
    report.at_most("a session and its first remote device: TLS / plain TCP", session, "x", 2.0);
    Ok(report)
}

/// Runs the plain program: the first rank sends and reports the time, the second one receives.
pub(crate) fn plain_program(arguments: &[String]) -> Result<(), String> {
    let [port, rounds, mib] = arguments else { return Err("PORT ROUNDS MIB are needed".to_owned()) };
    let (rounds, mib): (usize, usize) = (number(rounds)?, number(mib)?);
    let seeds = LaneSeeds { client: [1; 32], server: [2; 32] };
    let mut word = [0];
    if std::env::var("OMPI_COMM_WORLD_RANK").is_ok_and(|rank| rank == "1") {
        let listener = text(TcpListener::bind(("0.0.0.0", number(port)?)))?;
        let (tcp, _) = text(listener.accept())?;
        text(tcp.set_nodelay(true))?;
        let server = text(ServerConnection::new(text(seeds.to_accept(PROTOCOL))?))?;
        let mut lane = StreamOwned::new(server, tcp);
        let mut bytes = vec![1; mib << 20];
        for _ in 0..=rounds {
            text(bytes.chunks_mut(CHUNK).try_for_each(|chunk| lane.read_exact(chunk)))?;
            text(lane.write_all(&word).and_then(|()| lane.flush()))?;
        }
        return Ok(());
    }
    let tcp = reach(number(port)?)?;
    let client =
        ClientConnection::new(text(seeds.to_connect(PROTOCOL))?, text(ServerName::try_from("accord.invalid"))?);
    let mut lane = StreamOwned::new(text(client)?, tcp);
    let bytes = vec![3; mib << 20];
    let mut samples = Vec::new();
    for round in 0..=rounds {
        let begin = Instant::now();
        text(bytes.chunks(CHUNK).try_for_each(|chunk| lane.write_all(chunk)).and_then(|()| lane.flush()))?;
        text(lane.read_exact(&mut word))?;
        // The first round touches the pages.
        if round > 0 {
            samples.push(begin.elapsed().as_secs_f64() * 1e6);
        }
    }
    println!("{}", json!({ "name": "send", "unit": "us", "samples": samples }));
    Ok(())
}

/// Connects, with retries, because the other rank may not listen yet.
fn reach(port: u16) -> Result<TcpStream, String> {
    const TRIES: u32 = 100;
    for _ in 0..TRIES {
        if let Ok(tcp) = TcpStream::connect((PEER, port)) {
            text(tcp.set_nodelay(true))?;
            return Ok(tcp);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    Err(format!("nothing listens at {PEER}:{port}; hosts have to be network namespaces, which takes root"))
}

fn number<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("{text} is no number"))
}

fn text<T, E: std::fmt::Display>(result: Result<T, E>) -> Result<T, String> {
    result.map_err(|error| error.to_string())
}
