//! Programs with code for GPUs: with the tests' own driver, and without a driver.

mod driver;

use accord_test_tier::cases;
use accord_tests::{
    Finished, Job, Language, Optimize, Program, Result, Tool, Variant, compile, compile_support, libacc,
    repository_file, tool,
};
use driver::driver;
use std::path::{Path, PathBuf};

const VISIBLE: &str = "CUDA_VISIBLE_DEVICES";
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

/// The program's own calls of the driver rely on a current context.
#[test]
fn the_primary_context_of_a_threads_device_is_current_after_each_call() {
    let program = Program::read(repository_file("tests/programs/gpu/current_context.c"), Language::C).unwrap();
    let (program, driver) = (compile(&program, FOR_GPUS).unwrap().program, driver());
    for devices in ["1", "2"] {
        let job = job(&program, driver.path()).unwrap().env("FAKE_CUDA_DEVICES", devices);
        let finished = job.run().unwrap().success().unwrap();
        assert!(finished.stdout.contains("PASS"), "{}", finished.report());
    }
}

#[test]
fn a_program_waits_for_a_slow_gpu() {
    let (program, driver) = (program().unwrap(), driver());
    let finished =
        job(&program, driver.path()).unwrap().env("FAKE_CUDA_SLOW", "2000").run().unwrap().success().unwrap();
    assert!(finished.stdout.contains("PASS"), "{}", finished.report());
}

/// A thread that waits for a copy helps with all copies; when it stops, another thread continues.
#[test]
fn copies_that_are_only_asked_about_come_to_their_ends() {
    let program = Program::read(repository_file("tests/programs/c/async_test_of_large_copies.c"), Language::C).unwrap();
    let (program, driver) = (compile(&program, FOR_GPUS).unwrap().program, driver());
    let preload = compile_support("no_threads", driver.path()).unwrap();
    let libacc = libacc().unwrap();
    // Without threads, the calling thread does the work.
    for preloaded in [libacc.display().to_string(), format!("{}:{}", preload.display(), libacc.display())] {
        let job = job(&program, driver.path()).unwrap().env("ACCORD_PAGE_LOCK", "off").env("LD_PRELOAD", preloaded);
        let finished = job.run().unwrap().success().unwrap();
        assert!(finished.stdout.contains("PASS"), "{}", finished.report());
    }
}

#[test]
fn an_error_of_the_driver_is_told_with_its_number() {
    let (program, driver) = (program().unwrap(), driver());
    let finished = job(&program, driver.path()).unwrap().env("FAKE_CUDA_MEMORY", "1048576").run().unwrap();
    assert_eq!(finished.code(), 1, "{}", finished.report());
    assert!(finished.stderr.contains("acc_error_out_of_memory"), "{}", finished.report());
}

/// With `ACCORD_UNMAPPED=map`, a GPU that can access unmapped memory uses it directly; other devices get a copy.
#[test]
fn memory_that_nothing_maps_is_used_as_it_is_where_that_can_be() {
    let program = Program::read(repository_file("tests/programs/gpu/unmapped.c"), Language::C).unwrap();
    let (program, driver) = (compile(&program, FOR_GPUS).unwrap().program, driver());
    let kernels = compile_support("cluster_kernels", driver.path()).unwrap();
    for (reaches, printed) in [("0", "round 2: a copy"), ("1", "round 2: as it is")] {
        let job =
            job(&program, driver.path()).unwrap().env("ACCORD_UNMAPPED", "map").env("FAKE_CUDA_KERNELS", &kernels);
        let finished = job.env("FAKE_CUDA_PAGEABLE", reaches).run().unwrap().success().unwrap();
        assert!(finished.stdout.contains("PASS") && finished.stdout.contains(printed), "{}", finished.report());
        assert_eq!(finished.stderr.contains("is copied in and out"), reaches == "0", "{}", finished.report());
    }
}

#[test]
fn code_that_is_registered_after_an_earlier_constructors_call_runs() {
    let program = Program::read(repository_file("tests/programs/gpu/early_constructor.c"), Language::C).unwrap();
    let (compiled, driver) = (compile(&program, FOR_GPUS).unwrap(), driver());
    let kernels = compile_support("cluster_kernels", driver.path()).unwrap();
    let job = job(&compiled.program, driver.path()).unwrap().args(compiled.plugin).env("FAKE_CUDA_KERNELS", &kernels);
    let finished = job.run().unwrap().success().unwrap();
    assert!(finished.stdout.contains("PASS"), "{}", finished.report());
}

