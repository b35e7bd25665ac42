//! Programs with more rights than their user: no setting of the user writes files with these rights, or loads code.

use accord_tests::{Tool, gcc, libacc, repository_file, tool};
use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use std::fs::{self, Permissions};
use std::io::Write as _;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Another user, whose rights the program has.
const OTHER: u32 = 60_001;

/// Builds a program by `accord cc` in a folder that all users may write to; `None` if this user can't give files away.
fn program(folder: &Path) -> Option<PathBuf> {
    fs::set_permissions(folder, Permissions::from_mode(0o777)).unwrap();
    let library = folder.join("libacc.so");
    fs::copy(libacc().unwrap(), &library).unwrap();
    let program = folder.join("program");
    let output = Command::new(tool(Tool::Accord).unwrap())
        .args(["cc", "-O1", "-foffload=disable"])
        .arg(repository_file("tests/programs/cluster/one_region.c"))
        .arg("-o")
        .arg(&program)
        .envs([("ACCORD_LIBACC", library.as_os_str()), ("ACCORD_CC", gcc("gcc").as_ref())])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", printed(&output));
    if chown(&program, Some(OTHER), None).is_err() {
        println!("skipped: only root can make a program another user's");
        return None;
    }
    fs::set_permissions(&program, Permissions::from_mode(0o4755)).unwrap();
    Some(program)
}

fn printed(output: &Output) -> String {
    [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes)).concat()
}

fn command(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.envs([("ACCORD_CPU_DEVICES", "1"), ("ACCORD_CPU_MEMORY", "64M")]).env_remove("LD_PRELOAD");
    command
}

#[test]
fn no_setting_writes_files_or_loads_code() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = program(folder.path()) else { return };
    let tool = folder.path().join("tool.so");
    let source = folder.path().join("tool.c");
    fs::write(
        &source,
        "#include <stdio.h>\n__attribute__((constructor)) static void start(void) { puts(\"loaded\"); }\n",
    )
    .unwrap();
    let made = Command::new(gcc("gcc")).args(["-shared", "-fPIC", "-o"]).arg(&tool).arg(&source).status().unwrap();
    assert!(made.success());
    let file = |name: &str| folder.path().join(name);
    let before = fs::read_dir(folder.path()).unwrap().count();
    let with_settings = |command: &mut Command| {
        command
            .env("ACCORD_TRACE", file("trace.json"))
            .env("ACCORD_TIME", file("time.json"))
            .env("ACCORD_CACHE", file("cache"))
            .env("ACC_PROFLIB", &tool)
            .env("NVCOMPILER_ACC_PROFLIB", &tool)
            .env("ACCORD_INTERNAL_EXPLAIN", format!("{}:{}", std::process::id(), file("explained").display()))
            .env("ACCORD_COORDINATOR", "127.0.0.1:1")
            .env("HOME", folder.path())
            .output()
            .unwrap()
    };
    let output = with_settings(&mut command(&program));
    let text = printed(&output);
    assert!(output.status.success() && text == "45\n", "{:?} {text}", output.status);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), before, "files were written");

    // The same program without these rights obeys them.
    fs::set_permissions(&program, Permissions::from_mode(0o755)).unwrap();
    let output = with_settings(&mut command(&program));
    assert!(file("explained").exists(), "{}", printed(&output));
}

#[test]
fn no_other_user_makes_it_a_worker() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = program(folder.path()) else { return };
    // The two descriptors that an owner passes to its worker, which any process can create.
    let (socket, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
    let mut memory = tempfile::tempfile().unwrap();
    memory.write_all(&[0; 4096]).unwrap();
    fcntl(&theirs, FcntlArg::F_SETFD(FdFlag::empty())).unwrap();
    fcntl(&memory, FcntlArg::F_SETFD(FdFlag::empty())).unwrap();
    let worker = format!("{},{},{},{},1", memory.as_raw_fd(), theirs.as_raw_fd(), 1u64 << 40, std::process::id());
    let output = command(&program).env("ACCORD_WORKER", worker).output().unwrap();
    let text = printed(&output);
    assert!(output.status.success() && text == "45\n", "{:?} {text}", output.status);
    drop(socket);
}
