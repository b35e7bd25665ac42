//! `kernels` constructs, as `accord cc`, `accord c++` and `accord fc` rewrite them (`--kernels`).

use accord_tests::{Tool, gcc, libacc, root, tool};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn source(name: &str) -> PathBuf {
    root().join("tests/programs/wrappers").join(name)
}

/// Runs `accord WORDS... SOURCE -o program` in `folder`.
fn build(folder: &Path, words: &str, source: &Path) -> Output {
    libacc().unwrap();
    let mut command = Command::new(tool(Tool::Accord).unwrap());
    command.args(words.split(' ')).arg(source).args(["-o", "program"]).current_dir(folder);
    command.env("ACCORD_CACHE", folder.join("cache")).env_remove("ACCORD_LIBACC");
    command.env("ACCORD_CC", gcc("gcc")).env("ACCORD_CXX", gcc("g++")).env("ACCORD_FC", gcc("gfortran"));
    command.output().unwrap()
}

#[track_caller]
fn good(output: &Output) -> String {
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{}\n{out}{err}", output.status);
    out.into_owned() + &err
}

/// Runs the built program, on CPU devices or with the host as device.
#[track_caller]
fn passes(folder: &Path, host: bool) {
    let mut command = Command::new(folder.join("program"));
    command.env("ACCORD_CPU_DEVICES", "2").env("ACCORD_CPU_MEMORY", "64M").env_remove("LD_PRELOAD");
    if host {
        command.env("ACC_DEVICE_TYPE", "host");
    }
    let printed = good(&command.output().unwrap());
    assert!(printed.contains("PASS"), "{printed}");
}

/// Runs the built program on devices of other nodes.
#[track_caller]
fn passes_remotely(folder: &Path) {
    let mut command = Command::new(tool(Tool::Accord).unwrap());
    command.args(["run", "--local-cluster", "2x1", "--loopback", "--remote-only", "--"]);
    command.arg(folder.join("program")).env("ACCORD_CPU_MEMORY", "64M");
    assert!(good(&command.output().unwrap()).contains("PASS"));
}

#[test]
fn opened_regions_compute_what_the_source_says() {
    let folder = tempfile::tempdir().unwrap();
    for options in ["cc -Wall -Wextra -Werror -O2 -g", "cc -O0 -std=c99"] {
        good(&build(folder.path(), options, &source("kernels.c")));
        passes(folder.path(), false);
    }
    let support = root().join("tests/programs/support");
    for name in ["last_values", "private"] {
        for mode in ["parallel", "check"] {
            let options = format!("cc -O2 --kernels={mode} -I {}", support.display());
            good(&build(folder.path(), &options, &root().join(format!("tests/programs/c/kernels_{name}.c"))));
            passes(folder.path(), mode == "check");
            if mode == "parallel" {
                passes_remotely(folder.path());
            }
        }
    }
}

#[test]
fn other_modes_leave_the_text_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let text = |options: &str| good(&build(folder.path(), options, &source("kernels.c")));
    assert!(text("cc --accord-show --kernels=decompose").contains("--param openacc-kernels=decompose"));
    // Debug information does not make GCC refuse it.
    text("cc -O2 -g --kernels=decompose");
    assert!(!text("cc --accord-show --kernels=gcc").contains("kernels="));
    let printed = text("cc -O1 --kernels=gcc -Minfo");
    assert!(!printed.contains("parallel"), "{printed}");
    let refused = build(folder.path(), "cc --kernels=fast", &source("kernels.c"));
    assert!(!refused.status.success() && String::from_utf8_lossy(&refused.stderr).contains("--kernels=fast"));
}

#[test]
fn decisions_hold_in_another_order_of_iterations() {
    let folder = tempfile::tempdir().unwrap();
    good(&build(folder.path(), "cc -O1 --kernels=check", &source("kernels.c")));
    for seed in ["1", "2", "3"] {
        let mut command = Command::new(folder.path().join("program"));
        command.env("KERNELS_CHECK_SEED", seed).env("ACC_DEVICE_TYPE", "host");
        assert!(good(&command.output().unwrap()).contains("PASS"));
    }
}

