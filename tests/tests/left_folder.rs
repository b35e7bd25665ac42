//! Libraries that were found by relative paths, or have moved since: the right region runs or there is an error, never
//! another library's region.

use accord_tests::{Tool, gcc, libacc, repository_file, tool};
use std::fs;
use std::path::Path;
use std::process::Command;

const REMOTE: &[&str] = &["--local-cluster", "1x1", "--loopback", "--remote-only"];
const NO_BUILD_ID: &str = "-Wl,--build-id=none";

/// The library's value, and that of another one with its name.
const OWN: u32 = 33;
const OTHER: u32 = 11;

fn compile(folder: &Path, options: &[&str]) {
    let output = Command::new(gcc("gcc"))
        .args(["-O1", "-g", "-fopenacc", "-foffload=disable"])
        .arg(repository_file("tests/programs/cluster/left_folder.c"))
        .args(options)
        .current_dir(folder)
        .output()
        .unwrap();
    assert!(output.status.success(), "{options:?}: {}", String::from_utf8_lossy(&output.stderr));
}

fn library(folder: &Path, answer: u32, build_id: &str) {
    compile(folder, &["-shared", "-fPIC", &format!("-DLIBRARY={answer}"), build_id, "-o", "libanswer.so"]);
}

struct Folders {
    first: tempfile::TempDir,
    /// The folder that the program changes to, with another library of the same name.
    second: tempfile::TempDir,
}

impl Folders {
    fn new(build_id: &str) -> Self {
        libacc().unwrap();
        let folders = Self { first: tempfile::tempdir().unwrap(), second: tempfile::tempdir().unwrap() };
        library(folders.first.path(), OWN, build_id);
        library(folders.second.path(), OTHER, build_id);
        compile(folders.first.path(), &["-o", "opens", "-ldl", build_id]);
        // Three ways in which the dynamic linker finds a library relative to the folder.
        compile(folders.first.path(), &["-Wl,--no-as-needed", "./libanswer.so", "-o", "by_name", "-ldl", build_id]);
        compile(
            folders.first.path(),
            &["-Wl,--no-as-needed", "-L.", "-lanswer", "-Wl,-rpath,.", "-o", "by_rpath", "-ldl", build_id],
        );
        compile(
            folders.first.path(),
            &["-Wl,--no-as-needed", "-L.", "-lanswer", "-o", "by_variable", "-ldl", build_id],
        );
        folders
    }

    /// Returns the output of a program that changes to the second folder.
    fn run(&self, options: &[&str], program: &str, words: &[&str]) -> (Option<i32>, String) {
        let mut command = Command::new(tool(Tool::Accord).unwrap());
        command.arg("run").args(options).arg("--").arg(format!("./{program}")).arg(self.second.path()).args(words);
        if program == "by_variable" {
            command.env("LD_LIBRARY_PATH", ".");
        }
        let output = command
            .envs([("ACCORD_CPU_DEVICES", "1"), ("ACCORD_CPU_MEMORY", "64M")])
            .env_remove("LD_PRELOAD")
            .current_dir(self.first.path())
            .output()
            .unwrap();
        let printed = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes)).concat();
        (output.status.code(), printed)
    }
}

#[test]
fn libraries_found_by_relative_paths_are_themselves_elsewhere() {
    for build_id in [NO_BUILD_ID, "-Wl,--build-id"] {
        let folders = Folders::new(build_id);
        for options in [&[][..], REMOTE] {
            for (program, words) in [
                ("opens", &["open", "./libanswer.so"][..]),
                ("by_name", &[]),
                ("by_rpath", &[]),
                ("by_variable", &[]),
                ("by_name", &["before"]),
            ] {
                let (code, printed) = folders.run(options, program, words);
                assert!(
                    code == Some(0) && printed.contains("answer 33"),
                    "{build_id} {options:?} {program} {words:?}: {printed}"
                );
            }
        }
    }
}

#[test]
fn a_library_that_was_removed_is_itself_or_an_error() {
    for build_id in [NO_BUILD_ID, "-Wl,--build-id"] {
        for options in [&[][..], REMOTE] {
            let folders = Folders::new(build_id);
            let (code, printed) = folders.run(options, "opens", &["open", "./libanswer.so", "remove"]);
            let right = code == Some(0) && printed.contains("answer 33");
            let refused = code == Some(1) && printed.contains("libanswer.so") && !printed.contains("answer 1");
            assert!(right || refused, "{build_id} {options:?}: {printed}");
        }
    }
}

#[test]
fn a_library_that_was_replaced_is_itself_or_an_error() {
    for build_id in [NO_BUILD_ID, "-Wl,--build-id"] {
        for options in [&[][..], REMOTE] {
            let folders = Folders::new(build_id);
            // The program removes the loaded library; a link to another one replaces it.
            let place = folders.first.path().join("libanswer.so");
            fs::rename(&place, folders.first.path().join("loaded.so")).unwrap();
            std::os::unix::fs::symlink("loaded.so", &place).unwrap();
            let (code, printed) = folders.run(options, "opens", &["open", "./libanswer.so", "remove"]);
            assert!(code == Some(0) && printed.contains("answer 33"), "{build_id} {options:?}: {printed}");
        }
    }
}
