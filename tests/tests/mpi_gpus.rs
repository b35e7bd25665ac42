//! GPUs of agents that are ranks of an MPI job, with the tests' own driver. Their memory is host memory, so any MPI
//! copies from and to it. Skipped, with a message, without MPI or without its object (`make mpi`).

mod driver;

use accord_test_tier::{cases, is_long, pick};
use accord_tests::{
    Finished, Job, Language, Optimize, Program, Tool, Variant, compile, compile_support, libacc, no_mpi,
    repository_file, tool,
};
use driver::driver;
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;
use tempfile::TempDir;

fn program(name: &str) -> PathBuf {
    program_of("c", name)
}

fn program_of(folder: &str, name: &str) -> PathBuf {
    let file = repository_file(&format!("tests/programs/{folder}/{name}.c"));
    let source = Program::read(file, Language::C).expect("a program");
    compile(&source, Variant { optimize: Optimize::Yes, offload: true, linked: false }).expect("gcc").program
}

/// Returns a job of two agents with one GPU each, as [`two_agents`].
fn job(driver: &TempDir, settings: &[(&str, &str)]) -> Option<Job> {
    two_agents(tool(Tool::Accord).unwrap(), driver, 1, settings)
}

/// Returns a job of two agents with this many GPUs each, which do not copy directly, as ranks of an MPI job; neither is
/// the program's node. `None` without MPI.
fn two_agents(accord: PathBuf, driver: &TempDir, gpus: u32, settings: &[(&str, &str)]) -> Option<Job> {
    if let Some(why) = no_mpi() {
        println!("skipped: {why}");
        return None;
    }
    let job = Job::new(accord)
        .with_mpi()
        .env("LD_LIBRARY_PATH", driver.path())
        .env("FAKE_CUDA_DEVICES", (2 * gpus).to_string())
        .env("ACCORD_LIBACC", libacc().unwrap())
        .env("ACCORD_CACHE", "off")
        .env("ACCORD_IPC", "off")
        .env("ACCORD_LOG", "info")
        .timeout(Duration::from_secs(60))
        .args(["run", "-v", "--remote-only", "--loopback", "--fabric", "mpi"])
        .args(["--local-cluster", &format!("2x{gpus}gpu")]);
    Some(settings.iter().fold(job, |job, (name, value)| job.env(name, *value)))
}

/// Runs copies between the GPUs. Returns the outcome, and the number of copies directly from GPU memory.
fn run(settings: &[(&str, &str)]) -> Option<(Finished, usize)> {
    let driver = driver();
    Some(copied(job(&driver, settings)?, &driver))
}

fn copied(job: Job, driver: &TempDir) -> (Finished, usize) {
    let trace = driver.path().join("trace.json");
    let finished = job.arg("--trace").arg(&trace).arg("--").arg(program("d2d_sizes")).run().unwrap();
    assert_eq!(finished.code(), 0, "{}", finished.report());
    assert!(finished.stdout.contains("PASS") && finished.left_behind.is_empty(), "{}", finished.report());
    let trace: Value = serde_json::from_slice(&std::fs::read(trace).unwrap()).unwrap();
    let events = trace.as_array().or_else(|| trace["traceEvents"].as_array()).unwrap();
    let pushed = events.iter().filter(|event| event["name"] == "push").count();
    (finished, pushed)
}

/// Returns the JSON output of `accord` with each of these arguments, started by one program of a job.
fn ask(settings: &[(&str, &str)], questions: &[&str]) -> Option<Vec<Value>> {
    let driver = driver();
    let script: String = questions.iter().map(|arguments| format!("\"$0\" {arguments} --json\n")).collect();
    let asks = job(&driver, settings)?.args(["--", "sh", "-c"]).arg(script).arg(tool(Tool::Accord).unwrap());
    let finished = asks.run().unwrap();
    let answers = serde_json::Deserializer::from_str(&finished.stdout).into_iter();
    let answers: Vec<Value> = answers.collect::<Result<_, _>>().unwrap_or_else(|_| panic!("{}", finished.report()));
    assert_eq!(answers.len(), questions.len(), "{}", finished.report());
    Some(answers)
}

#[test]
fn gpu_aware_mpi_is_tested_and_copies_from_gpu_memory() {
    let Some((finished, pushed)) = run(&[]) else { return };
    let tried = finished.stderr.matches("MPI copies from and to GPUs' own memory").count();
    assert_eq!(tried, 2, "{}", finished.report());
    // Those of the program's copies to and fro that are large enough.
    assert_eq!(pushed, 2 * 9, "{}", finished.report());
}

