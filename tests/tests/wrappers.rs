//! `accord cc`, `accord c++`, `accord fc` and `accord lint`: built programs run by themselves, and directives that GCC
//! lacks have their effect.

use accord_tests::{Tool, gcc, libacc, root, tool};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const COMPILERS: [(&str, &str, &str); 3] =
    [("cc", "ACCORD_CC", "gcc"), ("c++", "ACCORD_CXX", "g++"), ("fc", "ACCORD_FC", "gfortran")];

fn programs() -> PathBuf {
    root().join("tests/programs/wrappers")
}

/// Runs `accord WORDS...` in `folder`, with the compilers under test and a cache of its own.
fn accord(folder: &Path, words: &[&str]) -> Output {
    libacc().unwrap();
    let mut command = Command::new(tool(Tool::Accord).unwrap());
    command.args(words).current_dir(folder).env("ACCORD_CACHE", folder.join("cache")).env_remove("ACCORD_LIBACC");
    for (_, name, compiler) in COMPILERS {
        command.env(name, gcc(compiler));
    }
    command.output().unwrap()
}

#[track_caller]
fn good(output: Output) -> String {
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{}\n{out}{err}", output.status);
    out.into_owned() + &err
}

/// Returns the output of a program that was built in `folder`, on two CPU devices and without settings.
#[track_caller]
fn run(folder: &Path, program: &str) -> String {
    let mut command = Command::new(folder.join(program));
    command.env("ACCORD_CPU_DEVICES", "2").env("ACCORD_CPU_MEMORY", "64M").env_remove("LD_PRELOAD");
    good(command.output().unwrap())
}

#[track_caller]
fn passes(folder: &Path, program: &str) {
    let printed = run(folder, program);
    assert!(printed.contains("PASS"), "{printed}");
}

#[test]
fn directives_have_their_effect_in_every_language() {
    for (compiler, options, source) in [
        ("cc", "-Wall -Wextra -Werror -pedantic -O2 -g", "directives.c"),
        ("cc", "-std=c99 -O0", "directives.c"),
        ("c++", "-Wall -Wextra -Werror -pedantic -O1 -x c++", "directives.c"),
        ("fc", "-Wall -O2 -ffree-line-length-none", "directives.f90"),
        ("fc", "-cpp -O0 -ffree-line-length-none", "directives.f90"),
        ("fc", "-O1", "directives.f"),
    ] {
        builds_and_passes(compiler, options, &[source]);
    }
}

/// Directives that GCC knows, but omits silently or refuses.
#[test]
fn directives_that_gcc_drops_or_refuses_take_effect() {
    for (compiler, options, sources) in [
        ("cc", "-Wall -Wextra -Werror -pedantic -O1 -g", &["declared_updates.c"][..]),
        ("c++", "-Wall -Wextra -Werror -O0 -x c++", &["declared_updates.c"]),
        ("c++", "-Wall -Wextra -Werror -pedantic -Wold-style-cast -O1", &["scopes.cpp"]),
        ("cc", "-Wall -Wextra -Werror -pedantic -std=c99 -O2", &["sections.c"]),
        ("c++", "-Wall -Wextra -Werror -pedantic -O0 -x c++", &["sections.c"]),
        ("fc", "-O0 -w", &["sections.f90"]),
        ("fc", "-O1 -w", &["declared_updates.f"]),
        ("fc", "-Wall -O1", &["allocations.f90"]),
        ("fc", "-O1 -w", &["state.f90", "declared_updates.f90"]),
    ] {
        builds_and_passes(compiler, options, sources);
    }
}

/// A module's own file lists its declarations, if another command compiles its source.
#[test]
fn variables_of_modules_are_known_by_their_files() {
    let folder = tempfile::tempdir().unwrap();
    let source = |name: &str| programs().join(name).to_str().unwrap().to_owned();
    std::fs::create_dir(folder.path().join("modules")).unwrap();
    good(accord(folder.path(), &["fc", "-w", "-c", "-J", "modules", &source("state.f90")]));
    let words = ["fc", "-w", "-cpp", "-Imodules", "state.o", &source("declared_updates.f90"), "-o", "program"];
    good(accord(folder.path(), &words));
    passes(folder.path(), "program");
}

