//! Devices that report faults: quarantined, displayed with the reason, tested, and released.
#![forbid(unsafe_code)]

mod driver;

use accord_tests::{
    Cluster, Finished, Job, Language, Optimize, Program, Tool, Variant, compile, compile_support, repository_file,
    test_program, tool,
};
use driver::driver;
use nix::unistd::geteuid;
use serde_json::Value;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A user other than that of the tests.
const OTHER: u32 = 12_345;

/// Two hosts, each with a GPU of the tests' own driver.
struct Gpus {
    cluster: Cluster,
    driver: TempDir,
    /// A program that adds on all visible GPUs.
    program: PathBuf,
}

impl Gpus {
    fn new() -> Self {
        let driver = driver();
        compile_support("cluster_kernels", driver.path()).expect("kernels");
        let variant = Variant { optimize: Optimize::Yes, offload: true, linked: false };
        let program = Program::read(repository_file("tests/programs/gpu/cluster.c"), Language::C).expect("a program");
        let program = compile(&program, variant).expect("gcc").program;
        let cluster = Cluster::builder()
            .hosts(2)
            .devices(0)
            .gpus(&[1, 1])
            .env("LD_LIBRARY_PATH", driver.path())
            .env("FAKE_CUDA_KERNELS", driver.path().join("cluster_kernels.so"))
            .env("NVIDIA_FAKE_CUDA_FAULTS", driver.path())
            .env("ACCORD_CACHE", "off");
        Self { cluster: cluster.start().unwrap(), driver, program }
    }

    /// Returns the file with the fault of a host's GPU.
    fn fault(&self, host: usize) -> PathBuf {
        self.driver.path().join(format!("gpu-{host}"))
    }

    fn run(&self, arguments: &[&str]) -> Finished {
        let job = self.cluster.job(0, &self.program).expect("libacc");
        job.args(arguments.iter().copied()).run().expect("it runs")
    }
}

/// Returns the quarantine of a node's first device, from `accord info`.
fn quarantine<'a>(info: &'a Value, node: &str) -> &'a Value {
    let mut devices = info["devices"].as_array().into_iter().flatten();
    devices.find(|row| row["node"] == node).map_or(&Value::Null, |row| &row["quarantine"])
}

fn await_reason(cluster: &Cluster, node: &str, reason: &str) {
    let seen = |info: &Value| quarantine(info, node)["reason"].as_str().is_some_and(|why| why.contains(reason));
    cluster.await_info(&format!("the quarantine of {node}"), seen).unwrap();
}

/// Runs `accord` with the certificates of an administrator.
fn accord(cluster: &Cluster, arguments: &[&str]) -> Finished {
    let job = Job::new(tool(Tool::Accord).unwrap()).args(arguments.iter().copied());
    job.env("ACCORD_COORDINATOR", cluster.address()).env("ACCORD_TLS", cluster.tls_of("admin")).run().unwrap()
}

#[test]
fn a_gpu_with_a_fault_is_seen_in_quarantine_and_an_administrator_takes_it_out() {
    let gpus = Gpus::new();
    let cluster = &gpus.cluster;
    std::fs::write(gpus.fault(1), "214").unwrap();
    let failed = gpus.run(&[]);
    assert!(failed.code() != 0 && failed.stderr.contains("(214)"), "{}", failed.report());
    await_reason(cluster, "h1", "an uncorrectable ECC error (CUDA error 214)");
    let info = accord(cluster, &["info"]);
    assert!(info.stdout.contains("h1/0 is in quarantine for "), "{}", info.report());
    let top = accord(cluster, &["top", "--once"]);
    assert!(top.stdout.contains("in quarantine for"), "{}", top.report());
    // The other GPU is present, and works.
    let looked = gpus.run(&["look"]).success().unwrap();
    assert!(looked.stdout.starts_with("1 nvidia"), "{}", looked.report());
    gpus.run(&[]).success().unwrap();
    std::fs::remove_file(gpus.fault(1)).unwrap();
    let released = accord(cluster, &["quarantine", "--release", "h1/0"]);
    assert_eq!(released.stdout, "h1/0 is out of quarantine: it is given to jobs again\n", "{}", released.report());
    let again = accord(cluster, &["quarantine", "--release", "h1/0"]);
    assert!(again.code() == 125 && again.stderr.contains("not in quarantine"), "{}", again.report());
    cluster.await_devices(2).unwrap();
    let passed = gpus.run(&[]).success().unwrap();
    assert!(passed.stdout.starts_with("2 nvidia"), "{}", passed.report());
    // Manually, with a reason.
    let by_hand = accord(cluster, &["quarantine", "h1/0", "--reason", "a loud fan"]);
    assert!(by_hand.stdout.contains("h1/0 is in quarantine: it is given to no job"), "{}", by_hand.report());
    await_reason(cluster, "h1", "a loud fan");
    assert_eq!(quarantine(&cluster.info().unwrap(), "h1")["by_administrator"], true);
}

