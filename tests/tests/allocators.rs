//! Programs with an allocator of their own, ahead of libacc or behind it.

use accord_tests::{Job, Language, Program, Variant, compile, compile_support, gcc, libacc, repository_file};
use std::path::Path;

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
