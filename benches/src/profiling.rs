//! The cost of a tool's events, and of the interface without a tool (`programs/profiling.c`).

use crate::report::{Report, accord, build_folder, compile};

const BLOCKS: &str = "101";
const REGIONS: &str = "500";
/// Largest ratio of two medians of the same measurement.
const NOISE: f64 = 1.05;

pub(crate) fn run() -> Result<Report, String> {
    let program = build_folder()?.join("profiling");
    compile(&crate::root().join("benches/programs/profiling.c"), &program)?;
    let program = program.to_string_lossy().into_owned();
    let arguments = ["run", "--", &program, BLOCKS, REGIONS];
    let mut report = Report::of(format!("ACCORD_CPU_DEVICES=1 accord {}", arguments.join(" ")));
    report.take_lines("", &accord(&arguments, &[("ACCORD_CPU_DEVICES", "1")])?)?;
    for (operation, what) in [("enqueue", "enqueue"), ("wait", "launch and wait")] {
        let median = |name: &str| report.median(&format!("{operation}_{name}"));
        let (never, none, counted) = (median("never")?, median("none")?, median("counted")?);
        let events = median("events")?;
        report.at_most(
            &format!("{what}, {events} events, a tool that counts / none"),
            counted / none,
            "x",
            (1.0 + events / none).floor(),
        );
        report.at_most(&format!("{what}, an event"), (counted - none) / events, "us", 1.0);
        report.at_most(&format!("{what}, after a tool is gone / before one came"), none / never, "x", NOISE);
    }
    Ok(report)
}
