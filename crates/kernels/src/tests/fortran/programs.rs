//! Programs that check themselves, and some in fixed form.

use super::built::{compiled, printed, rewritten};
use crate::{Form, Mode};
use std::path::{Path, PathBuf};

/// Orders of iterations that are tried.
const ORDERS: u64 = 4;

fn programs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/programs")
}

/// Runs a program as it is, in parallel regions and in other orders; returns how many loops became parallel.
fn try_all(name: &str, text: &str, form: Form, others: &[PathBuf]) -> usize {
    let folder = tempfile::tempdir().unwrap();
    let extension = if form == Form::Free { "f90" } else { "f" };
    let expected = printed(&compiled(folder.path(), &format!("plain.{extension}"), text, others), 0);
    let mut opened = 0;
    for (mode, file) in [(Mode::Parallel, "parallel"), (Mode::Check, "check")] {
        let new = rewritten(text, form, name, mode);
        opened = new.messages.iter().filter(|message| !message.refused).count();
        let program = compiled(folder.path(), &format!("{file}.{extension}"), &new.text.unwrap(), others);
        for order in 0..if mode == Mode::Check { ORDERS } else { 1 } {
            assert_eq!(printed(&program, order), expected, "{name}, {file}, order {order}");
        }
    }
    opened
}

#[test]
fn programs_with_kernels_compute_the_same() {
    for (name, loops) in [("kernels_advection", 14), ("kernels_array_statements", 40), ("kernels_private", 14)] {
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

/// GCC 12 does not read locality clauses: only the rewritten text is compiled.
#[test]
fn locality_of_do_concurrent_is_that_of_the_standard() {
    let text = "program p\n implicit none\n integer :: i, j, k, total\n real(8) :: x, y, a(30), c(4, 5)\n x = 7\n y = 2\n total = 100\n\
                !$acc kernels\n do concurrent (i = 1:30) local(x) local_init(y) shared(a) default(none)\n  x = i*3\n  \
                a(i) = x + y\n  y = y + x\n end do\n \
                do concurrent (i = 1:4, j = 1:5) local(k) reduce(+:total)\n  k = i*j\n  c(i, j) = k\n  total = total + k\n end do\n\
                !$acc end kernels\n print *, nint(x), nint(y), nint(a), nint(c), total\nend program\n";
    let numbers = [7, 2].into_iter().chain((1..=30).map(|i| i * 3 + 2));
    let products = (1..=5).flat_map(|j| (1..=4).map(move |i| i * j));
    let expected: Vec<i32> = numbers.chain(products).chain([250]).collect();
    let folder = tempfile::tempdir().unwrap();
    for (mode, file) in [(Mode::Parallel, "parallel.f90"), (Mode::Check, "check.f90")] {
        let new = rewritten(text, Form::Free, "p.f90", mode);
        assert!(new.messages.iter().all(|message| !message.refused), "{:?}", new.messages);
        let program = compiled(folder.path(), file, &new.text.unwrap(), &[]);
        for order in 0..ORDERS {
            let printed = printed(&program, order);
            let values: Vec<i32> = printed.split_whitespace().map(|word| word.parse().unwrap()).collect();
            assert_eq!(values, expected, "{file}, order {order}");
        }
    }
}
