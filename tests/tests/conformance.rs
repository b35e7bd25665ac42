//! The programs under `programs/`, each in several variants and modes. `program.rs` describes how a program states its
//! expected result.

use libtest_mimic::{Arguments, Conclusion};
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    // The test runner starts this program for each test.
    let only = arguments.filter.as_deref().filter(|_| arguments.exact);
    match accord_tests::trials(only) {
        Ok(trials) => {
            let conclusion: Conclusion = libtest_mimic::run(&arguments, trials);
            conclusion.exit_code()
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