#[test]
fn copies_are_staged_through_the_host_if_mpi_is_not_gpu_aware() {
    let Some((finished, pushed)) = run(&[("ACCORD_MPI_GPUS", "off")]) else { return };
    let reported = finished.stderr.matches("MPI is not to get GPUs' memory (--mpi-gpus off)").count();
    assert_eq!((reported, pushed), (2, 0), "{}", finished.report());
}

/// Creates a folder with Accord's programs, in which the agent of one rank has these settings.
fn programs_that_differ(of: u32, settings: &str) -> TempDir {
    let folder = TempDir::new().unwrap();
    for part in [Tool::Accord, Tool::Coordinator] {
        let (from, to) = (tool(part).unwrap(), folder.path());
        let to = to.join(from.file_name().unwrap());
        // A program determines its folder from its file, which a symbolic link would not change.
        std::fs::hard_link(&from, &to).or_else(|_| std::fs::copy(&from, &to).map(drop)).unwrap();
    }
    let agent = folder.path().join("accord-node-agent");
    let rank = "${OMPI_COMM_WORLD_RANK-$PMI_RANK}";
    let real = tool(Tool::NodeAgent).unwrap();
    let script =
        format!("#!/bin/sh\nif [ \"{rank}\" = {of} ]; then export {settings}; fi\nexec {} \"$@\"\n", real.display());
    std::fs::write(&agent, script).unwrap();
    std::fs::set_permissions(&agent, std::fs::Permissions::from_mode(0o755)).unwrap();
    folder
}

#[test]
fn nodes_of_a_job_may_differ_in_what_mpi_reaches() {
    for off in cases(&[0, 1], 1) {
        let (driver, programs) = (driver(), programs_that_differ(off, "ACCORD_MPI_GPUS=off"));
        let Some(job) = two_agents(programs.path().join("accord"), &driver, 1, &[]) else { return };
        let (finished, pushed) = copied(job, &driver);
        let printed = |what: &str| finished.stderr.matches(what).count();
        assert_eq!(printed("MPI is not to get GPUs' memory (--mpi-gpus off)"), 1, "{}", finished.report());
        assert_eq!(printed("MPI copies from and to GPUs' own memory"), 1, "{}", finished.report());
        // The other agent's copies directly from GPU memory: those that are large enough and whose target can't receive
        // by MPI.
        assert_eq!(pushed, 4, "{}", finished.report());
    }
}

/// However far an agent gets, the program's own or another one: it reports why it fails, and ends no other one.
#[test]
fn agents_without_threads_say_so_in_time() {
    let (mut worked, mut reported, mut of_gateway) = (0, 0, 0);
    let all = [(0, 26), (0, 34), (0, 40), (0, 58), (0, 65), (0, 300), (1, 28), (1, 38), (1, 50), (1, 58)];
    for (rank, threads) in cases(&all, 2) {
        let driver = driver();
        let few_threads = compile_support("few_threads", driver.path()).unwrap();
        let settings = format!("LD_PRELOAD={} AGENT_THREADS={threads}", few_threads.display());
        let programs = programs_that_differ(rank, &settings);
        let Some(job) = two_agents(programs.path().join("accord"), &driver, 1, &[]) else { return };
        let finished = job.arg("--").arg(program("d2d_queues")).run().unwrap();
        let what = format!("rank {rank}, {threads} threads: {}", finished.report());
        println!("{what}");
        assert!(!finished.timed_out && finished.left_behind.is_empty(), "{what}");
        assert!(!finished.stderr.contains("panicked") && !finished.stderr.contains("has died"), "{what}");
        if finished.code() == 0 {
            worked += 1;
        } else {
            // MPIs have threads of their own, so an agent's progress depends on the MPI.
            let names_threads = finished.stderr.contains("Resource temporarily unavailable");
            assert!(finished.stderr.contains("[acc_error_") || names_threads, "{what}");
            reported += usize::from(names_threads);
            // An agent reports why a program could not be connected to another node.
            of_gateway += usize::from(finished.stderr.contains("the gateway has no way for a process"));
        }
    }
    assert!(!is_long() || worked > 0 && reported > 1 && of_gateway > 0, "{worked} {reported} {of_gateway}");
}

