//! Forms of output: tables for people, JSON for programs.

mod runs;
mod size;
mod table;

pub(crate) use runs::runs;
pub(crate) use size::{age, bytes, count, rate, time};
pub(crate) use table::Table;

use accord_types::printable_lines;
use std::fmt;
use std::io::Write;

/// Writes a command's result. A reader that closes the pipe early (`| head`) is no failure.
pub(crate) fn print(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// Writes a text for display, with control characters escaped, because it may hold words of others.
pub(crate) fn show(text: &str) {
    print(&printable_lines(text));
}

/// Writes a line to standard error, in one piece. It may be lost if a terminal is already gone.
pub(crate) fn report_line(what: fmt::Arguments<'_>) {
    let line = format!("accord: {what}\n");
    let _ = std::io::stderr().write_all(printable_lines(&line).as_bytes());
}
