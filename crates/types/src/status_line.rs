//! A line on standard error about an ongoing state. A terminal's line is rewritten; elsewhere each text is a line of
//! its own.

use crate::printable;
use std::io::{IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};

/// A line on standard error that is rewritten on a terminal.
#[derive(Debug, Default)]
pub struct StatusLine {
    /// Whether a text without its line end is on the terminal.
    is_open: AtomicBool,
}

impl StatusLine {
    /// Creates a line without a text.
    pub const fn new() -> Self {
        Self { is_open: AtomicBool::new(false) }
    }

    /// Displays a text in place of the previous one.
    pub fn show(&self, text: &str) {
        let mut out = std::io::stderr();
        let is_terminal = out.is_terminal();
        let line = rendered(text, is_terminal);
        // Standard error may be closed.
        let _ = out.write_all(line.as_bytes()).and_then(|()| out.flush());
        self.is_open.store(is_terminal, Ordering::Relaxed);
    }

    /// Ends the line.
    pub fn end(&self) {
        if self.is_open.swap(false, Ordering::Relaxed) {
            let _ = std::io::stderr().write_all(b"\n");
        }
    }
}

impl Drop for StatusLine {
    fn drop(&mut self) {
        self.end();
    }
}

fn rendered(text: &str, is_terminal: bool) -> String {
    let text = printable(text);
    match is_terminal {
        // Without the terminal's automatic wrap: a wrapped line can't be rewritten.
        true => format!("\r\x1b[K\x1b[?7laccord: {text}\x1b[?7h"),
        false => format!("accord: {text}\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminals_line_is_rewritten_and_others_follow_each_other() {
        assert_eq!(rendered("job 1 waits", true), "\r\x1b[K\x1b[?7laccord: job 1 waits\x1b[?7h");
        assert_eq!(rendered("job 1\x1b waits", false).lines().count(), 1);
        assert!(rendered("job 1 waits", false).ends_with("waits\n"));
    }
}
