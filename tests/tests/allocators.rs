//! Programs with an allocator of their own, linked before or after libacc.

use accord_tests::{
    Job, Language, Program, Tool, Variant, compile, compile_support, gcc, libacc, repository_file, tool,
};
use std::path::{Path, PathBuf};

#[test]
fn an_allocator_may_come_before_libacc_and_after_it() {
    let folder = tempfile::tempdir().unwrap();
    let allocator = compile_support("allocator", folder.path()).unwrap();
    let libacc = libacc().unwrap();
    let source = Program::read(repository_file("tests/programs/c/data_copy.c"), Language::C).unwrap();
    let program = compile(&source, Variant::PLAIN).unwrap().program;
    let both = |first: &Path, second: &Path| format!("{}:{}", first.display(), second.display());
    for preload in [both(&allocator, &libacc), both(&libacc, &allocator)] {
        let job = Job::new(&program).env("LD_PRELOAD", &preload).env("ACCORD_CPU_MEMORY", "256M");
        job.run().unwrap().success().unwrap_or_else(|error| panic!("{preload}: {error}"));
    }
}

/// The allocator ends the program if it must free another one's block.
#[test]
fn an_allocator_may_be_linked_into_the_program() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("program");
    let sources =
        ["c/data_copy.c", "support/allocator.c"].map(|file| repository_file(&format!("tests/programs/{file}")));
    let built = std::process::Command::new(gcc("gcc"))
        .args(["-g", "-fopenacc", "-foffload=disable", "-fno-builtin", "-I"])
        .args([repository_file("tests/programs/support"), "-o".into(), program.clone()])
        .args(sources)
        .output()
        .unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let preloaded = Job::new(&program).env("LD_PRELOAD", libacc().unwrap());
    let remote = ["run", "--local-cluster", "1x1", "--loopback", "--remote-only", "--"];
    let remote = Job::new(tool(Tool::Accord).unwrap()).args(remote).arg(&program);
    for job in [preloaded, remote] {
        job.env("ACCORD_CPU_MEMORY", "256M").run().unwrap().success().unwrap();
    }
}

/// With threads, and children that allocate, in each process of a run.
#[test]
fn an_allocator_may_hold_a_lock_over_mappings_and_fork() {
    let folder = tempfile::tempdir().unwrap();
    let allocator = compile_support("locking_allocator", folder.path()).unwrap();
    let accord = tool(Tool::Accord).unwrap();
    libacc().unwrap();
    for name in ["trap_42_fork_after_init", "devices_threads"] {
        let source = repository_file(&format!("tests/programs/c/{name}.c"));
        let program = compile(&Program::read(source, Language::C).unwrap(), Variant::PLAIN).unwrap().program;
        for options in [&["run", "--"][..], &["run", "--local-cluster", "2x1", "--loopback", "--"]] {
            for unmapped in ["error", "map"] {
                for _ in 0..accord_test_tier::pick(1, 3) {
                    let job = Job::new(&accord).args(options.iter().copied()).arg(&program);
                    let job = job.env("LD_PRELOAD", &allocator).env("ACCORD_UNMAPPED", unmapped);
                    let done = job.env("ACCORD_CPU_DEVICES", "2").env("ACCORD_CPU_MEMORY", "64M").run().unwrap();
                    done.success().unwrap_or_else(|error| panic!("{name} {options:?} {unmapped}: {error}"));
                }
            }
        }
    }
}

/// Returns a library's path, or `None`, and prints so, if this machine lacks it.
fn found_by_gcc(name: &str) -> Option<PathBuf> {
    let output = std::process::Command::new(gcc("gcc")).arg(format!("-print-file-name={name}")).output().unwrap();
    let path = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
    if !path.is_absolute() {
        println!("skipped: there is no {name}");
        return None;
    }
    Some(path)
}

/// Preloaded before libacc, in-process and with a remote device, and linked into the program.
#[test]
#[ignore = "long"]
fn programs_with_allocators_that_sites_use_run() {
    const REMOTE: [&str; 6] = ["run", "--local-cluster", "1x1", "--loopback", "--remote-only", "--"];
    let folder = tempfile::tempdir().unwrap();
    let libacc = libacc().unwrap();
    for name in ["libjemalloc.so.2", "libtcmalloc_minimal.so.4", "libmimalloc.so.2"] {
        let Some(allocator) = found_by_gcc(name) else { continue };
        let first = format!("{}:{}", allocator.display(), libacc.display());
        let run = |job: Job, preload: &Path, what: &str| {
            let job = job.env("LD_PRELOAD", preload).env("ACCORD_CPU_DEVICES", "2").env("ACCORD_CPU_MEMORY", "64M");
            job.run().unwrap().success().unwrap_or_else(|error| panic!("{name} {what}: {error}"));
        };
        for source in ["data_copy", "async_many_queues", "exit_while_threads_work", "trap_42_fork_after_init"] {
            let path = repository_file(&format!("tests/programs/c/{source}.c"));
            let program = Program::read(path, Language::C).unwrap();
            let program = compile(&program, Variant::PLAIN).unwrap().program;
            run(Job::new(&program), Path::new(&first), source);
            run(Job::new(tool(Tool::Accord).unwrap()).args(REMOTE).arg(&program), &allocator, source);
        }
        let linked = folder.path().join(name);
        let support = repository_file("tests/programs/support");
        let source = repository_file("tests/programs/c/data_copy.c");
        let built = std::process::Command::new(gcc("gcc"))
            .args(["-g", "-fopenacc", "-foffload=disable", "-Wl,--no-as-needed", "-I"])
            .arg(&support)
            .args([&source, &allocator])
            .arg("-o")
            .arg(&linked)
            .output()
            .unwrap();
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
        run(Job::new(&linked), &libacc, "linked");
    }
}

#[test]
fn programs_with_an_address_sanitizer_run() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("sanitized");
    let source = repository_file("tests/programs/c/data_copy.c");
    let support = repository_file("tests/programs/support");
    let built = std::process::Command::new(gcc("gcc"))
        .args(["-g", "-fopenacc", "-foffload=disable", "-fsanitize=address", "-I"])
        .args([&support, Path::new("-o"), &program, &source])
        .output()
        .unwrap();
    if !built.status.success() {
        println!("skipped: gcc has no address sanitizer: {}", String::from_utf8_lossy(&built.stderr));
        return;
    }
    let job = Job::new(&program)
        .env("LD_PRELOAD", libacc().unwrap())
        .env("ASAN_OPTIONS", "verify_asan_link_order=0:detect_leaks=0")
        .env("ACCORD_CPU_MEMORY", "256M");
    job.run().unwrap().success().unwrap();
}