/// GCC keeps 16 bits of a constant: the number in the code is launched, and nothing is guessed.
#[test]
fn an_unknown_number_of_gangs_is_refused() {
    let program = Program::read(repository_file("tests/programs/gpu/lost_gangs.c"), Language::C).unwrap();
    let (program, driver) = (compile(&program, FOR_GPUS).unwrap().program, driver());
    let finished = job(&program, driver.path()).unwrap().run().unwrap();
    assert_eq!(finished.code(), 1, "{}", finished.report());
    assert!(finished.stdout.contains("all gangs: 100000"), "{}", finished.report());
    for part in ["lost_gangs.c:24", "constant number of gangs above 65535", "write a variable in num_gangs"] {
        assert!(finished.stderr.contains(part), "{part}: {}", finished.report());
    }
}

#[test]
fn times_mark_regions_that_run_on_one_thread() {
    let program = Program::read(repository_file("tests/programs/gpu/one_thread.c"), Language::C).unwrap();
    let (program, driver) = (compile(&program, FOR_GPUS).unwrap().program, driver());
    let timed = |to| job(&program, driver.path()).unwrap().env("ACCORD_TIME", to).run().unwrap().success().unwrap();
    let text = timed("full").stderr;
    let mark = "runs on one thread: GCC found no independent loop";
    assert_eq!(text.matches(mark).count(), 1, "{text}");
    let lines: Vec<&str> = text.lines().collect();
    let marked = lines.iter().position(|line| line.contains(mark)).unwrap();
    assert!(lines[marked - 1].contains("2 x  alone._omp_fn.0"), "{text}");
    let json = timed("json").stderr;
    assert_eq!(
        (json.matches("\"one_thread\":true").count(), json.matches("\"one_thread\":false").count()),
        (1, 1),
        "{json}"
    );
    // Devices with one thread per region anyway are not reported.
    let cpu = job(&program, driver.path()).unwrap().env("ACCORD_TIME", "full").env("ACC_DEVICE_TYPE", "cpu");
    let text = cpu.run().unwrap().success().unwrap().stderr;
    assert!(text.contains("alone._omp_fn.0") && !text.contains("one thread"), "{text}");
}

/// The mirror of a GPU has memory at the GPU's addresses, and runs the host's code of the regions.
#[test]
fn regions_of_gpus_are_compared_with_a_cpu_device() {
    let program = Program::read(repository_file("tests/programs/gpu/compare.c"), Language::C).unwrap();
    let (program, driver) = (compile(&program, FOR_GPUS).unwrap().program, driver());
    let job = job(&program, driver.path()).unwrap().env("ACCORD_COMPARE", "on");
    let finished = job.run().unwrap().success().unwrap();
    let element = "d[1234] (compare.c:42, main) is -1.0, on the CPU device 1234.0; 1 of 3000 elements differs, by up to 1.0e0 of the value";
    let summary = "accord: compare: compared 3 runs of 2 regions with a CPU device: 1 run differs";
    for text in [element, summary] {
        assert!(finished.stderr.contains(text), "{text}: {}", finished.report());
    }
}

/// Events carry the driver's device, context and stream.
#[test]
fn tools_get_the_drivers_handles() {
    let program = Program::read(repository_file("tests/programs/gpu/prof_handles.c"), Language::C).unwrap();
    let (program, driver) = (compile(&program, FOR_GPUS).unwrap().program, driver());
    let finished = job(&program, driver.path()).unwrap().run().unwrap().success().unwrap();
    assert!(finished.stdout.contains("PASS"), "{}", finished.report());
}

/// The driver makes few copies, in order, of an array that is page-locked and of one that is not.
#[test]
fn asynchronous_updates_of_rows_go_together() {
    let program = Program::read(repository_file("tests/programs/gpu/rows.c"), Language::C).unwrap();
    let (program, driver) = (compile(&program, FOR_GPUS).unwrap().program, driver());
    for page_lock in ["on", "off"] {
        // The program checks the driver's counters.
        let job = job(&program, driver.path()).unwrap().env("ACCORD_PAGE_LOCK", page_lock).env("ACCORD_ROWS", "on");
        let finished = job.run().unwrap().success().unwrap();
        assert!(finished.stdout.contains("PASS"), "{page_lock}: {}", finished.report());
    }
}

/// Rows are not combined where the program itself may wait for the driver and read the memory.
#[test]
fn rows_are_not_held_back_from_a_program_that_uses_the_driver_too() {
    let program = Program::read(repository_file("tests/programs/gpu/rows_in_company.c"), Language::C).unwrap();
    let (program, driver) = (compile(&program, FOR_GPUS).unwrap().program, driver());
    let run = |rows| job(&program, driver.path()).unwrap().env("ACCORD_ROWS", rows).run().unwrap();
    for rows in ["auto", "off"] {
        let finished = run(rows).success().unwrap();
        assert!(finished.stdout.contains("PASS"), "{rows}: {}", finished.report());
    }
    let finished = run("on");
    assert!(finished.stdout.contains("FAIL"), "it would see it: {}", finished.report());
}

