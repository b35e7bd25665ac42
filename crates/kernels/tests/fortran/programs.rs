//! Programs that check themselves, and some in fixed form.

use crate::built::{compiled, printed, rewritten};
use accord_kernels::{Form, Mode};
use std::path::{Path, PathBuf};

const FLAGS: &[&str] = &["-fopenacc", "-foffload=disable"];

/// Orders of iterations that are tried.
const ORDERS: u64 = 4;

fn programs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/programs")
}

/// Runs a program as it is, in parallel regions and in other orders; returns how many loops became parallel.
fn try_all(name: &str, text: &str, form: Form, others: &[PathBuf]) -> usize {
    let folder = tempfile::tempdir().unwrap();
    let extension = if form == Form::Free { "f90" } else { "f" };
    let expected = printed(&compiled(folder.path(), &format!("plain.{extension}"), text, others, FLAGS), 0);
    let mut opened = 0;
    for (mode, file) in [(Mode::Parallel, "parallel"), (Mode::Check, "check")] {
        let new = rewritten(text, form, name, mode);
        opened = new.messages.iter().filter(|message| !message.refused).count();
        let program = compiled(folder.path(), &format!("{file}.{extension}"), &new.text.unwrap(), others, FLAGS);
        for order in 0..if mode == Mode::Check { ORDERS } else { 1 } {
            assert_eq!(printed(&program, order), expected, "{name}, {file}, order {order}");
        }
    }
    opened
}

#[test]
fn programs_with_kernels_compute_the_same() {
    for (name, loops) in [("kernels_advection", 14), ("kernels_array_statements", 30)] {
        let text = std::fs::read_to_string(programs().join(format!("fortran/{name}.f90"))).unwrap();
        let opened = try_all(&format!("{name}.f90"), &text, Form::Free, &[programs().join("support/check.f90")]);
        assert!(opened >= loops, "{name}: {opened} loops are parallel");
    }
}

#[test]
fn fixed_form_with_labels_computes_the_same() {
    let opened = try_all("labels.f", include_str!("labels.f"), Form::Fixed { columns: 72 }, &[]);
    assert!(opened >= 8, "{opened} loops are parallel");
}
