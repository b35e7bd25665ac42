//! `accord explain image` for programs as users compile them.

use accord_tests::{
    Compiled, Finished, Job, Language, Optimize, Program, Result, Tool, Variant, compile, libacc, repository_file, tool,
};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

const OPTIMIZED: Variant = Variant { optimize: Optimize::Yes, offload: true, linked: false };
const UNOPTIMIZED: Variant = Variant { optimize: Optimize::No, ..OPTIMIZED };

fn built(source: &str, language: Language, variant: Variant) -> Compiled {
    compile(&Program::read(repository_file(source), language).unwrap(), variant).unwrap()
}

fn regions(variant: Variant) -> PathBuf {
    built("crates/image/src/fixtures/regions.c", Language::C, variant).program
}

fn job(file: &Path) -> Result<Job> {
    Ok(Job::new(tool(Tool::Accord)?).env("ACCORD_LIBACC", libacc()?).args(["explain", "image"]).arg(file))
}

fn text(file: &Path) -> String {
    job(file).unwrap().run().unwrap().success().unwrap().stdout
}

fn json(file: &Path) -> Value {
    let finished = job(file).unwrap().arg("--json").run().unwrap().success().unwrap();
    serde_json::from_str(&finished.stdout).unwrap()
}

/// Returns the only object with code.
fn image(reported: &Value) -> &Value {
    let objects: Vec<&Value> =
        reported["objects"].as_array().unwrap().iter().filter(|o| !o["image"].is_null()).collect();
    assert_eq!(objects.len(), 1, "{reported:#}");
    &objects[0]["image"]
}

fn region<'a>(image: &'a Value, name: &str) -> &'a Value {
    let all = image["regions"].as_array().unwrap();
    all.iter().find(|region| region["name"] == name).unwrap_or_else(|| panic!("no {name} in {image:#}"))
}

fn refused(file: &Path, code: i32, why: &str) -> Finished {
    let finished = job(file).unwrap().run().unwrap();
    assert!(finished.code() == code && finished.stderr.contains(why), "{why}: {}", finished.report());
    assert_eq!(finished.stdout, "", "{}", finished.report());
    finished
}

#[test]
fn optimized_regions_take_their_block_as_parameter() {
    let program = regions(OPTIMIZED);
    let reported = json(&program);
    assert_eq!((&reported["regions"], &reported["by_parameter"]), (&5.into(), &5.into()), "{reported:#}");
    let image = image(&reported);
    assert_eq!(image["id"].as_str().unwrap().len(), 64);
    assert!(
        image["ptx"].as_array().unwrap().iter().all(|ptx| ptx["target"].as_str().unwrap().starts_with("sm_")),
        "{image:#}"
    );
    // Lines are those of the directives.
    for (number, line, dims, slots) in [
        (0, 16, [None, Some(1), Some(32)], 4),
        (1, 19, [Some(10), Some(4), Some(64)], 3),
        (2, 22, [None, None, Some(32)], 1),
        (3, 25, [Some(1), Some(1), Some(32)], 1),
    ] {
        let region = region(image, &format!("main._omp_fn.{number}"));
        assert!(region["source"].as_str().unwrap().ends_with(&format!("fixtures/regions.c:{line}")), "{region:#}");
        for (name, dim) in ["gangs", "workers", "vector"].iter().zip(dims) {
            assert_eq!(region[*name], dim.map_or(Value::Null, Value::from), "{region:#}");
        }
        assert_eq!(region["kernel"], format!("main$_omp_fn${number}"));
        let one_warp = dims[1..] == [Some(1), Some(32)];
        assert_eq!(region["gangs_apart"] == Value::Null, one_warp, "{region:#}");
        assert_eq!(region["argument_block"]["way"], "parameter", "{region:#}");
        assert_eq!(region["argument_block"]["slots"], slots, "{region:#}");
        assert!(region["argument_block"]["bytes"].as_u64().unwrap() >= slots * 8, "{region:#}");
    }
    let variables = image["variables"].as_array().unwrap();
    for (name, bytes, link) in [("table", 256, false), ("start", 4, false), ("linked", 400, true)] {
        let variable = variables.iter().find(|variable| variable["name"] == name).unwrap();
        assert_eq!((&variable["bytes"], &variable["link"]), (&bytes.into(), &link.into()), "{variable}");
    }
    let text = text(&program);
    assert!(text.contains("All 5 regions") && text.contains("regions.c:16"), "{text}");
    assert!(text.contains("linked") && text.contains("400 B"), "{text}");
    assert_eq!(text.matches("a thread block for each gang: a gang has more than one warp").count(), 1, "{text}");
}

