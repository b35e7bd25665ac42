//! The cost of one lane between two threads: shared memory compared with TCP on this machine.

use crate::report::Report;
use accord_fabric::transport::{SharedLane, Transport, pair, shm_pair};
use std::time::Instant;

const ROUNDS: usize = 7;
const WORDS: usize = 20_000;
/// The size of a launch and a wait on the wire.
const WORD: usize = 288;
const STREAM: usize = 256 << 20;
/// The size of a transfer's chunk.
const CHUNK: usize = 1 << 20;

pub(crate) fn run() -> Result<Report, String> {
    let mut report = Report::of("accord-bench lanes".to_owned());
    let mut samples = std::collections::BTreeMap::<String, Vec<f64>>::new();
    for _ in 0..ROUNDS {
        for transport in [Transport::Tcp, Transport::Shm] {
            let mut keep = |what: &str, value| samples.entry(format!("{transport}_{what}")).or_default().push(value);
            keep("ping", ping(transport)?);
            keep("stream", stream(transport)?);
        }
    }
    for (name, samples) in samples {
        report.put(&name, "us", samples);
    }
    let ratio =
        |what: &str| Ok::<_, String>(report.median(&format!("shm_{what}"))? / report.median(&format!("tcp_{what}"))?);
    let (ping, stream) = (ratio("ping")?, 1.0 / ratio("stream")?);
    report.at_most("there and back, 288 bytes: shared memory / TCP", ping, "x", 0.6);
    report.at_least("256 MiB: TCP's time / shared memory's", stream, "x", 1.5);
    Ok(report)
}

fn ends(transport: Transport) -> Result<(SharedLane, SharedLane), String> {
    let ends = if transport == Transport::Shm { shm_pair() } else { pair() };
    ends.map_err(|error| format!("a lane over {transport}: {error}"))
}

/// Returns the time of a round trip in microseconds.
fn ping(transport: Transport) -> Result<f64, String> {
    let (here, there) = ends(transport)?;
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let mut word = [0; WORD];
            while there.read_exact(&mut word).is_ok() && there.send(&word).is_ok() {}
        });
        let mut word = [0; WORD];
        let start = Instant::now();
        for _ in 0..WORDS {
            here.send(&word).and_then(|()| here.read_exact(&mut word)).map_err(|error| error.to_string())?;
        }
        let time = start.elapsed();
        here.shutdown();
        Ok(time.as_secs_f64() * 1e6 / WORDS as f64)
    })
}

/// Returns the time of a whole stream in microseconds.
fn stream(transport: Transport) -> Result<f64, String> {
    let (here, there) = ends(transport)?;
    let from = vec![1_u8; STREAM];
    // Written before, because otherwise the first access to each page is measured.
    let mut to = vec![2_u8; STREAM];
    let start = Instant::now();
    std::thread::scope(|scope| {
        scope.spawn(|| from.chunks(CHUNK).all(|chunk| here.send(chunk).is_ok()));
        to.chunks_mut(CHUNK).try_for_each(|chunk| there.read_exact(chunk)).map_err(|error| error.to_string())
    })?;
    Ok(start.elapsed().as_secs_f64() * 1e6)
}
