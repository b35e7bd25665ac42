//! The speed of devices that are 1 ms and 1 Gbit/s away (tests/slow-network, as root). Compares the devices of three
//! hosts together with each of them alone (`programs/mandelbrot_apart.c`), and launches and copies with plain TCP
//! (`programs/remote.c`).

use crate::report::{Report, accord, build_folder, compile};

const PORT: &str = "7796";
/// Number of copies of 64 MiB, half a second each; there are a hundred times as many round trips.
const ROUNDS: &str = "7";
const MIB: &str = "64";
/// The size of the picture, of its blocks, and the rounds.
const SIZE: &str = "2304";
const BLOCKS: &str = "288";
const PICTURES: &str = "5";
/// Time of an iteration on these devices, in nanoseconds: several times that of a core, so that all devices, the
/// network and the program can share two cores.
const NS: &str = "24";
/// Number of blocks in flight per device.
const DEPTH: &str = "4";
/// A small picture in blocks of 1.4 ms on average: each is shorter than a round trip, but enough are in flight.
const SHORT: [&str; 5] = ["1152", "576", PICTURES, "12", "8"];
/// Largest ratio of regions' actual to nominal time, which shows that the machine's cores are not overloaded.
const LATE_MAX: f64 = 1.05;

pub(crate) fn run() -> Result<Report, String> {
    let compiled = |name: &str| {
        let program = build_folder()?.join(name);
        compile(&crate::root().join(format!("benches/programs/{name}.c")), &program)?;
        Ok::<_, String>(program.to_string_lossy().into_owned())
    };
    let (remote, mandelbrot) = (compiled("remote")?, compiled("mandelbrot_apart")?);
    let network = crate::root().join("target/release/slow-network").to_string_lossy().into_owned();
    let slow = ["--", &network, "--figures", "--"];
    let mut report = Report::of(format!(
        "accord run --insecure-plain-tcp --local-cluster 3x2 -np 2 {0} {remote} {PORT} {ROUNDS} {MIB}; \
         accord run --local-cluster 3x2 [--fabric mpi] {0} {mandelbrot} {SIZE} {BLOCKS} {PICTURES} {NS} {DEPTH}; \
         accord run --local-cluster 3x1 {0} {mandelbrot} {1}",
        slow.join(" "),
        SHORT.join(" "),
    ));
    // Compared with plain TCP; `secure` measures the cost of TLS.
    let start = ["run", "--insecure-plain-tcp", "--local-cluster", "3x2", "-np", "2"];
    let line = [&start[..], &slow, &[&remote, PORT, ROUNDS, MIB]].concat();
    report.take_lines("remote/", &accord(&line, &[])?)?;
    beside_tcp(&mut report)?;
    let fabrics: &[(&str, &[&str])] = &[("tls", &[]), ("mpi", &["--fabric", "mpi"])];
    for (fabric, options) in fabrics {
        let picture = [&mandelbrot, SIZE, BLOCKS, PICTURES, NS, DEPTH];
        let line = [&["run", "--local-cluster", "3x2"], *options, &slow, &picture].concat();
        match accord(&line, &[]) {
            Ok(text) => report.take_lines(&format!("{fabric}/"), &text)?,
            // Accord is usually built without MPI.
            Err(why) if *fabric == "mpi" => {
                eprintln!("slow-network: without MPI: {why}");
                continue;
            }
            Err(why) => return Err(why),
        }
        over_all(&mut report, fabric)?;
    }
    let line = [&["run", "--local-cluster", "3x1"][..], &slow, &[&mandelbrot[..]], &SHORT[..]].concat();
    report.take_lines("short/", &accord(&line, &[])?)?;
    // Nominal over actual time of a remote device's regions: the program's own device would measure a busy machine.
    let (late, idle) = (report.median("short/device_1/late")?, report.median("short/device_1/idle")?);
    report.at_least("blocks of 1.4 ms, eight deep: what they were to take / time", (1.0 - idle) / late, "x", 0.75);
    Ok(report)
}

/// Measures the network itself, and launches and copies over it.
fn beside_tcp(report: &mut Report) -> Result<(), String> {
    let median = |name: &str| report.median(&format!("remote/{name}"));
    let (ping, sent, received) = (median("tcp_ping")?, median("tcp_send")?, median("tcp_receive")?);
    let mib: f64 = MIB.parse().map_err(|error| format!("{error}"))?;
    let mbit = |us: f64| mib * 1024.0 * 1024.0 * 8.0 / us;
    let launch = median("launch_wait_in_a_row")? / ping;
    let copies = [("copyin", sent), ("copyout", received), ("d2d", sent)];
    let ratios = copies.map(|(name, raw)| median(name).map(|time| (name, raw / time)));
    let pieces = [64, 256, 1024].map(|kib| {
        let raw = median(&format!("tcp_send_beside_{kib}k"));
        let time = median(&format!("regions_and_copyins_of_{kib}k"));
        (kib, raw.and_then(|raw| Ok(raw / time?)))
    });
    report.at_most("plain TCP, 64 B there and back: 1 ms each way", ping, "us", 2400.0);
    report.at_least("plain TCP, a stream there: 1 Gbit/s with headers", mbit(sent), "Mbit/s", 900.0);
    report.at_least("plain TCP, a stream back", mbit(received), "Mbit/s", 900.0);
    report.at_most("launch and wait / plain TCP there and back", launch, "x", 1.1);
    for ratio in ratios {
        let (name, ratio) = ratio?;
        report.at_least(&format!("{name} of {MIB} MiB: plain TCP's time / Accord's"), ratio, "x", 0.9);
    }
    for (kib, ratio) in pieces {
        let what = format!("regions and copies in of {kib} KiB in one queue: plain TCP's time / Accord's");
        report.at_least(&what, ratio?, "x", 0.7);
    }
    Ok(())
}

/// Measures all devices together, and each alone.
fn over_all(report: &mut Report, fabric: &str) -> Result<(), String> {
    let median = |name: &str| report.median(&format!("{fabric}/{name}"));
    let mut rates = Vec::new();
    while let Ok(time) = median(&format!("device_{}", rates.len())) {
        rates.push(1.0 / time);
    }
    let sum: f64 = rates.iter().sum();
    let ratio = 1.0 / median("all")? / sum;
    let slowest = rates.iter().copied().fold(f64::INFINITY, f64::min);
    let (own, late, core) = (rates[0], median("all/late")?, median("all/core")?);
    let cores = std::thread::available_parallelism().map_or(1.0, |cores| cores.get() as f64);
    let all_take = core * rates.len() as f64 / cores;
    report.at_least(&format!("Mandelbrot on all devices: rate / sum of their own, {fabric}"), ratio, "x", 0.9);
    report.at_least(&format!("a device of another host / the program's own, {fabric}"), slowest / own, "x", 0.95);
    report.at_most(&format!("regions on all devices: time / what they were to take, {fabric}"), late, "x", LATE_MAX);
    report.at_most(&format!("share of this machine's cores that they took, {fabric}"), all_take, "", 0.5);
    Ok(())
}