/// Line and reason of each loop, in the source and in its includes.
#[test]
fn decisions_are_said_with_file_and_line() {
    let folder = tempfile::tempdir().unwrap();
    let printed = good(&build(folder.path(), "cc -O1 -Minfo", &source("kernels.c")));
    for (file, line, text) in [
        ("kernels.h", 5, "loop is parallelizable"),
        ("kernels.c", 20, "loop is parallelizable (independent)"),
        ("kernels.c", 28, "reduction of s recognised"),
        ("kernels.c", 40, "loop carried dependence of grid prevents parallelization"),
        ("kernels.c", 41, "loop is parallelizable"),
        ("kernels.c", 68, "loop carried dependence of a prevents parallelization"),
    ] {
        assert!(
            printed.lines().any(|one| one
                .split("; write: ")
                .next()
                .unwrap()
                .ends_with(&format!("{file}:{line}: {text}"))),
            "{file}:{line}: {text}\n{printed}"
        );
    }
    let written = "loop carried dependence of a prevents parallelization; write: loop independent, if the iterations";
    assert!(printed.contains(&format!("kernels.c:68: {written}")), "{printed}");
    // Remaining loops are reported without the option, too.
    let printed = good(&build(folder.path(), "cc -O1", &source("kernels.c")));
    assert!(printed.contains("kernels.c:68: note: loop carried dependence of a"), "{printed}");
    assert!(!printed.contains("parallelizable"), "{printed}");
    let printed = good(&build(folder.path(), "cc -O1 --no-implicit-reductions -Minfo", &source("kernels.c")));
    assert!(printed.contains("kernels.c:28: loop carried dependence of s prevents parallelization"), "{printed}");
}

#[test]
fn opened_cxx_computes_what_the_source_says() {
    let folder = tempfile::tempdir().unwrap();
    for options in ["c++ -O2 -g", "c++ -O0 -std=c++17"] {
        good(&build(folder.path(), options, &source("kernels.cpp")));
        passes(folder.path(), false);
    }
    passes_remotely(folder.path());
    good(&build(folder.path(), "c++ -O1 --kernels=check", &source("kernels.cpp")));
    for seed in ["1", "2", "3"] {
        let mut command = Command::new(folder.path().join("program"));
        command.env("KERNELS_CHECK_SEED", seed).env("ACC_DEVICE_TYPE", "host");
        assert!(good(&command.output().unwrap()).contains("PASS"), "seed {seed}");
    }
}

/// Every promised loop is rewritten; for all others the reason is printed.
#[test]
fn decisions_of_cxx_are_said_with_file_and_line() {
    let folder = tempfile::tempdir().unwrap();
    let printed = good(&build(folder.path(), "c++ -O1 -Minfo", &source("kernels.cpp")));
    let independent = "loop is parallelizable (independent)";
    for (line, text) in [
        (23, independent),
        (28, independent),
        (42, independent),
        (44, "loop is parallelizable"),
        (63, independent),
        (73, independent),
        (78, independent),
        (78, "reduction of largest recognised"),
        (87, "each iteration stores to last, a reference, a structure or an unknown variable"),
        (132, independent),
        (138, independent),
        (144, "a loop without independent in C++ stays as it is"),
        (148, "a loop over a range, which counts no iterations"),
    ] {
        let wanted = format!("kernels.cpp:{line}: {text}");
        assert!(
            printed.lines().any(|one| one.split("; write: ").next().unwrap().ends_with(&wanted)),
            "{wanted}\n{printed}"
        );
    }
}

