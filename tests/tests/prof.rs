//! Profiling libraries as users bring them: preloaded, by variables, linked (OpenACC 3.3, 5.3).

use accord_tests::{Compiled, Job, Language, Program, Tool, Variant, compile, libacc, repository_file, tool};
use std::path::Path;

/// What the library of the tests says at the end of the program.
const COUNTED: &str = "proflib: 3 compute constructs, 1 updates";

fn compiled(linked: bool) -> Compiled {
    let program = Program::read(repository_file("tests/programs/c/proflib.c"), Language::C).unwrap();
    compile(&program, Variant { linked, ..Variant::PLAIN }).unwrap()
}

fn run(compiled: &Compiled, cluster: &[&str]) -> Job {
    Job::new(tool(Tool::Accord).unwrap())
        .env("ACCORD_LIBACC", libacc().unwrap())
        .env("ACCORD_CPU_MEMORY", "256M")
        .arg("run")
        .args(cluster.iter().copied())
        .arg("--")
        .arg(&compiled.program)
}

fn says_what_it_counted(job: Job) {
    let finished = job.run().unwrap().success().unwrap();
    assert_eq!(finished.stdout.matches(COUNTED).count(), 1, "{}", finished.report());
}

#[test]
fn a_preloaded_library_is_called_under_accord_run() {
    let compiled = compiled(false);
    let plugin = compiled.plugin.clone().unwrap();
    says_what_it_counted(run(&compiled, &[]).env("LD_PRELOAD", &plugin));
    let cluster = ["--local-cluster", "2x1", "--loopback"];
    says_what_it_counted(run(&compiled, &cluster).env("ACC_DEVICE_NUM", "1").env("LD_PRELOAD", &plugin));
}

#[test]
fn a_preloaded_library_is_called_wherever_it_stands() {
    let compiled = compiled(false);
    let (plugin, libacc) = (compiled.plugin.clone().unwrap(), libacc().unwrap());
    let both = |first: &Path, second: &Path| format!("{}:{}", first.display(), second.display());
    for preload in [both(&plugin, &libacc), both(&libacc, &plugin)] {
        says_what_it_counted(Job::new(&compiled.program).env("LD_PRELOAD", preload).env("ACCORD_CPU_MEMORY", "256M"));
    }
}

/// The other names of the variable, with libgomp in the program, which knows only the first, and without.
#[test]
fn a_library_is_found_by_every_name_of_the_variable() {
    for linked in [false, true] {
        let compiled = compiled(linked);
        let plugin = compiled.plugin.clone().unwrap();
        for name in ["ACC_PROFLIB", "PGI_ACC_PROFLIB", "NVCOMPILER_ACC_PROFLIB", "NV_ACC_PROFLIB"] {
            says_what_it_counted(run(&compiled, &[]).env(name, &plugin));
        }
    }
}

/// It is named twice, and counts once.
#[test]
fn a_library_that_is_preloaded_and_named_is_registered_once() {
    let compiled = compiled(false);
    let plugin = compiled.plugin.clone().unwrap();
    says_what_it_counted(run(&compiled, &[]).env("LD_PRELOAD", &plugin).env("PGI_ACC_PROFLIB", &plugin));
}

#[test]
fn a_library_that_is_not_there_is_told_and_the_program_runs() {
    let compiled = compiled(true);
    let finished = run(&compiled, &[]).env("PGI_ACC_PROFLIB", "/nonexistent/tool.so").run().unwrap();
    let finished = finished.success().unwrap();
    assert!(finished.stdout.contains("PASS"), "{}", finished.report());
    assert!(finished.stderr.contains("PGI_ACC_PROFLIB: /nonexistent/tool.so"), "{}", finished.report());
}

/// Lines of a program under the tracing library, in this process and on another host.
fn traced(language: Language, path: &str) -> [String; 2] {
    let program = Program::read(repository_file(path), language).unwrap();
    let compiled = compile(&program, Variant::PLAIN).unwrap();
    let plugin = compiled.plugin.clone().unwrap();
    let trace = |job: Job| job.env("ACC_PROFLIB", &plugin).run().unwrap().success().unwrap().stdout;
    let cluster = ["--local-cluster", "2x1", "--loopback"];
    [trace(run(&compiled, &[])), trace(run(&compiled, &cluster).env("ACC_DEVICE_NUM", "1"))]
}

#[test]
fn a_fortran_program_is_traced_by_a_c_library() {
    let [local, remote] = traced(Language::Fortran, "tests/programs/fortran/prof_traced.f90");
    for output in [&local, &remote] {
        let launch = output.lines().find(|line| line.starts_with("launch")).unwrap();
        assert!(launch.contains("_omp_fn") && launch.contains("prof_traced.f90:19 step"), "{output}");
        assert!(output.lines().any(|line| line.starts_with("upload values prof_traced.f90:19")), "{output}");
    }
    assert!(local.contains("device 0 of ") && !local.contains("remote"), "{local}");
    assert!(remote.contains("device 1 of ") && remote.contains("remote"), "{remote}");
}

#[test]
fn a_cxx_program_is_traced_by_a_c_library() {
    let [local, remote] = traced(Language::Cxx, "tests/programs/cxx/prof_traced.cpp");
    for output in [&local, &remote] {
        let launch = output.lines().find(|line| line.starts_with("launch")).unwrap();
        assert!(launch.contains("prof_traced.cpp:15 ") && launch.contains("step"), "{output}");
        assert!(output.lines().any(|line| line.starts_with("upload values prof_traced.cpp:15")), "{output}");
    }
    assert!(remote.contains("device 1 of ") && remote.contains("remote"), "{remote}");
}
