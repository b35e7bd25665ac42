//! The gain of a second CPU device: the same picture on one device and on two (`programs/mandelbrot.c`).

use crate::report::{Report, accord, build_folder, compile};

pub(crate) fn run() -> Result<Report, String> {
    let program = build_folder()?.join("mandelbrot");
    compile(&crate::root().join("benches/programs/mandelbrot.c"), &program)?;
    let program = program.to_string_lossy().into_owned();
    let arguments = ["run", "--", &program, "1536", "9"];
    let text = accord(&arguments, &[("ACCORD_CPU_DEVICES", "2")])?;
    let mut report = Report::of(format!("ACCORD_CPU_DEVICES=2 accord {}", arguments.join(" ")));
    report.take_lines("", &text)?;
    let speedup = report.median("one_device")? / report.median("two_devices")?;
    report.at_least("Mandelbrot: time on one CPU device / on two", speedup, "x", 1.8);
    Ok(report)
}