/// The GPUs' driver assigns each address to one of them only. The other devices are elsewhere, also after a restart,
/// and where it puts one node's device another node's may be, or have been.
#[test]
fn programs_that_share_gpus_copy_on_many_queues_and_start_devices_again() {
    let driver = driver();
    let Some(job) = two_agents(tool(Tool::Accord).unwrap(), &driver, 2, &[]) else { return };
    let program = program("d2d_queues");
    let programs = pick(2, 4);
    let all = format!("for one in $(seq {programs}); do {} & done; wait", program.display());
    let finished = job.arg("--").arg("sh").arg("-c").arg(all).run().unwrap();
    assert_eq!(finished.code(), 0, "{}", finished.report());
    assert_eq!(finished.stdout.matches("PASS").count(), programs, "{}", finished.report());
    assert!(finished.left_behind.is_empty(), "{}", finished.report());
}

/// Programs with random operations on shared GPUs, including shutdowns in the midst of copies, compared with a model.
#[test]
fn random_work_on_gpus_of_a_job() {
    let driver = driver();
    compile_support("cluster_kernels", driver.path()).unwrap();
    let program = program_of("cluster", "random_work");
    // Streams overtake each other with the last seeds.
    for (uneven, ones, steps) in cases(&[("0", pick("1 2", "1 2 3"), "400"), ("20000", "4 5", "200")], 1) {
        let Some(job) = two_agents(tool(Tool::Accord).unwrap(), &driver, 2, &[]) else { return };
        let several = "for one in $1; do for seed in 1 2 3 4 5; do \"$0\" $one$seed $2; done & done; wait";
        let job =
            job.env("FAKE_CUDA_KERNELS", driver.path().join("cluster_kernels.so")).env("FAKE_CUDA_UNEVEN", uneven);
        let finished = job.args(["--", "sh", "-c", several]).arg(&program).args([ones, steps]).run().unwrap();
        let runs = ones.split(' ').count() * 5;
        assert_eq!(finished.stdout.matches("PASS").count(), runs, "{}", finished.report());
        assert!(finished.code() == 0 && finished.left_behind.is_empty(), "{}", finished.report());
    }
}

/// Copies of one queue are in flight at once where that has no visible effect.
#[test]
fn rows_of_copies_come_in_their_order() {
    let driver = driver();
    let Some(job) = job(&driver, &[]) else { return };
    let finished = job.arg("--").arg(program("d2d_rows")).run().unwrap();
    assert_eq!(finished.code(), 0, "{}", finished.report());
    assert!(finished.stdout.contains("PASS") && finished.left_behind.is_empty(), "{}", finished.report());
}

#[test]
fn explain_and_doctor_report_gpu_aware_mpi() {
    let way = |reported: &Value| {
        let ways = reported["ways"].as_array().unwrap();
        ways.iter().find(|way| way["way"] == "device-mpi").unwrap().clone()
    };
    let of_much = "explain d2d 0 1 64M --wait 2m";
    let questions = [of_much, "explain d2d 0 1 4K --wait 2m", "doctor --wait 2m"];
    let Some(answers) = ask(&[], &questions) else { return };
    let [reported, of_little, seen] = &answers[..] else { panic!("{answers:?}") };
    assert_eq!(
        (&way(reported)["possible"], &reported["taken"]["way"]),
        (&json!(true), &json!("device-mpi")),
        "{reported:#}"
    );
    assert!(way(of_little)["why_not"].as_str().unwrap().contains("by the host's memory"), "{of_little:#}");
    assert_eq!(of_little["taken"]["way"], "lane", "{of_little:#}");
    let reported = &ask(&[("ACCORD_MPI_GPUS", "off")], &[of_much]).unwrap()[0];
    assert!(way(reported)["why_not"].as_str().unwrap().contains("does not get GPUs' memory"), "{reported:#}");
    assert_eq!(reported["taken"]["way"], "lane", "{reported:#}");

    let of_mpi = |items: &Value| -> Vec<Value> {
        let items = items.as_array().unwrap().iter();
        items
            .filter(|item| item["what"].as_str().unwrap().starts_with("MPI with GPUs' memory on node"))
            .cloned()
            .collect()
    };
    let seen = of_mpi(seen);
    assert_eq!(seen.len(), 2);
    assert!(seen.iter().all(|item| item["value"] == "copies from and to it" && item["status"] == "ok"), "{seen:?}");
}
