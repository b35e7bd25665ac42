//! Objects that find libgomp before libacc: their calls are redirected to libacc, or the program ends with an error
//! that names the object.

use accord_tests::{Tool, gcc, libacc, repository_file, tool};
use std::path::Path;
use std::process::{Command, Output};

const SHARED: [&str; 2] = ["-shared", "-fPIC"];

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        libacc().unwrap();
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    /// Runs a compiler here. Returns `false` if this machine lacks something for the options.
    fn can_compile(&self, compiler: &[&str], source: &str, after: &[&str]) -> bool {
        let output = Command::new(compiler[0])
            .args(&compiler[1..])
            .args(["-O1", "-g", "-fopenacc", "-foffload=disable"])
            .arg(repository_file(&format!("tests/programs/{source}")))
            .args(after)
            .current_dir(self.path())
            .output()
            .unwrap();
        if !output.status.success() {
            println!("skipped: {compiler:?} {after:?}: {}", String::from_utf8_lossy(&output.stderr));
        }
        output.status.success()
    }

    fn compile(&self, compiler: &[&str], source: &str, after: &[&str]) {
        assert!(self.can_compile(compiler, source, after));
    }

    fn run(&self, line: &[&str]) -> Output {
        Command::new(line[0])
            .args(&line[1..])
            .current_dir(self.path())
            .envs([("ACCORD_CPU_DEVICES", "2"), ("ACCORD_CPU_MEMORY", "64M"), ("LD_LIBRARY_PATH", ".")])
            .env("ACCORD_TEST_SEPARATE", "1")
            .env_remove("LD_PRELOAD")
            .output()
            .unwrap()
    }
}

#[track_caller]
fn good(output: &Output) -> String {
    let printed = printed(output);
    assert!(output.status.success(), "{}\n{printed}", output.status);
    printed
}

fn printed(output: &Output) -> String {
    [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes)).concat()
}

/// Returns `accord` as a word of a command.
fn accord() -> String {
    tool(Tool::Accord).unwrap().display().to_string()
}

#[test]
fn a_library_by_accord_cc_leads_a_program_by_gcc_to_its_devices() {
    let folder = Folder::new();
    folder.compile(&[&accord(), "cc"], "support/deepbind.c", &[&SHARED[..], &["-o", "libown.so"]].concat());
    for (name, options) in [
        ("lazy", &["-Wl,-z,lazy"][..]),
        ("now", &["-Wl,-z,now"]),
        ("without_plt", &["-fno-plt"]),
        ("fixed", &["-no-pie", "-fno-pie"]),
    ] {
        let linked = [options, &["-L.", "-lown", "-o", name]].concat();
        folder.compile(&[&gcc("gcc")], "cluster/calls_library.c", &linked);
        let printed = good(&folder.run(&[&format!("./{name}")]));
        assert!(printed.contains("PASS"), "{name}: {printed}");
    }
}

#[test]
fn a_library_of_another_namespace_uses_devices() {
    let folder = Folder::new();
    folder.compile(&[&gcc("gcc")], "support/deepbind.c", &[&SHARED[..], &["-o", "plugin.so"]].concat());
    folder.compile(&[&gcc("gcc")], "cluster/opens_namespace.c", &["-o", "program", "-ldl"]);
    // The program itself, or a library of it, is linked with libacc.
    folder.compile(&[&accord(), "cc"], "cluster/opens_namespace.c", &["-o", "linked", "-ldl"]);
    folder.compile(&[&accord(), "cc"], "support/deepbind.c", &[&SHARED[..], &["-o", "libown.so"]].concat());
    let by_library = ["-Wl,--no-as-needed", "-L.", "-lown", "-o", "by_library", "-ldl"];
    folder.compile(&[&gcc("gcc")], "cluster/opens_namespace.c", &by_library);
    for name in ["linked", "by_library"] {
        let printed = good(&folder.run(&[&format!("./{name}"), "./plugin.so"]));
        assert!(printed.contains("PASS"), "{name}: {printed}");
    }
    let remote = ["--local-cluster", "1x1", "--loopback", "--remote-only"];
    for options in [&[][..], &remote] {
        let accord = accord();
        let line = [&[&*accord, "run"][..], options, &["--", "./program", "./plugin.so"]].concat();
        let printed = good(&folder.run(&line));
        assert!(printed.contains("PASS"), "{options:?}: {printed}");
    }
}

#[test]
fn a_libgomp_inside_of_a_program_below_a_shell_ends_it_with_an_error() {
    let folder = Folder::new();
    for (name, options) in [("static", &["-static"][..]), ("inside", &["-l:libgomp.a", "-ldl"])] {
        if !folder.can_compile(&[&gcc("gcc")], "cluster/one_region.c", &[options, &["-o", name]].concat()) {
            continue;
        }
        let output = folder.run(&[&accord(), "run", "--", "sh", "-c", &format!("./{name}")]);
        let printed = printed(&output);
        assert_eq!(output.status.code(), Some(1), "{name}: {printed}");
        assert!(
            printed.contains(&format!("/{name} calls OpenACC in a libgomp that is inside of it")),
            "{name}: {printed}"
        );
        assert!(!printed.contains("45"), "{name}: {printed}");
    }
}

#[test]
fn programs_with_openmp_only_run_as_they_are() {
    let folder = Folder::new();
    for (name, options) in [
        ("shared", &["-fno-openacc"][..]),
        ("static", &["-fno-openacc", "-static"]),
        ("inside", &["-fno-openacc", "-l:libgomp.a", "-ldl"]),
    ] {
        let options = [options, &["-fopenmp", "-o", name]].concat();
        if !folder.can_compile(&[&gcc("gcc")], "cluster/threads_only.c", &options) {
            continue;
        }
        for line in [&["sh", "-c", &format!("./{name}")][..], &[&format!("./{name}")]] {
            let accord = accord();
            let output = folder.run(&[&[&*accord, "run", "--"], line].concat());
            let printed = good(&output);
            assert!(printed.starts_with("45 45\n"), "{name}: {printed}");
        }
    }
}

#[test]
fn a_program_that_gives_up_the_preload_keeps_its_libgomp() {
    let folder = Folder::new();
    folder.compile(&[&gcc("gcc")], "cluster/one_region.c", &["-o", "program"]);
    let line = "env -u LD_PRELOAD ACC_DEVICE_TYPE=host GOMP_DEBUG=1 ./program";
    let printed = good(&folder.run(&[&accord(), "run", "--", "sh", "-c", line]));
    // The path of the library may contain that word.
    assert!(printed.contains("45\n") && !printed.contains("accord:"), "{printed}");
}
