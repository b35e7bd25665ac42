//! Profiling libraries in users' ways: preloaded, by variables, linked (OpenACC 3.3, 5.3).

use accord_tests::{Compiled, Job, Language, Optimize, Program, Tool, Variant, compile, libacc, repository_file, tool};
use std::path::Path;

/// The output of the tests' library at the end of the program.
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

/// A library that is named twice counts once.
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

/// Returns the lines of a program under the tracing library, in this process and on another host.
fn traced(language: Language, path: &str) -> [String; 2] {
    let program = Program::read(repository_file(path), language).unwrap();
    // Optimized code may keep no pointer anywhere.
    let compiled = compile(&program, Variant { optimize: Optimize::No, ..Variant::PLAIN }).unwrap();
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

/// Returns one program's report as text and as JSON, in this process and on another host.
fn times(language: Language, path: &str) -> Vec<(String, serde_json::Value)> {
    let program = Program::read(repository_file(path), language).unwrap();
    let compiled = compile(&program, Variant::PLAIN).unwrap();
    let cluster: &[&str] = &["--local-cluster", "2x1", "--loopback"];
    [(&[] as &[&str], "0"), (cluster, "1")]
        .iter()
        .map(|(cluster, device)| {
            let report = |format: &[&str]| {
                let options: Vec<&str> = cluster.iter().chain(format).copied().collect();
                run(&compiled, &options).env("ACC_DEVICE_NUM", device).run().unwrap().success().unwrap().stderr
            };
            let json = report(&["--time", "--json"]);
            let json = json.lines().find(|line| line.starts_with('{')).unwrap_or_else(|| panic!("{json}")).to_owned();
            (report(&["--time=full"]), serde_json::from_str(&json).unwrap())
        })
        .collect()
}

fn place<'a>(times: &'a serde_json::Value, construct: &str) -> &'a serde_json::Value {
    let places = times["places"].as_array().unwrap();
    places.iter().find(|place| place["construct"] == construct).unwrap_or_else(|| panic!("{times:#}"))
}

/// Large copies of a remote device use the wire, those of a local one do not.
#[test]
fn times_tell_what_went_over_the_wire() {
    let [local, remote] = times(Language::C, "tests/programs/c/big_copies.c").try_into().unwrap();
    assert_eq!(local.1["nodes"], serde_json::json!([]), "{:#}", local.1);
    assert!(!local.0.contains("On the wire"), "{}", local.0);
    let nodes = remote.1["nodes"].as_array().unwrap();
    let [node] = nodes.as_slice() else { panic!("{nodes:?}") };
    assert_eq!(node["node"], remote.1["devices"][0]["node"]);
    for way in ["sent", "received"] {
        let number = |name: &str| node[way][name].as_u64().unwrap();
        assert!(number("bytes") > 1 << 20 && number("wire_ns") > 0, "{node:#}");
    }
    assert!(remote.0.contains("On the wire, by the program's clock\n  to   node "), "{}", remote.0);
}

#[test]
fn times_of_a_c_program_name_places_counts_and_bytes() {
    for (n, (text, json)) in times(Language::C, "tests/programs/c/prof_timed.c").into_iter().enumerate() {
        assert!(
            text.contains("Accord times: ")
                && text.contains("prof_timed.c:17")
                && text.contains(", step: compute construct"),
            "{text}"
        );
        let region = place(&json, "compute construct");
        assert_eq!(region["line"], 17);
        assert_eq!(region["function"], "step");
        assert!(region["file"].as_str().unwrap().ends_with("prof_timed.c"));
        assert_eq!(region["device"], n);
        assert_eq!(region["elapsed"]["count"], 5);
        let launches = &region["launches"][0];
        assert!(launches["kernel"].as_str().unwrap().contains("step"), "{json:#}");
        assert_eq!((&launches["count"], &launches["gangs"]), (&5.into(), &1.into()));
        // By the device's clock: each launch is reported, and took some time.
        assert_eq!(launches["on_device"]["count"], 5, "{json:#}");
        let times = |name: &str| launches["on_device"][name].as_u64().unwrap();
        assert!(
            times("min_ns") > 0 && times("min_ns") <= times("average_ns") && times("average_ns") <= times("max_ns")
        );
        assert!(times("max_ns") <= times("total_ns") && times("total_ns") <= json["wall_ns"].as_u64().unwrap());
        assert_eq!(place(&json, "update")["copies_out"], serde_json::json!({"count": 5, "bytes": 5 * 4000}));
        let data = json["places"].as_array().unwrap().iter().filter(|place| place["construct"] == "data construct");
        let uploaded: u64 = data.map(|place| place["copies_in"]["bytes"].as_u64().unwrap()).sum();
        assert_eq!(uploaded, 4000);
        let device = &json["devices"][0];
        assert_eq!(device["remote"], n == 1);
        assert_eq!((&device["launches"]["count"], &device["copies_out"]["bytes"]), (&5.into(), &20_000.into()));
    }
}

