//! Forms of output: tables for people, JSON for programs.

mod size;
mod table;

pub(crate) use size::{age, bytes, count, rate, time};
pub(crate) use table::Table;

use std::fmt;
use std::io::Write;

/// Writes a command's result. A reader that has seen enough (`| head`) is no failure.
pub(crate) fn print(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// Tells people something on standard error, in one piece. Nobody may be there: the terminal of a
/// run that is taken down may be gone already.
pub(crate) fn tell(what: fmt::Arguments<'_>) {
    let line = format!("accord: {what}\n");
    let _ = std::io::stderr().write_all(line.as_bytes());
}