#[test]
fn a_gpu_of_which_a_program_says_that_it_is_faulty_is_tested_and_comes_back_by_a_test() {
    let gpus = Gpus::new();
    std::fs::write(gpus.fault(0), "214").unwrap();
    let failed = gpus.run(&[]);
    assert!(failed.code() != 0 && failed.stderr.contains("(214)"), "{}", failed.report());
    await_reason(&gpus.cluster, "h0", "a test shows an uncorrectable ECC error (CUDA error 214)");
    std::fs::remove_file(gpus.fault(0)).unwrap();
    let is_back = |info: &Value| quarantine(info, "h0").is_null();
    // The next test is half a minute later.
    let early = gpus.cluster.await_info("a test", is_back);
    early.or_else(|_| gpus.cluster.await_info("a test", is_back)).unwrap();
    gpus.run(&[]).success().unwrap();
    assert!(gpus.cluster.messages().contains("a test by its agent takes device 0 of node h0 out of quarantine"));
}

#[test]
fn the_process_that_tests_a_gpu_says_what_it_shows() {
    let driver = driver();
    let test = |fault: Option<&str>, uuid: &str| {
        let file = driver.path().join("gpu-0");
        match fault {
            Some(code) => std::fs::write(file, code).unwrap(),
            None => drop(std::fs::remove_file(file)),
        }
        let job = Job::new(tool(Tool::NodeAgent).unwrap()).args(["test-device", uuid]);
        let job = job.env("LD_LIBRARY_PATH", driver.path()).env("FAKE_CUDA_FAULTS", driver.path());
        job.run().unwrap().success().unwrap().stdout
    };
    let uuid = "GPU-00000000-0000-0000-0000-000000000001";
    assert_eq!(test(None, uuid), "works \n");
    assert_eq!(test(Some("214"), uuid), "faulty a test shows an uncorrectable ECC error (CUDA error 214)\n");
    assert_eq!(test(Some("700"), uuid), "faulty a test shows an illegal address (CUDA error 700)\n");
    assert_eq!(test(None, "GPU-none"), "faulty a test shows the driver does not have it any more\n");
    let unknown = test(Some("999"), uuid);
    assert!(unknown.starts_with("unknown ") && unknown.contains("(999)"), "{unknown}");
    let held = test(Some("46"), uuid);
    assert!(held.starts_with("unknown ") && held.contains("(46)"), "{held}");
}

/// Runs a program whose region crashes on a device of another node, so that the agent reports it.
fn crashes(cluster: &Cluster, user_name: &str, program: &Path) {
    let job = cluster.job(0, program).unwrap().env("ACCORD_TLS", cluster.tls_of(user_name));
    let finished = job.env("ACCORD_DEVICES", "1:cpu on=h1").run().unwrap();
    assert!(finished.code() != 0 && finished.stderr.contains("SIGSEGV"), "{}", finished.report());
}

#[test]
fn a_region_s_crash_counts_once_two_users_programs_have_shown_it() {
    if !geteuid().is_root() {
        println!("skipped: only root can be several users");
        return;
    }
    let cluster = Cluster::builder().hosts(2).devices(1).memory("64M").other_tenants(&[OTHER]);
    let cluster = cluster.users("*=60003-60012").start().unwrap();
    let program = test_program("c/trap_34_region_crashes.c").unwrap();
    for _ in 0..2 {
        crashes(&cluster, "program", &program);
    }
    // All reports of a session precede its end.
    cluster.await_info("the ends of both sessions", |info| info["sessions"] == Value::Array(Vec::new())).unwrap();
    assert!(!cluster.messages().contains("quarantine"), "{}", cluster.messages());
    crashes(&cluster, &format!("program-{OTHER}"), &program);
    let why = "device 0 of node h1 is in quarantine: programs of two users have shown an illegal address (signal 11)";
    cluster.await_messages(|text| text.contains(why)).unwrap();
    // The device works: it is tested at once.
    let back = "a test by its agent takes device 0 of node h1 out of quarantine";
    cluster.await_messages(|text| text.contains(back)).unwrap();
    cluster.await_info("the device", |info| quarantine(info, "h1").is_null()).unwrap();
}
