//! GPUs of a cluster, with the tests' own driver: their owners, their visibility for programs, and regions and copies
//! on them.

mod driver;

use accord_test_tier::{cases, is_long};
use accord_tests::{
    Cluster, ClusterBuilder, Finished, Job, Language, Optimize, Program, Tool, Variant, compile, compile_support,
    libacc, repository_file, tool,
};
use driver::driver;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// An argument of the program: list the devices only, instead of running everything.
const POLL_INTERVAL: &str = "look";

/// The common parts of a cluster's processes.
struct Setup {
    driver: TempDir,
    program: PathBuf,
}

impl Setup {
    fn new() -> Self {
        let driver = driver();
        compile_support("cluster_kernels", driver.path()).expect("kernels");
        Self { driver, program: compiled("tests/programs/gpu/cluster.c", true) }
    }

    fn cluster(&self, gpus: &[u32]) -> ClusterBuilder {
        Cluster::builder()
            .hosts(u32::try_from(gpus.len()).expect("few hosts"))
            .devices(0)
            .gpus(gpus)
            .env("LD_LIBRARY_PATH", self.driver.path())
            .env("FAKE_CUDA_KERNELS", self.driver.path().join("cluster_kernels.so"))
            .env("ACCORD_CACHE", "off")
    }
}

fn compiled(source: &str, offload: bool) -> PathBuf {
    let program = Program::read(repository_file(source), Language::C).expect("a program");
    compile(&program, Variant { optimize: Optimize::Yes, offload, linked: false }).expect("gcc").program
}

fn run(cluster: &Cluster, host: usize, program: &Path, arguments: &[&str], env: &[(&str, &str)]) -> Finished {
    let job = cluster.job(host, program).expect("libacc").args(arguments.iter().copied());
    env.iter().fold(job, |job, (name, value)| job.env(name, *value)).run().expect("it runs")
}

fn passed(finished: Finished) -> Finished {
    let finished = finished.success().expect("exit status 0");
    assert!(finished.stdout.contains("PASS"), "{}", finished.report());
    finished
}

fn devices(info: &Value) -> Vec<&Value> {
    info["devices"].as_array().expect("devices").iter().collect()
}

/// The management library knows of programs outside of Accord.
#[test]
fn top_shows_the_load_of_gpus_by_programs_outside_of_accord() {
    let setup = Setup::new();
    let cluster = setup.cluster(&[1]).env("FAKE_CUDA_LOAD", "37");
    let device = loaded(cluster.env("FAKE_CUDA_LOAD_MEMORY", LOAD_MEMORY.to_string()));
    assert_eq!(device["busy_percent"], 37, "{device:#}");
    assert_eq!((&device["used_by_others"], &device["condition"]), (&true.into(), &"free".into()), "{device:#}");
}

/// The management library reports no utilization of such a GPU, which is not the same as 0.
#[test]
fn the_use_of_a_gpu_in_mig_mode_is_unknown() {
    let setup = Setup::new();
    let cluster = setup.cluster(&[1]).env("FAKE_CUDA_LOAD", "37").env("FAKE_CUDA_MIG", "1");
    let device = loaded(cluster.env("FAKE_CUDA_LOAD_MEMORY", LOAD_MEMORY.to_string()));
    assert_eq!(device["busy_percent"], Value::Null, "{device:#}");
    assert_eq!(device["condition"], "free", "{device:#}");
}

/// Bytes that programs outside of Accord use.
const LOAD_MEMORY: u64 = 700 << 20;

