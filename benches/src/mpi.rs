//! Traffic through the gateway and MPI, compared with raw MPI between the same hosts in the same processes
//! (`programs/mpi_beside.c`).

use crate::report::{Report, accord, build_folder, compile_with};

const ROUNDS: &str = "15";
const MIB: &str = "256";
/// How long idle agents are observed.
const IDLE_SECONDS: &str = "60";

pub(crate) fn run() -> Result<Report, String> {
    let program = build_folder()?.join("mpi_beside");
    compile_with("mpicc", &crate::root().join("benches/programs/mpi_beside.c"), &program)?;
    let program = program.to_string_lossy().into_owned();
    let start = ["run", "--local-cluster", "3x1", "--fabric", "mpi"];
    let mut report =
        Report::of(format!("accord {} [-np 2] [--loopback] [--remote-only] -- {program} WHAT", start.join(" ")));
    let mut ask = |prefix: &str, options: &[&str], arguments: &[&str]| -> Result<(), String> {
        let line = [&start[..], options, &["--", &program], arguments].concat();
        report.take_lines(prefix, &accord(&line, &[])?)
    };
    // Hosts with networks of their own, where MPI uses TCP (as root; otherwise the same as below), and processes of one
    // host, where it uses shared memory.
    for (prefix, options) in [("hosts/", &["-np", "2"][..]), ("loopback/", &["-np", "2", "--loopback"][..])] {
        ask(prefix, options, &["all", ROUNDS, MIB])?;
    }
    ask("", &["--loopback", "--remote-only"], &["empty", ROUNDS])?;
    ask("", &["-np", "2", "--loopback"], &["idle", IDLE_SECONDS])?;

    let empty = report.median("empty_command")?;
    for kind in ["spinning", "sleeping"] {
        let ratio = empty / report.median(&format!("shm_{kind}"))?;
        report.at_most(&format!("empty command to the host's agent / shared memory, {kind}"), ratio, "x", 2.0);
    }
    for place in ["hosts", "loopback"] {
        let median = |name: &str| report.median(&format!("{place}/{name}"));
        let (more, stream) = (median("launch_wait")? - median("mpi_ping")?, median("mpi_stream")?);
        let (copyin, d2d) = (stream / median("copyin")?, stream / median("d2d")?);
        report.at_most(&format!("launch and wait, more than raw MPI there and back, {place}"), more, "us", 12.0);
        report.at_least(&format!("copyin of 256 MiB: raw MPI's time / Accord's, {place}"), copyin, "x", 0.85);
        report.at_least(&format!("d2d of 256 MiB: raw MPI's time / Accord's, {place}"), d2d, "x", 0.9);
    }
    report.at_most("an idle agent, 60 s", report.median("idle_agent")?, "%", 1.0);
    Ok(report)
}
