//! The cost of a remote CPU device compared with TCP and a futex (`programs/remote.c`).

use crate::report::{Report, accord, build_folder, compile, on_one_core};

const PORT: &str = "7799";
const ROUNDS: &str = "15";
const MIB: &str = "256";

pub(crate) fn run() -> Result<Report, String> {
    let program = build_folder()?.join("remote");
    compile(&crate::root().join("benches/programs/remote.c"), &program)?;
    let program = program.to_string_lossy().into_owned();
    // Compared with plain TCP; `secure` measures the cost of TLS.
    let plain = "--insecure-plain-tcp";
    let arguments = ["run", plain, "--local-cluster", "3x2", "-np", "2", "--", &program, PORT, ROUNDS, MIB];
    let text = accord(&arguments, &[])?;
    let mut report = Report::of(format!("accord {}", arguments.join(" ")));
    report.take_lines("", &text)?;
    // The cost of waking a thread depends on its core: 3 us on the same core, ten times that on an idle one of a
    // virtual machine. On one core all wake-ups cost the same, so that only the work is compared.
    let arguments = ["run", plain, "--local-cluster", "3x2", "-np", "2", "--", &program, PORT, ROUNDS, "1"];
    report.take_lines("one_core/", &on_one_core(&arguments)?)?;

    let (sent, received) = (report.median("tcp_send")?, report.median("tcp_receive")?);
    report.at_most("enqueue of an async launch to a remote device", report.median("enqueue")?, "us", 2.0);
    for (place, prefix) in [("one core", "one_core/"), ("free", "")] {
        let median = |name: &str| report.median(&format!("{prefix}{name}"));
        let ratio = median("launch_wait")? / (median("tcp_ping")? + median("futex_ping")?);
        report.at_most(&format!("launch and wait / (TCP + futex ping-pong), {place}"), ratio, "x", 1.3);
    }
    report.at_least("copyin of 256 MiB: raw TCP time / Accord's", sent / report.median("copyin")?, "x", 0.8);
    report.at_least("copyout of 256 MiB: raw TCP time / Accord's", received / report.median("copyout")?, "x", 0.8);
    report.at_least(
        "d2d of 256 MiB, two remote nodes: raw TCP time / Accord's",
        sent / report.median("d2d")?,
        "x",
        0.8,
    );
    Ok(report)
}