#[test]
fn arrays_are_page_locked_while_they_are_present_and_copied_often() {
    let program = Program::read(repository_file("tests/programs/gpu/page_locks.c"), Language::C).unwrap();
    let (program, driver) = (compile(&program, FOR_GPUS).unwrap().program, driver());
    for setting in ["on", "off"] {
        let job = job(&program, driver.path()).unwrap().env("ACCORD_PAGE_LOCK", setting).arg(setting);
        let finished = job.run().unwrap().success().unwrap();
        assert!(finished.stdout.contains("PASS"), "{setting}: {}", finished.report());
    }
}

/// The driver's own allocations work like memory at chosen addresses. Programs with MPI use the former, others the
/// latter.
#[test]
fn memory_may_lie_where_the_driver_likes() {
    let program = Program::read(repository_file("tests/programs/gpu/allocations.c"), Language::C).unwrap();
    let (program, driver) = (compile(&program, FOR_GPUS).unwrap().program, driver());
    for (setting, is) in cases(&[("allocate", "allocate"), ("map", "map"), ("auto", "map")], 1) {
        let job = job(&program, driver.path()).unwrap().env("ACCORD_GPU_MEMORY", setting).arg(is);
        let finished = job.run().unwrap().success().unwrap();
        assert!(finished.stdout.contains("PASS"), "{setting}: {}", finished.report());
    }
    let mpi = compile_support("with_mpi", driver.path()).unwrap();
    let preloaded = format!("{}:{}", mpi.display(), libacc().unwrap().display());
    for (setting, is) in cases(&[("auto", "allocate"), ("map", "map")], 1) {
        let job = job(&program, driver.path()).unwrap().env("LD_PRELOAD", &preloaded);
        let finished = job.env("ACCORD_GPU_MEMORY", setting).arg(is).run().unwrap().success().unwrap();
        assert!(finished.stdout.contains("PASS"), "with MPI, {setting}: {}", finished.report());
    }
    let finished = job(&program, driver.path()).unwrap().env("ACCORD_GPU_MEMORY", "yes").arg("map").run().unwrap();
    assert!(finished.stderr.contains("ACCORD_GPU_MEMORY is \"yes\""), "{}", finished.report());
}

/// If a registered array gets other pages, copies see them.
#[test]
fn memory_may_change_on_gpus_too() {
    let program = Program::read(repository_file("tests/programs/c/memory_that_changes.c"), Language::C).unwrap();
    let (program, driver) = (compile(&program, FOR_GPUS).unwrap().program, driver());
    let finished = job(&program, driver.path()).unwrap().run().unwrap().success().unwrap();
    assert!(finished.stdout.contains("PASS"), "{}", finished.report());
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
        // The program requires a GPU.
        let finished = job.run().unwrap();
        assert_eq!(finished.code(), 1, "{}", finished.report());
        assert!(finished.stderr.contains(reason), "{}", finished.report());
    }
}

/// Runs a script on the hosts of a local cluster that has this machine's GPUs, without coordinator and agents.
fn gpus_of_the_program(options: &[&str], script: &str, setting: Option<(&str, &str)>) -> Result<Finished> {
    let driver = driver();
    let mut job = Job::new(tool(Tool::Accord)?)
        .args(["run", "--bare", "--loopback", "--local-cluster"])
        .args(options.iter().copied())
        .args(["--", "/bin/sh", "-c", script])
        .env("LD_LIBRARY_PATH", driver.path())
        .env("FAKE_CUDA_DEVICES", "5");
    if let Some((name, value)) = setting {
        job = job.env(name, value);
    }
    job.run()
}

#[test]
fn hosts_of_a_local_cluster_have_their_shares_of_the_gpus() {
    let seen = |options: &[&str], visible: Option<&str>| {
        let visible = visible.map(|visible| (VISIBLE, visible));
        let finished = gpus_of_the_program(options, "echo $CUDA_VISIBLE_DEVICES", visible).unwrap();
        finished.success().unwrap().stdout.trim().to_owned()
    };
    assert_eq!(seen(&["2x2gpu"], None), "0,1");
    assert_eq!(seen(&["1x2gpu"], Some("4, 2,0")), "4,2");
    assert_eq!(seen(&["2x2gpu", "--remote-only"], None), "");
    assert_eq!(seen(&["2x2"], None), "", "hosts with CPU devices have no GPUs");
}

#[test]
fn a_local_cluster_that_cannot_have_its_gpus_does_not_start() {
    let cases = [
        ("3x2gpu", None, "takes 6 GPUs, and this machine has 5"),
        ("2x1gpu", Some((VISIBLE, "1")), "has 1 GPU with CUDA_VISIBLE_DEVICES=1"),
        ("1x1gpu", Some(("FAKE_CUDA_INIT", "crash")), "nvidia-smi says): SIGABRT"),
    ];
    for (size, setting, printed) in cases {
        let finished = gpus_of_the_program(&[size], "true", setting).unwrap();
        assert_eq!(finished.code(), 125, "{}", finished.report());
        assert!(finished.stderr.contains(printed), "{}", finished.report());
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
