//! Compiles and runs programs.

use super::super::support::RULES;
use crate::{Form, Input, Mode, Rewritten, rewrite_fortran};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A source that needs no other file.
pub(super) fn alone<'a>(text: &'a str, form: Form, name: &'a str) -> Input<'a> {
    Input { text, form, name, module: &|_| None, include: &|_| None }
}

/// Returns the rewritten source.
pub(super) fn rewritten(text: &str, form: Form, name: &str, mode: Mode) -> Rewritten {
    rewrite_fortran(&alone(text, form, name), mode, RULES)
}

/// Compiles a source, with other sources before it. Its regions run on the host; directives make variables private also where
/// loops run in order.
pub(super) fn compiled(folder: &Path, file: &str, text: &str, others: &[PathBuf]) -> PathBuf {
    let source = folder.join(file);
    std::fs::write(&source, text).unwrap();
    let program = source.with_extension("");
    let output = Command::new("gfortran")
        .args(["-O1", "-w", "-fcheck=bounds", "-fopenacc", "-foffload=disable"])
        .arg("-J")
        .arg(folder)
        .args(others)
        .arg(&source)
        .arg("-o")
        .arg(&program)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}: {}\n{text}", source.display(), String::from_utf8_lossy(&output.stderr));
    program
}

/// Returns the output of a program; `seed` chooses the order of iterations.
pub(super) fn printed(program: &Path, seed: u64) -> String {
    let output = Command::new(program).env("KERNELS_CHECK_SEED", seed.to_string()).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{}: {text}{}", program.display(), String::from_utf8_lossy(&output.stderr));
    text
}
