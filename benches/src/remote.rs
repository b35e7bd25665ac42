//! What a remote CPU device costs beside TCP and a futex (`programs/remote.c`).

use crate::report::{Report, accord, build_folder, compile};

const PORT: &str = "7799";
const ROUNDS: &str = "15";
const MIB: &str = "256";

pub(crate) fn run() -> Result<Report, String> {
    let program = build_folder()?.join("remote");
    compile(&crate::root().join("benches/programs/remote.c"), &program)?;
    let program = program.to_string_lossy().into_owned();
    let arguments = ["run", "--local-cluster", "3x2", "-np", "2", "--", &program, PORT, ROUNDS, MIB];
    let text = accord(&arguments, &[])?;
    let mut report = Report::of(format!("accord {}", arguments.join(" ")));
    report.take_lines(&text)?;
    let (tcp, futex) = (report.median("tcp_ping")?, report.median("futex_ping")?);
    let launch = report.median("launch_wait")?;
    let (sent, received) = (report.median("tcp_send")?, report.median("tcp_receive")?);
    report.at_most("enqueue of an async launch to a remote device", report.median("enqueue")?, "us", 2.0);
    report.at_most("launch and wait / (TCP ping-pong + futex ping-pong)", launch / (tcp + futex), "x", 1.3);
    report.at_least("copyin of 256 MiB: raw TCP time / Accord's", sent / report.median("copyin")?, "x", 0.8);
    report.at_least("copyout of 256 MiB: raw TCP time / Accord's", received / report.median("copyout")?, "x", 0.8);
    report.at_least("d2d of 256 MiB, two remote nodes: raw TCP time / Accord's", sent / report.median("d2d")?, "x", 0.8);
    Ok(report)
}
