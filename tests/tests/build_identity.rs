//! A worker runs the code that the program has loaded, or none: never that of another file with the same name.

use accord_tests::{Cluster, Finished, gcc, repository_file};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Options that make linkers omit build ids.
const NO_BUILD_ID: &[&str] = &["-Wl,--build-id=none"];

/// The values that are compiled into the program's own file, and into the other one.
const OWN: u32 = 33;
const OTHER: u32 = 11;

struct Builds {
    folder: tempfile::TempDir,
}

impl Builds {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    fn compile(&self, name: &str, answer: u32, flags: &[&str]) -> PathBuf {
        let made = self.folder.path().join(name);
        let output = Command::new(gcc("gcc"))
            .args(["-O1", "-g", "-fopenacc", "-foffload=disable", &format!("-DANSWER={answer}")])
            .args(flags)
            .arg(repository_file("tests/programs/cluster/which_build.c"))
            .arg("-o")
            .arg(&made)
            .arg("-ldl")
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        made
    }

    fn plugin(&self, name: &str, answer: u32, flags: &[&str]) -> PathBuf {
        self.compile(name, answer, &[&["-shared", "-fPIC", "-DPLUGIN"], flags].concat())
    }
}

/// Runs a program on a device of another node. Its files exist while it loads them; `put_aside` is called before its
/// first region.
fn run(program: &Path, plugin: Option<&Path>, put_aside: impl FnOnce()) -> Finished {
    let cluster = Cluster::builder().hosts(2).devices(1).memory("64M").start().unwrap();
    let (input, mut output) = std::io::pipe().unwrap();
    let running = cluster.job(0, program).unwrap().args(plugin).stdin(input).start().unwrap();
    running.await_output("ready").unwrap();
    put_aside();
    output.write_all(b"\n").unwrap();
    running.finish().unwrap()
}

#[test]
fn a_library_of_another_version_is_named_with_the_one_to_reinstall() {
    let folder = tempfile::tempdir().unwrap();
    let builds = Builds::new();
    let program = builds.compile("program", OWN, &[]);
    for (version, older) in [
        ("\"0.0.9\\0\", 3", "libacc.so"),
        ("\"99.0.0\", 1000", "accord-node-agent"),
        // Older libraries name no version.
        ("", "libacc.so"),
    ] {
        let source = folder.path().join("library.c");
        let mark = format!(
            "__attribute__((used, section(\".accord.version\"))) static const struct {{ char version[28]; int layout; }} mark = {{{version}}};"
        );
        fs::write(&source, if version.is_empty() { "int nothing;" } else { &mark }).unwrap();
        let library = folder.path().join("libacc.so");
        let made =
            Command::new(gcc("gcc")).args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source).status().unwrap();
        assert!(made.success());
        let cluster = Cluster::builder().hosts(2).devices(1).memory("64M").agents_libacc(&library).start().unwrap();
        let finished = cluster.job(0, &program).unwrap().run().unwrap();
        let printed = &finished.stderr;
        assert_eq!(finished.code(), 1, "{}", finished.report());
        let number = version.split('"').nth(1).map(|number| number.trim_end_matches("\\0"));
        let theirs =
            number.map_or_else(|| "a version that it does not name".into(), |number| format!("version {number}"));
        let named = format!("{} is of {theirs}", library.display());
        assert!(printed.contains(&named), "{printed}");
        let own = format!("the node agent that loads it into workers is of version {}", env!("CARGO_PKG_VERSION"));
        assert!(printed.contains(&own) && printed.contains(&format!("reinstall {older} on this node")), "{printed}");
    }
}

fn refused(finished: &Finished, file: &Path) {
    let printed = &finished.stderr;
    assert!(!finished.stdout.contains("answer"), "runs other code: {}", finished.report());
    assert_eq!(finished.code(), 1, "{}", finished.report());
    let file = file.display().to_string();
    for word in [&*file, "h1", "another file than the program's", "copy the program's file"] {
        assert!(printed.contains(word), "no {word:?}: {}", finished.report());
    }
}

/// Replaces this machine's file, as if the other node had another one, because all nodes here share one file system.
fn exchanged(own: &[&str], other: &[&str]) {
    let builds = Builds::new();
    let program = builds.compile("app", OWN, own);
    let replacement = builds.compile("other", OTHER, other);
    refused(&run(&program, None, || fs::rename(replacement, &program).unwrap()), &program);

    let program = builds.compile("app", OWN, &[]);
    let plugin = builds.plugin("plugin.so", OWN, own);
    let replacement = builds.plugin("other.so", OTHER, other);
    let finished = run(&program, Some(&plugin), || fs::rename(replacement, &plugin).unwrap());
    refused(&finished, &plugin);
}

#[test]
fn two_files_without_build_id() {
    exchanged(NO_BUILD_ID, NO_BUILD_ID);
}

#[test]
fn a_file_without_build_id_for_one_that_has_one() {
    exchanged(&[], NO_BUILD_ID);
}

#[test]
fn a_file_with_build_id_for_one_that_has_none() {
    exchanged(NO_BUILD_ID, &[]);
}

#[test]
fn two_files_with_build_ids() {
    exchanged(&[], &[]);
}

#[test]
fn the_same_file_needs_no_build_id() {
    let builds = Builds::new();
    let program = builds.compile("app", OWN, NO_BUILD_ID);
    let plugin = builds.plugin("plugin.so", OWN, NO_BUILD_ID);
    for plugin in [None, Some(&*plugin)] {
        // An identical copy is as good as the file itself.
        let again = builds.folder.path().join("copy");
        let finished = run(&program, plugin, || {
            fs::copy(&program, &again).unwrap();
            fs::rename(&again, &program).unwrap();
        });
        assert!(finished.stdout.contains("answer 33"), "{}", finished.report());
        finished.success().unwrap();
    }
}
