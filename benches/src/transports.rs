//! The gain of shared memory between a program and an executor of one machine, compared with TCP (`programs/remote.c`).

use crate::report::{Report, accord, build_folder, compile};

const PORT: &str = "7798";
const ROUNDS: &str = "7";
const MIB: &str = "256";

pub(crate) fn run() -> Result<Report, String> {
    let program = build_folder()?.join("remote");
    compile(&crate::root().join("benches/programs/remote.c"), &program)?;
    let program = program.to_string_lossy().into_owned();
    // Hosts share one network, so that the agents are reachable in both ways.
    let arguments = ["run", "--local-cluster", "3x2", "--loopback", "-np", "2", "--", &program, PORT, ROUNDS, MIB];
    let mut report = Report::of(format!("ACCORD_TRANSPORT=tcp|shm accord {}", arguments.join(" ")));
    // In turn, twice: a slow change of the machine's speed favours neither.
    for round in 1..=2 {
        for transport in ["tcp", "shm"] {
            let text = accord(&arguments, &[("ACCORD_TRANSPORT", transport), ("BENCH_PEER", "127.0.0.1")])?;
            report.take_lines(&format!("{transport}/{round}/"), &text)?;
        }
    }
    let mean = |transport: &str, name: &str| {
        let medians = [1, 2].map(|round| report.median(&format!("{transport}/{round}/{name}")));
        let [first, second] = medians;
        Ok::<_, String>(f64::midpoint(first?, second?))
    };
    let ratio = |name: &str| Ok::<_, String>(mean("shm", name)? / mean("tcp", name)?);
    let (launch, copyin, copyout) = (ratio("launch_wait_in_a_row")?, 1.0 / ratio("copyin")?, 1.0 / ratio("copyout")?);
    let (tiny, large) = (ratio("d2d_8_bytes")?, 1.0 / ratio("d2d")?);
    report.at_most("launch and wait: shared memory / TCP", launch, "x", 0.6);
    report.at_least("copyin of 256 MiB: TCP's time / shared memory's", copyin, "x", 1.5);
    report.at_least("copyout of 256 MiB: TCP's time / shared memory's", copyout, "x", 1.0);
    report.at_most("8 bytes between two nodes: shared memory / TCP", tiny, "x", 1.0);
    report.at_least("256 MiB between two nodes: TCP's time / shared memory's", large, "x", 1.0);
    Ok(report)
}
