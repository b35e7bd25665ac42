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

/// Writes a command's result. A reader that has seen enough (`| head`) is no failure.
pub(crate) fn print(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// The same for people: names and words of others are in it.
pub(crate) fn show(text: &str) {
    print(&printable_lines(text));
}

/// Prints a line for the user on standard error, in one piece. It may be lost: the terminal of a run that is taken down
/// may be gone already.
pub(crate) fn tell(what: fmt::Arguments<'_>) {
    let line = format!("accord: {what}\n");
    let _ = std::io::stderr().write_all(printable_lines(&line).as_bytes());
}
