//! Compiles and runs programs.

use accord_kernels::analysis::Rules;
use accord_kernels::{Form, Input, Mode, Rewritten, rewrite_fortran};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Everything that is proven is opened.
const RULES: Rules = Rules { prove: true, implicit_reductions: true, no_alias: false };

/// What becomes of a source that needs no other file.
pub(crate) fn rewritten(text: &str, form: Form, name: &str, mode: Mode) -> Rewritten {
    let (no_module, none) = (|_: &str| None, |_: &str| None);
    rewrite_fortran(&Input { text, form, name, module: &no_module, include: &none }, mode, RULES)
}

/// The program of a source, and other sources ahead of it. Without `-fopenacc` directives are comments: all loops leave their last
/// values.
pub(crate) fn compiled(folder: &Path, file: &str, text: &str, others: &[PathBuf], flags: &[&str]) -> PathBuf {
    let source = folder.join(file);
    std::fs::write(&source, text).unwrap();
    let program = source.with_extension("");
    let output = Command::new("gfortran")
        .args(["-O1", "-w", "-fcheck=bounds"])
        .args(flags)
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

/// What a program prints; `seed` chooses the order of iterations.
pub(crate) fn printed(program: &Path, seed: u64) -> String {
    let output = Command::new(program).env("ACCORD_KERNELS_SEED", seed.to_string()).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{}: {text}{}", program.display(), String::from_utf8_lossy(&output.stderr));
    text
}