#[test]
fn times_of_a_fortran_program_name_its_lines() {
    for (text, json) in times(Language::Fortran, "tests/programs/fortran/prof_traced.f90") {
        assert!(text.contains("prof_traced.f90:19") && text.contains(", step: compute construct"), "{text}");
        let region = place(&json, "compute construct");
        assert_eq!(region["line"], 19, "{json:#}");
        // The array, and the compiler's additional data.
        assert!(region["copies_in"]["bytes"].as_u64().unwrap() >= 4000, "{json:#}");
    }
}

/// The summary names the lines that take the time, and no more.
#[test]
fn times_are_summed_up_by_line() {
    let program = Program::read(repository_file("tests/programs/c/prof_timed.c"), Language::C).unwrap();
    let compiled = compile(&program, Variant::PLAIN).unwrap();
    let text = run(&compiled, &["--time"]).run().unwrap().success().unwrap().stderr;
    let row = text.lines().find(|line| line.ends_with("prof_timed.c:17-19, step: compute construct"));
    let cells: Vec<&str> = row.unwrap_or_else(|| panic!("{text}")).split_whitespace().collect();
    let calls = cells.iter().position(|cell| cell.starts_with("prof_timed.c")).unwrap() - 1;
    assert_eq!(cells[calls], "5", "{text}");
    assert!(text.contains("\n  in OpenACC ") && !text.contains("Devices, by their own clocks"), "{text}");
}

/// One report per rank, with the rank in its name.
#[test]
fn times_go_to_a_file_for_each_rank() {
    let program = Program::read(repository_file("tests/programs/c/prof_timed.c"), Language::C).unwrap();
    let compiled = compile(&program, Variant::PLAIN).unwrap();
    let folder = tempfile::tempdir().unwrap();
    for rank in ["0", "1"] {
        let job = run(&compiled, &[]).env("OMPI_COMM_WORLD_RANK", rank).env("OMPI_COMM_WORLD_SIZE", "2");
        let finished = job.env("PGI_ACC_TIME", folder.path().join("times.%r.json")).run().unwrap().success().unwrap();
        assert!(!finished.stderr.contains("Accord times"), "{}", finished.report());
    }
    for rank in [0, 1] {
        let text = std::fs::read_to_string(folder.path().join(format!("times.{rank}.json"))).unwrap();
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(json["rank"], rank);
    }
}

#[test]
fn notices_are_told_by_their_bits_and_by_every_name() {
    let program = Program::read(repository_file("tests/programs/c/prof_timed.c"), Language::C).unwrap();
    let compiled = compile(&program, Variant::PLAIN).unwrap();
    let notices = |name: &str, bits: &str| {
        let finished = run(&compiled, &[]).env(name, bits).run().unwrap().success().unwrap();
        finished.stderr.lines().filter(|line| line.starts_with("accord: ")).map(str::to_owned).collect::<Vec<_>>()
    };
    let launches = notices("PGI_ACC_NOTIFY", "1");
    assert_eq!(launches.len(), 5, "{launches:?}");
    assert!(launches.iter().all(|line| line.contains("launch") && line.contains("function=step line=17")));
    let copies = notices("NVCOMPILER_ACC_NOTIFY", "2");
    assert_eq!(
        copies.iter().filter(|line| line.contains("upload") && line.contains("variable=field bytes=4000")).count(),
        1
    );
    assert_eq!(copies.iter().filter(|line| line.contains("download")).count(), 5, "{copies:?}");
    assert_eq!(copies.len(), 6);
    let waits = notices("NV_ACC_NOTIFY", "4");
    assert!(waits.len() >= 5 && waits.iter().all(|line| line.contains("wait")), "{waits:?}");
    let constructs = notices("ACCORD_NOTIFY", "8");
    assert_eq!(constructs.iter().filter(|line| line.contains(": enter compute construct")).count(), 5);
    let data = notices("ACCORD_NOTIFY", "16");
    for what in ["alloc", "create", "delete", "free"] {
        assert_eq!(data.iter().filter(|line| line.contains(&format!("accord: {what} "))).count(), 1, "{data:?}");
    }
    assert!(notices("ACCORD_NOTIFY", "0").is_empty());
    let finished = run(&compiled, &[]).env("PGI_ACC_NOTIFY", "yes").run().unwrap();
    assert!(finished.code() == 1 && finished.stderr.contains("PGI_ACC_NOTIFY is \"yes\""), "{}", finished.report());
}
