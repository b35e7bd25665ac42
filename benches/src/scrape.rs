//! What it costs programs that coordinator and agents are asked for their metrics every second.

use crate::report::{Report, accord, build_folder, compile};
use serde_json::json;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// The argument that makes `accord-bench` run a program and ask meanwhile.
pub(crate) const WITH_SCRAPES: &str = "__scraped";
/// Follows it if somebody is to ask.
const ASKS: &str = "yes";
/// Even, so that each way is first as often.
const ROUNDS_OF_EACH: usize = 4;
const PORT: &str = "7795";
const ROUNDS: &str = "400";
/// Where all of a local cluster answer: its hosts have addresses of their own.
const METRICS: &str = "0.0.0.0:9464";
const PARTS: [&str; 4] = ["10.77.0.254:9464", "10.77.0.1:9464", "10.77.0.2:9464", "10.77.0.3:9464"];
const PERIOD: Duration = Duration::from_secs(1);
const SOON: Duration = Duration::from_secs(2);

pub(crate) fn run() -> Result<Report, String> {
    let program = build_folder()?.join("remote");
    compile(&crate::root().join("benches/programs/remote.c"), &program)?;
    let program = program.to_string_lossy().into_owned();
    let own = std::env::current_exe().map_err(|error| error.to_string())?.to_string_lossy().into_owned();
    let mut report = Report::of("accord-bench scrape".to_owned());
    // By turns, each way first as often as second: a machine whose speed changes slowly favours none, and being first doesn't either.
    for round in 1..=ROUNDS_OF_EACH {
        let mut ways = [("scraped", ASKS), ("left alone", "no")];
        ways.rotate_left(round % 2);
        for (way, asks) in ways {
            let cluster = ["run", "--local-cluster", "3x2", "-np", "2", "--", &own, WITH_SCRAPES, asks];
            let line = [&cluster[..], &[&program, PORT, ROUNDS, "1"]].concat();
            let text = accord(&line, &[("ACCORD_METRICS_LISTEN", METRICS)])?;
            report.take_lines(&format!("{way}/{round}/"), &text)?;
        }
    }
    for (name, what) in [("launch_wait", "launch and wait"), ("enqueue", "enqueue of an async launch")] {
        let median = |way: &str| {
            let mut rounds: Vec<f64> = (1..=ROUNDS_OF_EACH)
                .map(|round| report.median(&format!("{way}/{round}/{name}")))
                .collect::<Result<_, _>>()?;
            rounds.sort_by(f64::total_cmp);
            Ok::<_, String>((rounds[rounds.len() / 2 - 1] + rounds[rounds.len() / 2]) / 2.0)
        };
        let ratio = median("scraped")? / median("left alone")?;
        report.at_most(&format!("{what}: metrics asked for every second / not"), ratio, "x", 1.05);
    }
    Ok(report)
}

/// Runs the program and, if it is to and this is the program's first process, asks all parts of the cluster meanwhile; says how often they answered.
pub(crate) fn with_scrapes(line: &[String]) -> Result<(), String> {
    let [asks, program, arguments @ ..] = line else { return Err("a program is needed".to_owned()) };
    let (over, answers) = (AtomicBool::new(false), AtomicU64::new(0));
    let first = asks == ASKS && std::env::var("OMPI_COMM_WORLD_RANK").is_ok_and(|rank| rank == "0");
    let status = std::thread::scope(|scope| {
        if first {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    let answered = PARTS.iter().filter(|part| metrics(part).is_some()).count();
                    answers.fetch_add(answered as u64, Ordering::Relaxed);
                    std::thread::sleep(PERIOD);
                }
            });
        }
        let status = Command::new(program).args(arguments).status();
        over.store(true, Ordering::Relaxed);
        status
    });
    let status = status.map_err(|error| format!("{program}: {error}"))?;
    if !status.success() {
        return Err(format!("{program} ended with {status}"));
    }
    let answers = answers.into_inner();
    if first && answers < PARTS.len() as u64 {
        return Err(format!(
            "{answers} answers with metrics came; hosts have to be network namespaces, which takes root"
        ));
    }
    if first {
        println!("{}", json!({ "name": "answers with metrics", "unit": "", "samples": [answers] }));
    }
    Ok(())
}

/// One page of metrics.
fn metrics(part: &str) -> Option<String> {
    let address: SocketAddr = part.parse().ok()?;
    let mut tcp = TcpStream::connect_timeout(&address, SOON).ok()?;
    tcp.set_read_timeout(Some(SOON)).ok()?;
    write!(tcp, "GET /metrics HTTP/1.1\r\nHost: {part}\r\nConnection: close\r\n\r\n").ok()?;
    let mut page = String::new();
    tcp.read_to_string(&mut page).ok()?;
    page.contains("\naccord_").then_some(page)
}
