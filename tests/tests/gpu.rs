//! Programs with code for GPUs: on the driver that the tests bring along, and where there is none.

mod driver;

use accord_tests::{Job, Language, Optimize, Program, Result, Tool, Variant, compile, libacc, repository_file, tool};
use driver::driver;
use std::path::{Path, PathBuf};

const FOR_GPUS: Variant = Variant { optimize: Optimize::Yes, offload: true, linked: false };

fn program() -> Result<PathBuf> {
    let program = Program::read(repository_file("tests/programs/gpu/region.c"), Language::C)?;
    Ok(compile(&program, FOR_GPUS)?.program)
}

fn job(program: &Path, driver: &Path) -> Result<Job> {
    Ok(Job::new(program).env("LD_PRELOAD", libacc()?).env("LD_LIBRARY_PATH", driver).env("ACCORD_CACHE", "off"))
}

#[test]
fn a_program_runs_on_all_gpus_of_the_machine() {
    let (program, driver) = (program().unwrap(), driver());
    let finished = job(&program, driver.path()).unwrap().run().unwrap().success().unwrap();
    assert!(finished.stdout.contains("PASS"), "{}", finished.report());
}

#[test]
fn an_error_of_the_driver_is_told_with_its_number() {
    let (program, driver) = (program().unwrap(), driver());
    let finished = job(&program, driver.path()).unwrap().env("FAKE_CUDA_MEMORY", "1048576").run().unwrap();
    assert_eq!(finished.code(), 1, "{}", finished.report());
    assert!(finished.stderr.contains("acc_error_out_of_memory"), "{}", finished.report());
}

#[test]
fn without_a_gpu_there_is_a_cpu_device_and_the_reason_is_told_on_request() {
    let (program, driver) = (program().unwrap(), driver());
    let cases = [
        (Some(("FAKE_CUDA_DEVICES", "0")), "shows no device"),
        (Some(("FAKE_CUDA_VERSION", "11020")), "11.4 is the oldest"),
        (None, "no NVIDIA driver"),
    ];
    for (setting, reason) in cases {
        if setting.is_none() && Path::new("/usr/lib/x86_64-linux-gnu/libcuda.so.1").exists() {
            println!("skipped: this machine has a driver");
            continue;
        }
        let folder = if setting.is_some() { driver.path() } else { Path::new("/nonexistent") };
        let mut job = job(&program, folder).unwrap().env("ACCORD_DEBUG", "1");
        if let Some((name, value)) = setting {
            job = job.env(name, value);
        }
        // It insists on a GPU.
        let finished = job.run().unwrap();
        assert_eq!(finished.code(), 1, "{}", finished.report());
        assert!(finished.stderr.contains(reason), "{}", finished.report());
    }
}

/// A run on the hosts of a local cluster that have this machine's GPUs, without coordinator and agents.
fn gpus_of_the_program(options: &[&str], script: &str, visible: Option<&str>) -> Result<accord_tests::Finished> {
    let driver = driver();
    let mut job = Job::new(tool(Tool::Accord)?)
        .args(["run", "--bare", "--loopback", "--local-cluster"])
        .args(options.iter().copied())
        .args(["--", "/bin/sh", "-c", script])
        .env("LD_LIBRARY_PATH", driver.path())
        .env("FAKE_CUDA_DEVICES", "5");
    if let Some(visible) = visible {
        job = job.env("CUDA_VISIBLE_DEVICES", visible);
    }
    job.run()
}

#[test]
fn hosts_of_a_local_cluster_have_their_shares_of_the_gpus() {
    let seen = |options: &[&str], visible| {
        let finished = gpus_of_the_program(options, "echo $CUDA_VISIBLE_DEVICES", visible).unwrap();
        finished.success().unwrap().stdout.trim().to_owned()
    };
    assert_eq!(seen(&["2x2gpu"], None), "0,1");
    assert_eq!(seen(&["1x2gpu"], Some("4, 2,0")), "4,2");
    assert_eq!(seen(&["2x2gpu", "--remote-only"], None), "");
    assert_eq!(seen(&["2x2"], None), "", "hosts with CPU devices have no GPUs");
}

#[test]
fn too_few_gpus_for_a_local_cluster_are_counted() {
    for (size, visible, said) in [("3x2gpu", None, "takes 6 GPUs, and this machine has 5"), ("2x1gpu", Some("1"), "has 1 GPU with CUDA_VISIBLE_DEVICES=1")] {
        let finished = gpus_of_the_program(&[size], "true", visible).unwrap();
        assert_eq!(finished.code(), 125, "{}", finished.report());
        assert!(finished.stderr.contains(said), "{}", finished.report());
    }
}

#[test]
fn every_rank_has_its_hosts_gpus() {
    if std::process::Command::new("mpirun").arg("--version").output().is_err() {
        println!("skipped: no mpirun");
        return;
    }
    let finished = gpus_of_the_program(&["2x2gpu", "-np", "2"], "echo $ACCORD_NODE $CUDA_VISIBLE_DEVICES", None);
    let finished = finished.unwrap().success().unwrap();
    let mut lines: Vec<&str> = finished.stdout.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["h1 0,1", "h2 2,3"], "{}", finished.report());
}