#[track_caller]
fn builds_and_passes(compiler: &str, options: &str, sources: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let sources: Vec<String> =
        sources.iter().map(|source| programs().join(source).to_str().unwrap().to_owned()).collect();
    let mut words = vec![compiler];
    words.extend(options.split(' '));
    words.extend(sources.iter().map(String::as_str));
    words.extend(["-o", "program"]);
    let printed = good(accord(folder.path(), &words));
    // The linker prints warnings about GCC's tables for GPUs.
    let warned = printed.lines().any(|line| line.to_lowercase().contains("warning") && !line.contains("/ld: "));
    assert!(!warned, "{words:?}: {printed}");
    passes(folder.path(), "program");
}

#[test]
fn objects_libraries_and_several_files_are_built() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    std::fs::create_dir(at("src")).unwrap();
    std::fs::write(
        at("src/sum.c"),
        "int sum(int n)\n{\n    int s = 0;\n#pragma acc parallel loop reduction(+:s)\n    for (int i = 0; i < n; i++)\n        s += i;\n    return s;\n}\n",
    )
    .unwrap();
    std::fs::write(
        at("src/main.c"),
        "#include <stdio.h>\n#include <openacc.h>\nint sum(int);\nint main(void)\n{\n#pragma acc set device_num(1)\n    \
         puts(sum(10) == 45 && acc_get_device_num(acc_device_current) == 1 ? \"PASS\" : \"FAIL\");\n}\n",
    )
    .unwrap();
    good(accord(folder.path(), &["cc", "-c", "src/sum.c", "src/main.c", "-MMD"]));
    let dependencies = std::fs::read_to_string(at("main.d")).unwrap();
    assert!(dependencies.contains("src/main.c") && !dependencies.contains("accord-cc"), "{dependencies}");
    good(accord(folder.path(), &["cc", "sum.o", "main.o", "-o", "objects"]));
    passes(folder.path(), "objects");
    good(accord(folder.path(), &["cc", "src/sum.c", "src/main.c", "-o", "files", "-foffload=disable"]));
    passes(folder.path(), "files");
    good(accord(folder.path(), &["cc", "-shared", "-fPIC", "src/sum.c", "-o", "libsum.so"]));
    good(accord(
        folder.path(),
        &["c++", "-x", "c", "src/main.c", "-x", "none", "-L.", "-lsum", "-Wl,-rpath,.", "-o", "shared"],
    ));
    let output = Command::new(at("shared")).current_dir(folder.path()).env("ACCORD_CPU_DEVICES", "2").output().unwrap();
    assert!(good(output).contains("PASS"));
}

/// libacc must be linked before libgomp, or the program would get libgomp's routines.
#[test]
fn libacc_comes_first_and_is_found_without_help() {
    let folder = tempfile::tempdir().unwrap();
    let source = programs().join("directives.c");
    good(accord(folder.path(), &["cc", source.to_str().unwrap(), "-Wl,--no-as-needed", "-lgomp", "-o", "program"]));
    let dynamic = Command::new("readelf").arg("-d").arg(folder.path().join("program")).output().unwrap();
    let dynamic = String::from_utf8_lossy(&dynamic.stdout).into_owned();
    let (ours, theirs) = (dynamic.find("[libacc.so]").unwrap(), dynamic.find("[libgomp.so.1]").unwrap());
    assert!(ours < theirs, "{dynamic}");
    passes(folder.path(), "program");
}

