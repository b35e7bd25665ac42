//! Compares a program's result with its expectation.

use crate::{Expect, Finished, Result};

/// The result of a program, with its expectation.
pub struct Outcome<'a> {
    expect: &'a Expect,
    finished: &'a Finished,
}

impl<'a> Outcome<'a> {
    /// Creates the comparison for a program that has ended.
    pub fn new(expect: &'a Expect, finished: &'a Finished) -> Self {
        Self { expect, finished }
    }

    /// Checks the result against the expectation.
    ///
    /// # Errors
    /// Returns the differences, then the program's whole output.
    pub fn check(&self) -> Result<()> {
        let Self { expect, finished } = *self;
        let mut wrong = Vec::new();
        if finished.timed_out {
            wrong.push("hangs".to_owned());
        } else if finished.code() != expect.exit {
            wrong.push(format!("exit status {}, expected {}", finished.code(), expect.exit));
        }
        if expect.exit == 0 && !finished.stdout.lines().any(|line| line.trim() == "PASS") {
            wrong.push("no PASS".to_owned());
        }
        if finished.stdout.contains("FAIL") {
            wrong.push("a check failed".to_owned());
        }
        for (name, text, patterns) in
            [("stdout", &finished.stdout, &expect.stdout), ("stderr", &finished.stderr, &expect.stderr)]
        {
            for pattern in patterns.iter().filter(|pattern| !pattern.is_match(text)) {
                wrong.push(format!("{name} lacks /{pattern}/"));
            }
        }
        if !finished.left_behind.is_empty() {
            wrong.push("left processes behind".to_owned());
        }
        if wrong.is_empty() { Ok(()) } else { Err(format!("{}\n{}", wrong.join("; "), finished.report())) }
    }
}
