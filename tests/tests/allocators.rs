//! Programs with an allocator of their own, ahead of libacc or behind it.

use accord_tests::{Job, Language, Program, Variant, compile, compile_support, libacc, repository_file};
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