/// The module is compiled once per compiler.
#[test]
fn the_fortran_module_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let first = good(accord(folder.path(), &["fc", "--accord-modules"]));
    let module = PathBuf::from(first.trim()).join("openacc.mod");
    let made = std::fs::metadata(&module).unwrap().modified().unwrap();
    assert!(module.starts_with(folder.path().join("cache")), "{first}");
    assert_eq!(good(accord(folder.path(), &["fc", "--accord-modules"])), first);
    assert_eq!(std::fs::metadata(&module).unwrap().modified().unwrap(), made);
}

#[test]
fn the_compilers_arguments_and_exit_code_are_passed_on() {
    let folder = tempfile::tempdir().unwrap();
    assert!(good(accord(folder.path(), &["cc", "--version"])).contains("Free Software Foundation"));
    let displayed = good(accord(folder.path(), &["cc", "--accord-show", "-O2", "a b.c", "-o", "x"]));
    assert!(
        displayed.contains("-fopenacc")
            && displayed.contains("-lacc")
            && displayed.trim_end().ends_with("-O2 'a b.c' -o x"),
        "{displayed}"
    );
    let compiled = good(accord(folder.path(), &["cc", "--accord-show", "-c", "a.c"]));
    assert!(!compiled.contains("-lacc"), "{compiled}");
    std::fs::write(folder.path().join("bad.c"), "int main(void) {\n#pragma acc set device_num(1)\n    return x;\n}\n")
        .unwrap();
    let output = accord(folder.path(), &["cc", "bad.c"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("bad.c:3:"), "{output:?}");
    let output = accord(folder.path(), &["cc", "-static", "bad.c"]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("shared library"), "{output:?}");
}

/// A debugger sees the source's names and lines, too.
#[test]
fn debug_information_names_the_source() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("d.c"), "void f(void)\n{\n#pragma acc init\n}\n").unwrap();
    good(accord(folder.path(), &["cc", "-g", "-c", "d.c"]));
    let names =
        Command::new("readelf").args(["--debug-dump=info,line"]).arg(folder.path().join("d.o")).output().unwrap();
    let names = String::from_utf8_lossy(&names.stdout).into_owned();
    assert!(names.contains("d.c") && !names.contains("/accord-cc-"), "{names}");
}

/// The compiler's messages after replaced directives have the source's lines.
#[test]
fn lines_stay_those_of_the_source() {
    let folder = tempfile::tempdir().unwrap();
    let c = "int k, a[9];\n#pragma acc declare create(k, a)\nvoid f(void)\n{\n#pragma acc update \\\n  device(k, a)\n    wrong(1);\n\
             #pragma acc enter data copyin(a[0:1], a[5:1])\n    wrong_too = 1;\n}\n";
    let fortran = "module m\ninteger :: k, v(3)\nreal, allocatable :: x(:)\n!$acc declare create(k, v, x)\ncontains\n\
                   subroutine s\nimplicit none\n!$acc update device(k, &\n!$acc v)\nwrong = 1\nif (k == 1) allocate (x(3))\n\
                   wrong_too = 1\nend subroutine\nend module\n";
    for (compiler, name, text, lines) in [
        ("cc", "l.c", c, ["l.c:7:", "l.c:9:"]),
        ("c++", "l.cpp", c, ["l.cpp:7:", "l.cpp:9:"]),
        ("fc", "l.f90", fortran, ["l.f90:10:", "l.f90:12:"]),
        ("fc", "l.F90", fortran, ["l.F90:10:", "l.F90:12:"]),
    ] {
        std::fs::write(folder.path().join(name), text).unwrap();
        let printed = accord(folder.path(), &[compiler, "-Werror=implicit-function-declaration", "-c", name]);
        let printed = String::from_utf8_lossy(&printed.stderr).into_owned();
        assert!(lines.iter().all(|line| printed.contains(line)) && !printed.contains("accord-cc-"), "{printed}");
    }
}

