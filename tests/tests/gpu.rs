//! Programs with code for GPUs: on the driver that the tests bring along, and where there is none.

use accord_tests::{Job, Language, Optimize, Program, Result, Variant, compile, libacc, repository_file};
use std::path::{Path, PathBuf};

const FOR_GPUS: Variant = Variant { optimize: Optimize::Yes, offload: true, linked: false };

fn program() -> Result<PathBuf> {
    let program = Program::read(repository_file("tests/programs/gpu/region.c"), Language::C)?;
    Ok(compile(&program, FOR_GPUS)?.program)
}

/// A folder where the driver's name leads to the fake.
fn driver() -> tempfile::TempDir {
    // Keeps cargo building it.
    let _ = accord_fake_cuda::fake_cuda_links as extern "C" fn() -> u32;
    let folder = tempfile::tempdir().expect("a temporary folder");
    let fake = std::env::current_exe().expect("this binary").with_file_name("libaccord_fake_cuda.so");
    std::os::unix::fs::symlink(fake, folder.path().join("libcuda.so.1")).expect("a link");
    folder
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
