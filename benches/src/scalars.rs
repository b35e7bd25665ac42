//! The cost of scalars in a synchronous `kernels` region (`programs/scalars.c`).

use crate::report::{Report, accord, build_folder, compile};

const BLOCKS: &str = "31";
/// Number of regions in sequence, in-process.
const REGIONS: &str = "2000";
const REMOTE_REGIONS: &str = "500";

pub(crate) fn run() -> Result<Report, String> {
    let program = build_folder()?.join("scalars");
    compile(&crate::root().join("benches/programs/scalars.c"), &program)?;
    let program = program.to_string_lossy().into_owned();
    let local = ["run", "--", &program, "0", BLOCKS, REGIONS];
    let remote = ["run", "--local-cluster", "2x1", "--", &program, "1", BLOCKS, REMOTE_REGIONS];
    let mut report = Report::of(format!("accord {}; accord {}", local.join(" "), remote.join(" ")));
    report.take_lines("in_process/", &accord(&local, &[("ACCORD_CPU_DEVICES", "1")])?)?;
    report.take_lines("remote/", &accord(&remote, &[])?)?;
    for (place, prefix) in [("in-process", "in_process/"), ("remote", "remote/")] {
        let median = |name: &str| report.median(&format!("{prefix}{name}"));
        let ratio = median("fifteen")? / median("one")?;
        report.at_most(&format!("kernels region with 15 scalars / with 1, {place}"), ratio, "x", 1.2);
    }
    report.at_most(
        "2,000 regions with 15 scalars in a row, in-process",
        report.median("in_process/fifteen")?,
        "us",
        15.0,
    );
    Ok(report)
}