#[test]
fn unoptimized_regions_go_by_memory_and_the_remedy_is_told() {
    let program = regions(UNOPTIMIZED);
    let reported = json(&program);
    assert_eq!((&reported["by_memory"], &reported["regions"]), (&5.into(), &5.into()), "{reported:#}");
    let block = &region(image(&reported), "main._omp_fn.0")["argument_block"];
    assert_eq!(block["way"], "memory");
    assert!(block["remedy"].as_str().unwrap().contains("-O2"), "{block}");
    let text = text(&program);
    assert!(
        text.contains("memory [1]") && text.contains("All 5 regions get their argument blocks by memory"),
        "{text}"
    );
    assert_eq!(text.matches("compile with -O2").count(), 1, "reasons are told once: {text}");
}

#[test]
fn updates_of_shared_results_are_told() {
    let program = built("crates/image/src/fixtures/reductions.c", Language::C, OPTIMIZED).program;
    let reported = json(&program);
    for (number, hardware, loops) in [(0, 1, 0), (1, 0, 1), (2, 2, 0), (3, 0, 1), (4, 1, 0)] {
        let region = region(image(&reported), &format!("main._omp_fn.{number}"));
        assert_eq!(region["updates"], serde_json::json!({ "hardware": hardware, "loops": loops }), "{region:#}");
    }
    let printed = "Reductions and atomic updates: 4 updates by one operation of the GPU each, 2 by loops";
    assert!(text(&program).contains(printed), "{}", text(&program));
}

/// GCC keeps 16 bits of a constant number of gangs.
#[test]
fn gangs_are_those_of_the_code_or_said_to_be_lost() {
    let program = built("tests/programs/gpu/lost_gangs.c", Language::C, OPTIMIZED).program;
    let reported = json(&program);
    let [displayed, lost] = ["shown._omp_fn.0", "lost._omp_fn.0"].map(|name| region(image(&reported), name));
    assert_eq!((&displayed["gangs"], &displayed["problem"]), (&100_000.into(), &Value::Null), "{displayed:#}");
    assert!(lost["problem"].as_str().unwrap().contains("a variable in num_gangs"), "{lost:#}");
    let text = text(&program);
    assert!(text.contains("lost [1]") && text.contains("[1] compiled for a constant number of gangs"), "{text}");
    let program = built("tests/programs/gpu/own_gang_numbers.c", Language::C, OPTIMIZED).program;
    let reported = json(&program);
    for number in 0..3 {
        let region = region(image(&reported), &format!("main._omp_fn.{number}"));
        assert_eq!((&region["gangs"], &region["problem"]), (&32.into(), &Value::Null), "{region:#}");
    }
}

#[test]
fn regions_on_one_thread_are_marked() {
    let program = built("tests/programs/gpu/one_thread.c", Language::C, OPTIMIZED).program;
    let reported = json(&program);
    for (name, one) in [("alone._omp_fn.0", true), ("together._omp_fn.0", false)] {
        assert_eq!(region(image(&reported), name)["one_thread"], one, "{reported:#}");
    }
    let loops = &region(image(&reported), "alone._omp_fn.0")["kernels"];
    let found = "GCC found no independent loop";
    assert_eq!((&loops[0]["line"], &loops[0]["reason"]), (&9.into(), &found.into()), "{loops:#}");
    let text = text(&program);
    let why = "one_thread.c:9: GCC found no independent loop; accord cc opens it";
    assert!(text.contains("1 [1]") && text.contains("[1] runs on one thread: ") && text.contains(why), "{text}");
}

/// Line, reason and remedy of each loop that keeps its construct on one thread.
#[test]
fn loops_of_kernels_constructs_on_one_thread_have_their_reasons() {
    let program = built("tests/programs/wrappers/kernels.c", Language::C, OPTIMIZED).program;
    let (reported, text) = (json(&program), text(&program));
    let regions = image(&reported)["regions"].as_array().unwrap();
    let loops: Vec<&Value> = regions.iter().flat_map(|region| region["kernels"].as_array().unwrap()).collect();
    let carried = "loop carried dependence of a prevents parallelization";
    let independent = "write: loop independent, if the iterations don't need each other's values";
    for (line, reason, remedy) in
        [(68, carried, independent), (40, "GCC found no independent loop", "accord cc opens it")]
    {
        let known = loops.iter().any(|one| one["line"] == line && one["reason"] == reason && one["remedy"] == remedy);
        assert!(known, "{line}: {reported:#}");
        assert!(text.contains(&format!("kernels.c:{line}: {reason}; {remedy}")), "{text}");
    }
}