/// Starts a cluster and returns its device as soon as the load of the device's memory is known.
fn loaded(cluster: ClusterBuilder) -> Value {
    let cluster = cluster.start().unwrap();
    let begun = Instant::now();
    loop {
        let top = Job::new(tool(Tool::Accord).unwrap()).args(["top", "--json"]);
        let top = top.env("ACCORD_COORDINATOR", cluster.address()).env("ACCORD_TLS", cluster.tls_of("program"));
        let tables: Value = serde_json::from_str(&top.run().unwrap().success().unwrap().stdout).unwrap();
        let device = tables["devices"][0].clone();
        if device["memory_used"] == LOAD_MEMORY {
            return device;
        }
        assert!(begun.elapsed() < Duration::from_secs(30), "{device:#}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn everybody_sees_the_gpus_of_all_nodes() {
    let setup = Setup::new();
    let cluster = setup.cluster(&[1, 2]).start().unwrap();
    let info = cluster.info().unwrap();
    let rows: Vec<_> = devices(&info)
        .iter()
        .map(|row| (row["num"].as_u64(), row["type"].as_str(), row["node"].as_str(), row["ordinal"].as_u64()))
        .collect();
    let nvidia = Some("acc_device_nvidia");
    let (h0, h1) = (Some("h0"), Some("h1"));
    assert_eq!(rows, [(Some(0), nvidia, h0, Some(0)), (Some(1), nvidia, h1, Some(0)), (Some(2), nvidia, h1, Some(1))]);
    for row in devices(&info) {
        assert_eq!((row["name"].as_str(), row["driver"].as_str()), (Some("Fake GPU"), Some("13.0")), "{row}");
        assert_eq!((row["memory"].as_u64(), row["multiprocessors"].as_u64()), (Some(1 << 30), Some(4)), "{row}");
        let uuid = format!("GPU-00000000-0000-000{}-0000-00000000000{}", row["node_id"], row["ordinal"]);
        assert_eq!(row["uuid"].as_str(), Some(&*uuid), "{row}");
    }
    for host in [0, 1] {
        let finished = passed(run(&cluster, host, &setup.program, &[POLL_INTERVAL], &[]));
        assert!(finished.stdout.contains("3 nvidia, 0 cpu, default nvidia"), "{}", finished.report());
        for num in 0..3 {
            let line = format!("nvidia {num}: NVIDIA Fake GPU, CUDA 13.0, 1073741824 bytes, some free");
            assert!(finished.stdout.contains(&line), "{}", finished.report());
        }
    }
}

#[test]
fn regions_and_copies_run_on_gpus_of_all_nodes() {
    let setup = Setup::new();
    let cluster = setup.cluster(&[1, 2]).start().unwrap();
    for host in [0, 1] {
        passed(run(&cluster, host, &setup.program, &[], &[]));
    }
    // A program on a node without an agent has no device of its own.
    passed(run(&cluster, 0, &setup.program, &[], &[("ACCORD_NODE", "elsewhere"), ("FAKE_CUDA_DEVICES", "0")]));
}

/// Each driver would choose the same addresses for its GPU.
#[test]
fn gpus_of_all_nodes_have_addresses_of_their_own() {
    let setup = Setup::new();
    let program = compiled("tests/programs/c/device_addresses.c", true);
    let cluster = setup.cluster(&[1, 1]).start().unwrap();
    passed(run(&cluster, 0, &program, &[], &[]));
    passed(run(&cluster, 0, &program, &[], &[("ACCORD_NODE", "elsewhere"), ("FAKE_CUDA_DEVICES", "0")]));
    // One process drives both.
    let cluster = setup.cluster(&[2]).start().unwrap();
    passed(run(&cluster, 0, &program, &[], &[]));
}

#[test]
fn a_gpu_whose_context_is_lost_works_again_in_another_executor() {
    let setup = Setup::new();
    let program = compiled("tests/programs/gpu/lost_context.c", true);
    let cluster = setup.cluster(&[0, 1]).start().unwrap();
    passed(run(&cluster, 0, &program, &[], &[]));
    // A new process for the program's own device is impossible.
    let finished = run(&cluster, 1, &program, &[], &[]);
    assert_eq!(finished.code(), 1, "{}", finished.report());
    assert!(finished.stderr.contains("CUDA_ERROR_ILLEGAL_ADDRESS"), "{}", finished.report());
}

#[test]
fn remote_region_output_is_complete_after_the_wait() {
    let setup = Setup::new();
    let program = compiled("tests/programs/gpu/printed.c", true);
    let cluster = setup.cluster(&[0, 1]).start().unwrap();
    let finished = passed(run(&cluster, 0, &program, &[], &[]));
    let expected = "region 0\nwaited 0\nregion 1\nwaited 1\nregion 2\nwaited 2\n";
    assert!(finished.stdout.starts_with(expected), "{}", finished.report());
}

/// GCC keeps 16 bits of a constant number of gangs: tools and times get the number that the executor launches.
#[test]
fn requests_choose_gpus_by_compute_capability() {
    let driver = driver();
    let builder = Cluster::builder().hosts(1).devices(0).gpus(&[1]).env("ACCORD_CACHE", "off");
    let cluster = builder.env("LD_LIBRARY_PATH", driver.path()).start().unwrap();
    assert_eq!(cluster.info().unwrap()["devices"][0]["compute"], "9.0");
    for (request, words) in
        [("1:nvidia:cc=9.0", "would start now, on h0/0"), ("1:nvidia:cc=9.1", "no such devices now")]
    {
        let finished = cluster.accord_as("program").unwrap().args(["what-if", "--devices", request]).run().unwrap();
        assert!(finished.stdout.contains(words), "{}", finished.report());
    }
}

#[test]
fn requests_leave_a_gpus_driver_its_part_of_the_memory() {
    let driver = driver();
    let builder = Cluster::builder().hosts(1).devices(0).gpus(&[1]).env("ACCORD_CACHE", "off");
    let builder = builder.env("LD_LIBRARY_PATH", driver.path()).env("ACCORD_MEASURE", "on");
    // Counted as 96 MiB of 1 GiB.
    let cluster = builder.env("FAKE_CUDA_CONTEXT", "100000000").start().unwrap();
    for (request, words) in [
        ("1:nvidia:928M", "would start now, on h0/0"),
        ("1:nvidia:929M", "no such devices now"),
        ("1:nvidia:whole:928M", "would start now, on h0/0"),
    ] {
        let finished = cluster.accord_as("program").unwrap().args(["what-if", "--devices", request]).run().unwrap();
        assert!(finished.stdout.contains(words), "{}", finished.report());
    }
}

#[test]
fn profiling_reports_all_gangs_of_remote_gpus() {
    let (driver, program) = (driver(), compiled("tests/programs/gpu/lost_gangs.c", true));
    let builder = Cluster::builder().hosts(2).devices(0).gpus(&[0, 1]).env("ACCORD_CACHE", "off");
    let cluster = builder.env("LD_LIBRARY_PATH", driver.path()).start().unwrap();
    let finished = run(&cluster, 0, &program, &[], &[("ACCORD_TIME", "full")]);
    assert_eq!(finished.code(), 1, "{}", finished.report());
    assert!(finished.stdout.contains("all gangs: 100000"), "{}", finished.report());
    let launched = finished.stderr.lines().find(|line| line.contains("shown._omp_fn.0"));
    assert!(launched.is_some_and(|line| line.contains("100000")), "{}", finished.report());
    assert!(finished.stderr.contains("constant number of gangs above 65535"), "{}", finished.report());
}

/// A copy in waits for the bytes of earlier copies out, which leave a GPU's executor when a thread waits for them.
#[test]
fn copies_in_follow_copies_out_of_the_same_memory() {
    let setup = Setup::new();
    let program = compiled("tests/programs/gpu/host_memory_in_turn.c", true);
    let cluster = setup.cluster(&[1, 1]).start().unwrap();
    for num in ["0", "1"] {
        passed(run(&cluster, 0, &program, &[], &[("ACC_DEVICE_NUM", num)]));
    }
}

#[test]
fn gpus_that_are_hidden_from_the_program_are_driven_by_the_agent() {
    let setup = Setup::new();
    let cluster = setup.cluster(&[2]).start().unwrap();
    let debug = ("ACCORD_DEBUG", "1");
    let printed = |finished: Finished| {
        let finished = passed(finished);
        let printed = [0, 1].map(|gpu| finished.stderr.contains(&format!("GPU {gpu} of this node")));
        assert!(finished.stdout.contains("2 nvidia"), "{}", finished.report());
        printed
    };
    let visible = |value| run(&cluster, 0, &setup.program, &[], &[debug, ("CUDA_VISIBLE_DEVICES", value)]);
    assert_eq!(printed(visible("1")), [true, false]);
    assert_eq!(printed(visible("1,0")), [false, false]);
    assert_eq!(printed(visible("")), [true, true]);
    let without_driver = ("LD_LIBRARY_PATH", "/nonexistent");
    assert_eq!(printed(run(&cluster, 0, &setup.program, &[], &[debug, without_driver])), [true, true]);
}

#[test]
fn a_gpu_that_cannot_be_used_leaves_a_gap() {
    let setup = Setup::new();
    // Two GPUs of three, followed by a CPU device.
    let builder = setup.cluster(&[2]).devices(1).env("FAKE_CUDA_PROHIBITED", "1");
    let cluster = builder.env("FAKE_CUDA_DEVICES", "3").start().unwrap();
    let info = cluster.info().unwrap();
    let rows: Vec<_> = devices(&info).iter().map(|row| (row["kind"].as_str(), row["ordinal"].as_u64())).collect();
    assert_eq!(rows, [(Some("cuda"), Some(0)), (Some("cuda"), Some(2)), (Some("cpu"), Some(3))]);
    passed(run(&cluster, 0, &setup.program, &[], &[]));
    passed(run(&cluster, 0, &setup.program, &[], &[("ACCORD_NODE", "elsewhere")]));
}

#[test]
fn a_program_without_code_for_gpus_gets_cpu_devices() {
    let setup = Setup::new();
    let program = compiled("tests/programs/gpu/cluster.c", false);
    let cluster = setup.cluster(&[1, 1]).devices(1).start().unwrap();
    let finished = passed(run(&cluster, 0, &program, &[], &[]));
    assert!(finished.stdout.contains("0 nvidia, 2 cpu, default other"), "{}", finished.report());
    let finished = passed(run(&cluster, 0, &setup.program, &[POLL_INTERVAL], &[]));
    assert!(finished.stdout.contains("2 nvidia, 2 cpu, default nvidia"), "{}", finished.report());
    drop(cluster);

    let cluster = setup.cluster(&[1]).start().unwrap();
    let finished = run(&cluster, 0, &program, &[], &[]);
    assert_eq!(finished.code(), 1, "{}", finished.report());
    let error = &finished.stderr;
    assert!(error.contains("offers a CPU device") && error.contains("-foffload=nvptx-none"), "{}", finished.report());
}

#[test]
fn a_driver_that_fails_leaves_cpu_devices_and_a_warning() {
    for (init, printed) in [("crash", "SIGABRT"), ("803", "restart the machine after a driver update")] {
        let setup = Setup::new();
        let builder = setup.cluster(&[0]).devices(1).env("FAKE_CUDA_INIT", init);
        let cluster = builder.start().unwrap();
        let info = cluster.info().unwrap();
        let kinds: Vec<_> = devices(&info).iter().map(|row| row["kind"].as_str()).collect();
        assert_eq!(kinds, [Some("cpu")]);
        let is_said = |messages: &str| {
            messages.contains("warn: GPUs offered: 0; the NVIDIA driver") && messages.contains(printed)
        };
        cluster.await_messages(is_said).unwrap();
    }
}

/// Enters, exits, updates, launches, copies between devices and shutdowns in the midst of them, compared with a model.
#[test]
fn random_work_on_gpus_of_two_nodes() {
    let setup = Setup::new();
    let program = compiled("tests/programs/cluster/random_work.c", true);
    // Streams overtake each other with the last seeds.
    let all = [("on", "0", 0..6), ("off", "20000", 15..20), ("on", "20000", 12..15), ("off", "0", 6..12)];
    for (ipc, uneven, seeds) in cases(&all, 2) {
        let cluster = setup.cluster(&[2, 2]).env("ACCORD_IPC", ipc).env("NVIDIA_FAKE_CUDA_UNEVEN", uneven);
        let cluster = cluster.start().expect("a cluster");
        let steps = if uneven == "0" { "400" } else { "200" };
        for seed in seeds {
            passed(run(&cluster, 0, &program, &[&seed.to_string(), steps], &[("FAKE_CUDA_UNEVEN", uneven)]));
        }
    }
}

/// Batches of copies to it and from it are in flight, followed by regions.
#[test]
fn a_node_with_gpus_dies_at_any_moment() {
    let setup = Setup::new();
    let program = compiled("tests/programs/cluster/random_work.c", true);
    for seed in cases(&Vec::from_iter(0..8_u64), 3) {
        let ipc = if seed % 2 == 0 { "off" } else { "on" };
        let cluster = setup.cluster(&[1, 2]).env("ACCORD_IPC", ipc).env("NVIDIA_FAKE_CUDA_UNEVEN", "3000");
        let mut cluster = cluster.start().expect("a cluster");
        let job = cluster.job(0, &program).expect("libacc").args([&seed.to_string(), "10000000"]);
        let running = job.env("ACCORD_IPC", ipc).timeout(Duration::from_secs(30)).start().expect("it starts");
        cluster
            .await_info("a session", |info| info["sessions"].as_array().is_some_and(|all| !all.is_empty()))
            .expect("a session");
        // No synchronisation: the delay varies the moment.
        std::thread::sleep(Duration::from_millis(seed * seed * 20));
        cluster.kill_agent(1);
        let finished = running.finish().expect("it ends");
        assert!(finished.code() == 1 && finished.left_behind.is_empty(), "{}", finished.report());
        let error = &finished.stderr;
        assert!(error.contains("acc_error_device_unavailable") && error.contains("h1"), "{}", finished.report());
    }
}

#[test]
fn gpus_of_one_machine_stand_for_those_of_several_nodes() {
    let setup = Setup::new();
    for (options, local) in [(&["2x2gpu"][..], 2), (&["1x2gpu", "--remote-only"], 0)] {
        let job = Job::new(tool(Tool::Accord).expect("accord"))
            .args(["run", "--loopback", "--local-cluster"])
            .args(options.iter().copied())
            .arg("--")
            .arg(&setup.program)
            .env("ACCORD_LIBACC", libacc().expect("libacc"))
            .env("LD_LIBRARY_PATH", setup.driver.path())
            .env("FAKE_CUDA_KERNELS", setup.driver.path().join("cluster_kernels.so"))
            .env("FAKE_CUDA_DEVICES", "5")
            .env("ACCORD_CACHE", "off");
        let finished = passed(job.run().expect("it runs"));
        let all = local + 2;
        assert!(finished.stdout.contains(&format!("{all} nvidia, 0 cpu")), "{}", finished.report());
    }
}

/// The driver copies more slowly to a GPU that is not visible to the process.
#[test]
fn agents_of_one_machine_see_each_others_gpus_and_offer_their_own() {
    /// Prints the environment of the launcher's other children.
    const AGENTS: &str = r#"for p in /proc/[0-9]*; do
        [ $p = /proc/$$ ] && continue
        case $(tr '\0' ' ' < $p/cmdline 2>/dev/null) in *accord-node-agent*--coordinator*)
            grep -q "^PPid:[[:space:]]*$PPID\$" $p/status || continue
            tr '\0' '\n' < $p/environ | sed -n 's/^CUDA_VISIBLE_DEVICES=/sees /p'
            tr '\0' '\n' < $p/cmdline | sed -n '/^--gpus$/{n;s/^/offers /p}';;
        esac; done; echo has $CUDA_VISIBLE_DEVICES; "$0" info --json"#;
    let setup = Setup::new();
    let accord = tool(Tool::Accord).expect("accord");
    let seen = |visible: Option<&str>| {
        let mut job = Job::new(&accord)
            .args(["run", "--loopback", "--local-cluster", "2x2gpu", "--", "/bin/sh", "-c", AGENTS])
            .arg(&accord)
            .env("ACCORD_LIBACC", libacc().expect("libacc"))
            .env("LD_LIBRARY_PATH", setup.driver.path())
            .env("FAKE_CUDA_DEVICES", "5")
            .env("ACCORD_CACHE", "off");
        if let Some(visible) = visible {
            job = job.env("CUDA_VISIBLE_DEVICES", visible);
        }
        let finished = job.run().expect("it runs").success().unwrap();
        let (printed, info) = finished.stdout.split_once('{').expect("accord info --json");
        let mut printed: Vec<String> = printed.lines().map(str::to_owned).collect();
        printed.sort();
        let info: Value = serde_json::from_str(&format!("{{{info}")).expect("JSON");
        let devices: Vec<_> = devices(&info).iter().map(|row| (row["node"].clone(), row["ordinal"].clone())).collect();
        (printed, devices)
    };
    let numbered = |node: &str, ordinal: u32| (Value::from(node), Value::from(ordinal));
    let all = [("h1", 0), ("h1", 1), ("h2", 0), ("h2", 1)].map(|(node, ordinal)| numbered(node, ordinal));
    let (printed, devices) = seen(None);
    assert_eq!(printed, ["has 0,1", "offers 0,1", "offers 2,3"]);
    assert_eq!(devices, all);
    let (printed, devices) = seen(Some("4,2,0,3"));
    assert_eq!(printed, ["has 4,2", "offers 0,1", "offers 2,3", "sees 4,2,0,3", "sees 4,2,0,3"]);
    assert_eq!(devices, all);
}

#[test]
fn an_agent_offers_the_gpus_of_its_list() {
    let setup = Setup::new();
    for (list, offered, printed) in
        [("1,GPU-00000000-0000-0000-0000-000000000000", 2, ""), ("1,7", 1, "warn: GPUs offered: 1; GPU 7 is not there")]
    {
        let cluster = setup.cluster(&[offered]).env("FAKE_CUDA_DEVICES", "3").env("ACCORD_GPUS", list).start().unwrap();
        let info = cluster.info().unwrap();
        let ordinals: Vec<_> = devices(&info).iter().filter_map(|row| row["ordinal"].as_u64()).collect();
        assert_eq!(ordinals, (0..u64::from(offered)).collect::<Vec<_>>());
        cluster.await_messages(|messages| messages.contains(printed)).unwrap();
        let finished = passed(run(&cluster, 0, &setup.program, &[POLL_INTERVAL], &[]));
        assert!(finished.stdout.contains(&format!("{offered} nvidia")), "{}", finished.report());
    }
}

/// However far an executor gets: a GPU's driver and its streams need threads, too.
#[test]
fn executors_without_threads_say_so_in_time() {
    let setup = Setup::new();
    let few_threads = compile_support("few_threads", setup.driver.path()).unwrap();
    let program = compiled("tests/programs/c/d2d_queues.c", true);
    let (mut worked, mut reported) = (0, 0);
    for threads in cases(&[4, 7, 8, 9, 10, 14, 20, 23, 27, 28, 31, 38, 42, 200], 4) {
        let builder = setup.cluster(&[1, 1]).preload(&few_threads).env("EXECUTOR_THREADS", threads.to_string());
        let cluster = builder.env("ACCORD_IPC", "off").start().unwrap();
        let job = cluster.job(0, &program).unwrap().timeout(Duration::from_secs(20));
        let finished = job.run().unwrap();
        let what = format!("{threads} threads: {}", finished.report());
        println!("{what}");
        assert!(!finished.timed_out && finished.left_behind.is_empty(), "{what}");
        if finished.code() == 0 {
            worked += 1;
        } else {
            assert!(finished.stderr.contains("[acc_error_"), "{what}");
            reported += usize::from(finished.stderr.contains("a thread"));
        }
    }
    assert!(!is_long() || worked > 0 && reported > 2, "{worked} {reported}");
}

/// Copies of a program on a GPU of its own node, which it drives itself, fail with the reason when its job ends. The
/// next job gets the GPU.
#[test]
fn a_program_stops_the_gpu_of_its_own_node_with_its_job() {
    let setup = Setup::new();
    let cluster = setup.cluster(&[1]).start().unwrap();
    let program = compiled("tests/programs/cluster/endless.c", true);
    let request = |request| [("ACCORD_DEVICES", request)];
    let stopped = run(&cluster, 0, &program, &["copy", "0"], &request("1:nvidia limit=3s"));
    assert_eq!(stopped.code(), 1, "{}", stopped.report());
    assert!(stopped.stdout.contains("ready"), "{}", stopped.report());
    for word in ["job 1 has ended: its time limit", "ask for a longer limit", "h0"] {
        assert!(stopped.stderr.contains(word), "no {word:?}: {}", stopped.report());
    }
    let counts = compiled("tests/programs/cluster/device_count.c", true);
    let next = run(&cluster, 0, &counts, &[], &request("1:nvidia wait=60s")).success().unwrap();
    assert!(next.stdout.starts_with("devices=1\n"), "{}", next.report());
}