/// Names and dependencies are the source's, not those of the rewritten text.
#[test]
fn messages_and_dependencies_name_the_source() {
    let folder = tempfile::tempdir().unwrap();
    let text = "#include \"two.h\"\nvoid f(double *restrict a, int n)\n{\n#pragma acc kernels copy(a[0:n])\n    for (int i = 0; i < n; i++)\n        \
                a[i] = TWO * a[i];\n    int unused;\n}\n";
    std::fs::write(folder.path().join("one.c"), text).unwrap();
    std::fs::write(folder.path().join("two.h"), "#define TWO 2\n").unwrap();
    let printed = good(&build(folder.path(), "cc -Wall -c -MMD", Path::new("one.c")));
    assert!(printed.contains("one.c:7:9: warning: unused variable"), "{printed}");
    let dependencies = std::fs::read_to_string(folder.path().join("program.d")).unwrap();
    assert_eq!(dependencies.split_whitespace().collect::<Vec<_>>(), ["program:", "one.c", "two.h"]);
}

/// Runs `accord fc WORDS... check.f90 NAMES...`.
fn build_fortran(folder: &Path, words: &str, names: &[&str]) -> Output {
    let programs = root().join("tests/programs");
    let mut all: Vec<String> = vec![programs.join("support/check.f90").display().to_string()];
    all.extend(names.iter().map(|name| programs.join(name).display().to_string()));
    let last = PathBuf::from(all.pop().unwrap());
    build(folder, &format!("fc {words} {}", all.join(" ")), &last)
}

#[test]
fn opened_fortran_computes_what_the_source_says() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["advection", "array_statements", "last_values", "private"] {
        let name = &*format!("fortran/kernels_{name}.f90");
        good(&build_fortran(folder.path(), "-O1 -g", &[name]));
        passes(folder.path(), false);
        passes_remotely(folder.path());
        good(&build_fortran(folder.path(), "-O1 --kernels=check", &[name]));
        for seed in ["1", "2"] {
            let mut command = Command::new(folder.path().join("program"));
            command.env("KERNELS_CHECK_SEED", seed).env("ACC_DEVICE_TYPE", "host");
            assert!(good(&command.output().unwrap()).contains("PASS"), "{name}, seed {seed}");
        }
    }
}

/// Names that are defined in another source, in an included file, and in a compiled module.
#[test]
fn fortran_modules_and_included_files_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let names = ["wrappers/kernels_data.f90", "wrappers/kernels_modules.f90"];
    let assert_prints = |printed: &str, first: &str| {
        let carried = "loop carried dependence of a prevents parallelization";
        for (line, text) in [(10, first), (13, "loop is parallelizable"), (16, carried)] {
            let wanted = format!("kernels_modules.f90:{line}: {text}");
            let is_wanted = |one: &str| one.split("; write: ").next().unwrap().ends_with(&wanted);
            assert!(printed.lines().any(is_wanted), "{wanted}\n{printed}");
        }
    };
    assert_prints(&good(&build_fortran(folder.path(), "-O1 -Minfo", &names)), "loop is parallelizable");
    passes(folder.path(), false);
    // The module's file exists now, which does not say what its procedures read.
    let alone = build(folder.path(), "fc -O1 -Minfo -c", &root().join("tests/programs").join(names[1]));
    assert_prints(&good(&alone), "a call of times prevents parallelization");
}

/// The compiler sees each rewritten line with the source's line number, in either form and after the preprocessor.
#[test]
fn fortran_messages_name_the_source() {
    let folder = tempfile::tempdir().unwrap();
    let text = "      subroutine s(a, n)\n      real a(n)\nc$acc kernels\n      do 10 i = 1, n\n   10 a(i) = TWO\nc$acc end kernels\n      k = 1.5\n      end\n";
    std::fs::write(folder.path().join("one.F"), text).unwrap();
    let printed = good(&build(folder.path(), "fc -c -DTWO=2 -Wconversion -Minfo", Path::new("one.F")));
    assert!(printed.contains("one.F:4: loop is parallelizable"), "{printed}");
    assert!(printed.contains("one.F:7:") && printed.contains("Warning: Change of value in conversion"), "{printed}");
}