#[test]
fn fortran_is_explained_too() {
    let program = built("tests/programs/fortran/module_declare.f90", Language::Fortran, OPTIMIZED).program;
    let reported = json(&program);
    let image = image(&reported);
    // Regions of the program and of the module that it uses, each from its own file.
    for file in ["module_declare.f90:", "check.f90:"] {
        let all = image["regions"].as_array().unwrap();
        assert!(all.iter().any(|region| region["source"].as_str().unwrap().contains(file)), "no {file} in {image:#}");
    }
    assert!(!image["variables"].as_array().unwrap().is_empty(), "{image:#}");
}

#[test]
fn shared_objects_are_explained_alone_and_with_their_program() {
    let built = built("tests/programs/c/plugin_regions.c", Language::C, OPTIMIZED);
    let plugin = built.plugin.unwrap();
    let alone = json(&plugin);
    assert_eq!(alone["regions"], 2, "{alone:#}");
    assert_eq!(image(&alone)["variables"][0]["bytes"], 4, "{alone:#}");
    // The program loads the object only when it runs, as the message says.
    refused(&built.program, 1, "no regions");
    let finished =
        job(&built.program).unwrap().env("LD_PRELOAD", &plugin).arg("--json").run().unwrap().success().unwrap();
    let reported: Value = serde_json::from_str(&finished.stdout).unwrap();
    assert_eq!(image(&reported), image(&alone));
}

#[test]
fn nothing_of_main_runs_and_constructors_get_no_device() {
    let program = built("tests/programs/gpu/before_main.c", Language::C, OPTIMIZED).program;
    // Here the program itself fails, because it requests a missing device type.
    let finished = job(&program).unwrap().env("ACC_DEVICE_TYPE", "radeon").run().unwrap().success().unwrap();
    assert!(finished.stdout.contains("The region gets its argument block"), "{}", finished.report());
    assert!(
        !finished.stdout.contains("has printed") && !finished.stderr.contains("complained"),
        "{}",
        finished.report()
    );
    assert!(!finished.stdout.contains("main has run"), "{}", finished.report());
    let reported = json(&program);
    let only = &image(&reported)["regions"][0];
    assert_eq!((&only["gangs"], &only["vector"]), (&7.into(), &64.into()), "{only:#}");
}

#[test]
fn a_stripped_program_has_its_kernels_names() {
    let program = regions(OPTIMIZED);
    let folder = tempfile::tempdir().unwrap();
    let stripped = folder.path().join("stripped");
    let done = Command::new("strip").arg("-o").arg(&stripped).arg(&program).status();
    if !done.is_ok_and(|status| status.success()) {
        println!("skipped: no strip command (package binutils)");
        return;
    }
    let reported = json(&stripped);
    let first = region(image(&reported), "main$_omp_fn$0");
    assert_eq!(first["source"], Value::Null, "{first:#}");
    assert_eq!(image(&reported)["id"], image(&json(&program))["id"]);
}

#[test]
fn explain_reports_why_a_program_has_no_regions() {
    let host_only = regions(Variant { offload: false, ..OPTIMIZED });
    let finished = refused(&host_only, 1, "5 regions, but no code for NVIDIA GPUs");
    assert!(finished.stderr.contains("-foffload=nvptx-none"), "{}", finished.report());
    refused(Path::new("/bin/sh"), 1, "does not use OpenACC");
    refused(Path::new("/nowhere/at/all"), 127, "/nowhere/at/all");
    refused(Path::new("/etc/passwd"), 126, "no 64-bit ELF file");

    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("main.c");
    std::fs::write(&source, "int main(void) { return 0; }\n").unwrap();
    for (flags, code, why) in [
        (&["-static"][..], 125, "statically linked"),
        (&["-static-pie"], 125, "statically linked"),
        (&["-c"], 126, "object file"),
    ] {
        let file = folder.path().join("made");
        let done = Command::new("gcc").args(flags).arg("-o").arg(&file).arg(&source).output().unwrap();
        if !done.status.success() {
            println!("skipped: gcc {flags:?} does not work here");
            continue;
        }
        refused(&file, code, why);
    }
    std::fs::write(
        &source,
        "#include <unistd.h>\n__attribute__((constructor)) void f(void) { _exit(7); }\nint main(void) { return 0; }\n",
    )
    .unwrap();
    let file = folder.path().join("ends");
    assert!(Command::new("gcc").arg("-o").arg(&file).arg(&source).status().unwrap().success());
    refused(&file, 125, "exit code 7 before its main");
}