#[test]
fn lint_says_where_and_what_to_write() {
    let folder = tempfile::tempdir().unwrap();
    let source = "int gd[4];\n#pragma acc declare create(gd)\nvoid f(int n, double r[9][9])\n{\n#pragma acc set device_num(n)\n\
                  #pragma acc update device(gd)\n#pragma acc enter data copyin(r[1:n][1:n])\n}\n";
    std::fs::write(folder.path().join("l.c"), source).unwrap();
    let output = accord(folder.path(), &["lint", "--gcc", "12", "l.c"]);
    assert_eq!(output.status.code(), Some(1));
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    let lines: Vec<&str> = printed.lines().collect();
    assert_eq!(lines.len(), 3, "{printed}");
    assert!(
        lines[0].starts_with("l.c:5: ignored: ") && lines[0].contains("acc_set_device_num(n, acc_device_current)"),
        "{printed}"
    );
    assert!(lines[1].starts_with("l.c:6: ignored: ") && lines[1].contains("update device(gd[0:n])"), "{printed}");
    assert!(lines[2].starts_with("l.c:7: wrong: "), "{printed}");
    std::fs::write(folder.path().join("clean.f90"), "!$acc parallel\n!$acc end parallel\nend\n").unwrap();
    assert_eq!(good(accord(folder.path(), &["lint", "clean.f90"])), "");
    let kernels = "#define N 9\nvoid f(int *restrict a, int n)\n{\n#pragma acc kernels\n    for (int i = 0; i < N; i++)\n        a[i] = n;\n\
                   #pragma acc kernels\n    for (int i = 1; i < n; i++)\n        a[i] = a[i - 1];\n}\n";
    std::fs::write(folder.path().join("k.c"), kernels).unwrap();
    let printed = accord(folder.path(), &["lint", "k.c"]);
    let printed = String::from_utf8_lossy(&printed.stdout).into_owned();
    assert!(
        printed.starts_with("k.c:8: ignored: loop carried dependence of a prevents parallelization; "),
        "{printed}"
    );
    assert!(
        printed.ends_with("write: loop independent, if the iterations don't need each other's values\n"),
        "{printed}"
    );
    // The wrapper reports what it doesn't rewrite.
    let output = accord(folder.path(), &["cc", "-c", "l.c"]);
    let printed = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        printed.contains("l.c:7: warning: ") && !printed.contains("l.c:5") && !printed.contains("l.c:6"),
        "{printed}"
    );
}

/// Included files are not rewritten: directives in them are reported with the files' own names and lines.
#[test]
fn directives_of_included_files_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    std::fs::create_dir(folder.path().join("inc")).unwrap();
    write(
        "begin.h",
        "#include \"more.h\"\nint acc_on_device();\nstatic int on(void) { return acc_on_device(2); }\nstatic void begin(void)\n{\n#pragma acc init\n}\n",
    );
    write("inc/more.h", "#pragma acc paralel\n");
    write("i.c", "#include \"begin.h\"\nint main(void)\n{\n    begin();\n#pragma acc shutdown\n    return 0;\n}\n");
    let output = accord(folder.path(), &["cc", "-Iinc", "-c", "i.c"]);
    let printed = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{printed}");
    assert!(
        !printed.contains("acc_on_device")
            && printed.contains("begin.h:6: warning: ")
            && printed.contains("in an included file it stays as it is"),
        "{printed}"
    );
    assert!(printed.contains("inc/more.h:1: warning: ") && !printed.contains("i.c:5"), "{printed}");
    write("begin.inc", "p => cells%value\n!$acc update self(p)\n");
    write(
        "i.f90",
        "type cell\n  integer :: value\n  real :: more\nend type\ntype(cell), allocatable, target :: cells(:)\n\
         integer, pointer :: p(:)\nallocate(cells(3))\ninclude 'begin.inc'\np => cells%value\n!$acc data copy(p)\n!$acc end data\nend\n",
    );
    let output = accord(folder.path(), &["lint", "i.f90"]);
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        printed.contains("i.f90:9: wrong: p points to a component") && printed.contains("write: p => cells(:)%value"),
        "{printed}"
    );
}
