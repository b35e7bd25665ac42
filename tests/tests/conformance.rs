//! The programs under `programs/`, each in several variants and modes. `program.rs` describes how a program states its
//! expected result.

use libtest_mimic::{Arguments, Conclusion};
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    match accord_tests::trials() {
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
