//! Programs that libacc can't be preloaded into, which `accord run` refuses, and others, for which it prints nothing.

use accord_tests::{Tool, gcc, libacc, repository_file, tool};
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Output};

const OPENACC: &[&str] = &["-fopenacc", "-foffload=disable"];

/// Compiles a program with a region. Returns `false` if this machine lacks something for the options.
fn compile(path: &Path, before: &[&str], after: &[&str]) -> bool {
    let mut command = Command::new(gcc("gcc"));
    command.args(before).arg(repository_file("tests/programs/cluster/one_region.c")).args(after).arg("-o").arg(path);
    let output = command.output().unwrap();
    if !output.status.success() {
        println!("skipped: gcc {before:?} {after:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
    output.status.success()
}

/// Returns what `accord run` prints about a program, which must yield its sum.
fn printed(options: &[&str], program: &[&str]) -> String {
    let output = run(options, program);
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && out.lines().all(|line| line == "45") && !out.is_empty(), "{out}{err}");
    err.into_owned()
}

/// Returns what `accord run` prints about a program that it does not start.
fn refusal(options: &[&str], program: &[&str]) -> String {
    let output = run(options, program);
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.code() == Some(125) && out.is_empty(), "{:?} {out}{err}", output.status);
    err.into_owned()
}

fn run(options: &[&str], program: &[&str]) -> Output {
    libacc().unwrap();
    Command::new(tool(Tool::Accord).unwrap())
        .arg("run")
        .args(options)
        .arg("--")
        .args(program)
        .env("ACCORD_CPU_DEVICES", "1")
        .env("ACCORD_CPU_MEMORY", "64M")
        .env_remove("LD_PRELOAD")
        .output()
        .unwrap()
}

#[test]
fn programs_with_a_libgomp_inside_are_refused_with_the_remedy() {
    let folder = tempfile::tempdir().unwrap();
    for (name, before, after, wanted) in [
        ("static", OPENACC, &["-static"][..], "is statically linked, with its own libgomp"),
        ("static_pie", OPENACC, &["-static-pie"], "is statically linked, with its own libgomp"),
        ("stripped", OPENACC, &["-static", "-s"], "link it without -static"),
        ("inside", OPENACC, &["-l:libgomp.a", "-ldl"], "has libgomp.a inside"),
        ("inside_stripped", OPENACC, &["-l:libgomp.a", "-ldl", "-s"], "has libgomp.a inside"),
    ] {
        let program = folder.path().join(name);
        if !compile(&program, before, after) {
            continue;
        }
        let program = program.to_str().unwrap();
        for options in [&[][..], &["--local-cluster", "1x1", "--loopback"]] {
            let printed = refusal(options, &[program]);
            assert_eq!(printed.matches(wanted).count(), 1, "{name} {options:?}: {printed}");
            assert!(printed.contains(&format!("accord: {program} ")), "{printed}");
        }
    }
}

#[test]
fn a_program_without_openacc_is_named_and_runs() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("without");
    assert!(compile(&program, &[], &[]));
    let printed = printed(&[], &[program.to_str().unwrap()]);
    assert!(printed.contains("has no OpenACC in it; compile and link it with -fopenacc"), "{printed}");
}

#[test]
fn programs_with_the_rights_of_others_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("other");
    assert!(compile(&program, OPENACC, &[]));
    // Owned by another user, if this one may give files away.
    if chown(&program, Some(60_001), None).is_err() {
        println!("skipped: only root can make a program another user's");
        return;
    }
    fs::set_permissions(&program, Permissions::from_mode(0o4755)).unwrap();
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
    let printed = refusal(&[], &[program.to_str().unwrap()]);
    assert!(printed.contains("ignores LD_PRELOAD"), "{printed}");
}

#[test]
fn programs_with_file_capabilities_are_refused() {
    /// A user without rights, because root has all capabilities anyway.
    const USER: u32 = 60_001;
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
    let program = folder.path().join("capable");
    assert!(compile(&program, OPENACC, &[]));
    // Copied, because that user may not be able to read the folder of the build.
    let command = folder.path().join("accord");
    fs::copy(tool(Tool::Accord).unwrap(), &command).unwrap();
    fs::copy(libacc().unwrap(), folder.path().join("libacc.so")).unwrap();
    let as_user = || {
        let mut run = Command::new(&command);
        run.args(["run", "--"]).arg(&program).envs([("ACCORD_CPU_DEVICES", "1"), ("ACCORD_CPU_MEMORY", "64M")]);
        run.env_remove("LD_PRELOAD").current_dir("/").uid(USER).gid(USER).output()
    };
    if as_user().is_err() {
        println!("skipped: only root can become another user");
        return;
    }
    let capable = |capabilities: &str| {
        Command::new("setcap").arg(capabilities).arg(&program).output().is_ok_and(|output| output.status.success())
    };
    if !capable("cap_net_bind_service=ep") {
        println!("skipped: setcap is not here, or the file system has no capabilities");
        return;
    }
    let output = as_user().unwrap();
    let printed = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(125) && output.stdout.is_empty(), "{:?} {printed}", output.status);
    assert!(printed.contains("file capabilities") && printed.contains("ignores LD_PRELOAD"), "{printed}");
    // Inheritable capabilities give nothing to a user that has none.
    assert!(capable("cap_net_bind_service=i"));
    let output = as_user().unwrap();
    assert!(output.status.success() && output.stdout == b"45\n", "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn nothing_is_said_of_programs_that_start_others() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("program");
    assert!(compile(&program, OPENACC, &[]));
    let program = program.to_str().unwrap();
    let script = folder.path().join("script");
    fs::write(&script, format!("#! /bin/sh\nexec {program}\n")).unwrap();
    fs::set_permissions(&script, Permissions::from_mode(0o755)).unwrap();
    for words in [&[program][..], &[script.to_str().unwrap()], &["sh", "-c", program], &["env", program]] {
        assert_eq!(printed(&[], words), "", "{words:?}");
    }
    if Command::new("mpirun").arg("--version").output().is_ok_and(|output| output.status.success()) {
        let printed = printed(&["-np", "2"], &[program]);
        assert!(!printed.contains("accord:"), "{printed}");
    } else {
        println!("skipped: no mpirun");
    }
}

#[test]
fn a_script_of_such_a_program_is_one() {
    let folder = tempfile::tempdir().unwrap();
    let (program, script) = (folder.path().join("static"), folder.path().join("script"));
    if !compile(&program, OPENACC, &["-static"]) {
        return;
    }
    fs::write(&script, format!("#!{}\n", program.display())).unwrap();
    fs::set_permissions(&script, Permissions::from_mode(0o755)).unwrap();
    let printed = refusal(&[], &[script.to_str().unwrap()]);
    assert!(printed.contains(&format!("accord: {} is statically linked", program.display())), "{printed}");
}
