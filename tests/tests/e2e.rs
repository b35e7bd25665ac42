//! Whole programs over a cluster of three hosts with two devices each.

use accord_test_tier::cases;
use accord_tests::{
    Cluster, Job, Result, Tool, Variant, compile_mpi, example, libacc, repository_file, test_program, tool,
};
use std::path::Path;
use std::process::Command;

const HOSTS: u32 = 3;
const DEVICES: u32 = 2;

fn cluster() -> Result<Cluster> {
    Cluster::builder().hosts(HOSTS).devices(DEVICES).start()
}

/// Runs an example over a new cluster; returns its output.
fn run_example(program: &Path, arguments: &[&str]) -> Result<String> {
    let cluster = cluster()?;
    let finished = cluster.job(0, program)?.env("ACCORD_EMULATE", "nvidia").args(arguments.iter().copied()).run()?;
    Ok(finished.success()?.stdout)
}

/// Returns the value of a `name=value` pair in a line.
fn field<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    line.split_whitespace().find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))
}

fn mandelbrot_draws_the_same_in_every_step(source: &str) {
    let program = example(source, Variant::PLAIN).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let pattern = folder.path().join("%s.ppm");
    let pattern = pattern.to_str().unwrap();
    let output = run_example(
        &program,
        &["--width", "320", "--height", "180", "--iterations", "300", "--blocks", "13", "--output", pattern],
    )
    .unwrap();
    let steps: Vec<&str> = output.lines().filter_map(|line| field(line, "step")).collect();
    assert_eq!(steps, ["serial", "blocked", "blocked-data", "async", "devices"], "{output}");
    let all = output.lines().last().unwrap();
    assert_eq!(field(all, "devices"), Some((HOSTS * DEVICES).to_string().as_str()), "{output}");
    let picture = |step: &str| std::fs::read(folder.path().join(format!("{step}.ppm"))).unwrap();
    let serial = picture("serial");
    assert_eq!(serial.len(), 15 + 320 * 180 * 3);
    for step in &steps[1..] {
        assert!(picture(step) == serial, "{step} drew another picture\n{output}");
    }
}

#[test]
fn mandelbrot_in_c_draws_the_same_in_every_step() {
    mandelbrot_draws_the_same_in_every_step("mandelbrot/mandelbrot.c");
}

#[test]
fn mandelbrot_in_fortran_draws_the_same_in_every_step() {
    mandelbrot_draws_the_same_in_every_step("mandelbrot/mandelbrot.f90");
}

#[test]
fn jacobi_equals_the_host_and_exchanges_between_devices() {
    let program = example("jacobi/jacobi.c", Variant::PLAIN).unwrap();
    let output = run_example(&program, &["97", "64", "60"]).unwrap();
    assert!(output.contains("equal=yes"), "{output}");
    assert!(output.contains("devices=6 ") && output.contains("exchange=d2d"), "{output}");
}

#[test]
fn matmul_equals_the_host() {
    for source in ["matmul/matmul.c", "matmul/matmul.f90"] {
        let program = example(source, Variant::PLAIN).unwrap();
        let output = run_example(&program, &["150"]).unwrap();
        assert!(output.contains("where=all devices=6"), "{source}: {output}");
    }
}

#[test]
fn vecsum_is_right() {
    for source in ["vecsum/vecsum.c", "vecsum/vecsum.f90"] {
        let program = example(source, Variant::PLAIN).unwrap();
        let output = run_example(&program, &["100000"]).unwrap();
        assert!(output.contains("elements=100000 sum=14999850000"), "{source}: {output}");
    }
}

#[test]
fn d2d_between_all_pairs() {
    let cluster = cluster().unwrap();
    for program in ["c/d2d_all_pairs.c", "c/d2d_async_all_pairs.c"] {
        let job = cluster.job(0, &test_program(program).unwrap()).unwrap();
        let finished = job.run().unwrap().success().unwrap();
        assert!(finished.stdout.contains("PASS"), "{program}: {}", finished.report());
    }
}

/// A program on each host sees all devices, its own first, and may use them all at the same time.
#[test]
fn programs_on_all_hosts_at_the_same_time() {
    let cluster = cluster().unwrap();
    let program = test_program("c/devices_each.c").unwrap();
    let started: Vec<_> = (0..3).map(|host| cluster.job(host, &program).unwrap().start().unwrap()).collect();
    for running in started {
        running.finish().unwrap().success().unwrap();
    }
}

/// Runs random enters, exits, updates, launches and copies between devices, compared with a model. `first` is the first
/// seed of the long tier.
fn random_work(first: u64, mut job: impl FnMut(&Path) -> Job) {
    const STEPS: &str = "400";
    const SHORT: u64 = 3;
    const LONG: u64 = 20;
    let program = test_program("cluster/random_work.c").unwrap();
    let first = first + accord_test_tier::first_seed(SHORT);
    for seed in first..first + accord_test_tier::pick(SHORT, LONG) {
        let finished = job(&program).args([&seed.to_string(), STEPS]).run().unwrap();
        assert!(finished.code() == 0 && finished.stdout.contains("PASS"), "seed {seed}: {}", finished.report());
    }
}

#[test]
fn random_work_over_the_cluster() {
    let cluster = cluster().unwrap();
    random_work(0, |program| cluster.job(0, program).unwrap());
}

#[test]
fn random_work_on_this_machine() {
    random_work(100, |program| {
        Job::new(program)
            .env("LD_PRELOAD", libacc().unwrap())
            .env("ACCORD_CPU_DEVICES", "3")
            .env("ACCORD_CPU_MEMORY", "256M")
    });
}

/// A full stream's operands arrive, whatever copies were enqueued after it.
#[test]
fn a_full_stream_gets_the_copy_that_it_waits_for() {
    let cluster = cluster().unwrap();
    let program = test_program("cluster/full_stream.c").unwrap();
    let finished = cluster.job(0, &program).unwrap().run().unwrap();
    assert!(finished.code() == 0 && finished.stdout.contains("PASS"), "{}", finished.report());
}

/// The payload of a copy between two other hosts does not pass through the program's host, as the counters of its
/// network interface show.
#[test]
fn d2d_between_two_remote_nodes_does_not_pass_through_the_programs_host() {
    const MIB: u64 = 32;
    let program = test_program("cluster/d2d_traffic.c").unwrap();
    let run = |from: &str, to: &str| {
        let finished = Job::new(tool(Tool::Accord).unwrap())
            .env("ACCORD_LIBACC", libacc().unwrap())
            .env("ACCORD_CPU_MEMORY", "256M")
            .args(["run", "--local-cluster", "3x1", "--"])
            .arg(&program)
            .args([from, to, &MIB.to_string()])
            .run()
            .unwrap()
            .success()
            .unwrap();
        let interface = field(&finished.stdout, "interface").unwrap_or_default().to_owned();
        let traffic = field(&finished.stdout, "traffic").and_then(|bytes| bytes.parse::<u64>().ok());
        (interface, traffic, finished)
    };
    let (interface, remote, finished) = run("1", "2");
    if interface != "eth0" {
        println!("skipped: hosts are no network namespaces here");
        return;
    }
    assert!(remote.unwrap() < 1 << 20, "{}", finished.report());
    // The same counters show traffic that does pass through.
    let (_, own, finished) = run("0", "2");
    assert!(own.unwrap() >= MIB << 20, "{}", finished.report());
}

/// Both devices belong to other nodes, and each is the first of its node.
#[test]
fn devices_of_other_nodes_have_addresses_of_their_own() {
    let cluster = Cluster::builder().hosts(2).devices(1).start().unwrap();
    for program in ["c/device_addresses.c", "c/d2d_all_pairs.c"] {
        let program = test_program(program).unwrap();
        let finished = cluster.job(0, &program).unwrap().env("ACCORD_NODE", "elsewhere").run().unwrap();
        assert!(finished.success().unwrap().stdout.contains("PASS"));
    }
}

/// In the program's own process device addresses are valid addresses, for the sake of MPI. Elsewhere an error gives the
/// reason.
#[test]
fn a_program_that_follows_a_device_address_itself_is_told_whose_it_is() {
    let cluster = Cluster::builder().hosts(2).devices(1).start().unwrap();
    let program = test_program("cluster/follows_address.c").unwrap();
    let run = |arguments: &[&str]| cluster.job(0, &program).unwrap().args(arguments.iter().copied()).run().unwrap();
    let own = run(&["0"]);
    assert!(own.stdout.contains("value=5"), "{}", own.report());
    for (arguments, code) in [(&["1"][..], 128 + 11), (&["1", "handler"][..], 7)] {
        let elsewhere = run(arguments);
        assert_eq!(elsewhere.code(), code, "{}", elsewhere.report());
        // A handler of the program stays installed.
        let own = code == 7;
        assert_eq!(elsewhere.stderr.contains("It is memory of dev1 (node h1), where"), !own, "{}", elsewhere.report());
        assert_eq!(elsewhere.stdout.contains("own handler"), own, "{}", elsewhere.report());
    }
}

/// Like programs for GPU-aware MPI.
#[test]
fn mpi_takes_device_addresses_of_the_ranks_own_node() {
    if Command::new("mpirun").arg("--version").output().is_err() {
        println!("skipped: no mpirun");
        return;
    }
    let program = compile_mpi(&repository_file("tests/programs/mpi/device_buffers.c"), Variant::PLAIN).unwrap();
    let run = |cluster: &str, arguments: &[&str]| {
        let job = Job::new(tool(Tool::Accord).unwrap())
            .env("ACCORD_LIBACC", libacc().unwrap())
            .env("ACCORD_CPU_MEMORY", "256M")
            .args(["run", "--local-cluster", cluster, "-np", "2", "--"])
            .arg(&program);
        job.args(arguments.iter().copied()).run().unwrap()
    };
    let finished = run("1x2", &[]).success().unwrap();
    assert_eq!(finished.stdout.matches("PASS").count(), 2, "{}", finished.report());
    assert!(!finished.stderr.contains("host_data"), "{}", finished.report());
    // One rank's device is on the other rank's node: MPI aborts, and the reason is printed.
    let finished = run("2x1", &["1"]);
    assert_ne!(finished.code(), 0, "{}", finished.report());
    let reported = "host_data gives addresses of dev1 (node h2), which MPI calls of this process can't reach";
    assert_eq!(finished.stderr.matches(reported).count(), 1, "{}", finished.report());
}

/// With more ranks on a node than devices, one of them uses another node's device, whose addresses MPI can't access.
/// The job ends with the remedy, and the remedy helps.
#[test]
fn ranks_that_share_a_nodes_devices_can_hand_addresses_to_mpi() {
    if Command::new("mpirun").arg("--version").output().is_err() {
        println!("skipped: no mpirun");
        return;
    }
    let program = compile_mpi(&repository_file("tests/programs/mpi/host_data_of_ranks.c"), Variant::PLAIN).unwrap();
    let run = |order: &str, what: &str| {
        let job = Job::new(tool(Tool::Accord).unwrap())
            .env("ACCORD_LIBACC", libacc().unwrap())
            .env("ACCORD_CPU_MEMORY", "256M")
            .env("ACCORD_DEVICE_ORDER", order)
            .args(["run", "--local-cluster", "2x1", "-np", "3", "--"])
            .arg(&program)
            .args([what]);
        job.run().unwrap()
    };
    for what in cases(&["sendrecv", "isend", "allreduce", "bcast"], 1) {
        let ended = run("auto", what);
        assert_ne!(ended.code(), 0, "{}", ended.report());
        for part in ["It is memory of dev1 (node h2), where this process has none", "ACCORD_DEVICE_ORDER=node"] {
            assert!(ended.stderr.contains(part), "{part}: {}", ended.report());
        }
    }
    for what in cases(&["sendrecv", "isend", "allreduce", "alltoallv", "type", "bcast", "file"], 2) {
        let finished = run("node", what).success().unwrap();
        assert!(finished.stdout.contains(&format!("{what} ok")), "{}", finished.report());
        assert!(!finished.stderr.contains("accord:"), "{}", finished.report());
    }
}

/// MPI passes the address to the kernel, which returns "bad address", or copies from it itself, which is a fault. In
/// either case the address's owner is reported.
#[test]
fn mpi_is_told_whose_memory_it_was_given() {
    if Command::new("mpirun").arg("--version").output().is_err() {
        println!("skipped: no mpirun");
        return;
    }
    let program = compile_mpi(&repository_file("tests/programs/mpi/memory_elsewhere.c"), Variant::PLAIN).unwrap();
    for (sends, len) in cases(&[("1", "100"), ("1", "10000000"), ("0", "100"), ("0", "10000000")], 2) {
        let job = Job::new(tool(Tool::Accord).unwrap())
            .env("ACCORD_LIBACC", libacc().unwrap())
            .env("ACCORD_CPU_MEMORY", "256M")
            .args(["run", "--local-cluster", "2x1", "-np", "2", "--"])
            .arg(&program)
            .args([sends, len]);
        let finished = job.run().unwrap();
        assert_ne!(finished.code(), 0, "{}", finished.report());
        let reported = "It is memory of dev1 (node h2), where this process has none: only regions, data clauses and acc_ routines reach it";
        assert_eq!(finished.stderr.matches(reported).count(), 1, "{}", finished.report());
    }
}

/// Without a message, the file would lack the data, and the program end well.
#[test]
fn files_of_mpi_that_get_memory_elsewhere_end_the_program() {
    if Command::new("mpirun").arg("--version").output().is_err() {
        println!("skipped: no mpirun");
        return;
    }
    let program = compile_mpi(&repository_file("tests/programs/mpi/file_of_device.c"), Variant::PLAIN).unwrap();
    let folder = tempfile::tempdir().unwrap();
    for (call, io) in cases(&[("iwrite", "ompio"), ("write", "ompio"), ("write", "romio321"), ("all", "ompio")], 2) {
        let job = Job::new(tool(Tool::Accord).unwrap())
            .env("ACCORD_LIBACC", libacc().unwrap())
            .env("ACCORD_CPU_MEMORY", "256M")
            .env("TMPDIR", folder.path())
            .env("OMPI_MCA_io", io)
            .env("ACC_DEVICE_NUM", "1")
            .args(["run", "--local-cluster", "2x1", "-np", "1", "--"])
            .arg(&program)
            .args([call]);
        let finished = job.run().unwrap();
        assert!(finished.code() != 0 && !finished.stdout.contains("written"), "{call} {io}: {}", finished.report());
        let reported = "It is memory of dev1 (node h2), where this process has none";
        assert_eq!(finished.stderr.matches(reported).count(), 1, "{call} {io}: {}", finished.report());
    }
}

#[test]
fn mpi_ranks_have_sessions_of_their_own() {
    if Command::new("mpirun").arg("--version").output().is_err() {
        println!("skipped: no mpirun");
        return;
    }
    let program = compile_mpi(&repository_file("tests/programs/mpi/ranks_share_work.c"), Variant::PLAIN).unwrap();
    let finished = Job::new(tool(Tool::Accord).unwrap())
        .env("ACCORD_LIBACC", libacc().unwrap())
        .env("ACCORD_CPU_MEMORY", "256M")
        .args(["run", "--local-cluster", "3x2", "-np", "3", "--"])
        .arg(program)
        .run()
        .unwrap()
        .success()
        .unwrap();
    for rank in 0..3 {
        let line = format!("rank={rank} ranks=3 devices=6 total=4999950000");
        assert!(finished.stdout.contains(&line), "no {line}: {}", finished.report());
    }
}

/// Returns the place of a rank's first region, by its trace: node, the device's ordinal there, and the program's name
/// for it.
fn place(trace: &Path) -> (String, u64, String) {
    let trace: serde_json::Value = serde_json::from_slice(&std::fs::read(trace).unwrap()).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    let first = |event: &&serde_json::Value| {
        event["cat"] == "launch" && event["name"].as_str().is_some_and(|name| name.contains("_omp_fn.0"))
    };
    let launch = events.iter().find(first).expect("the region ran");
    let of_device = |event: &&serde_json::Value| event["name"] == "process_name" && event["pid"] == launch["pid"];
    let device = events.iter().find(of_device).unwrap()["args"]["name"].as_str().unwrap();
    let mut words = device.split_whitespace().map(str::to_owned);
    let (num, node) = (words.next().unwrap(), words.next().unwrap());
    (node, launch["args"]["ordinal"].as_u64().unwrap(), num)
}

/// Returns a program's routes to its devices: the labels of their rows in its trace, one per node.
fn routes(transport: Option<&str>) -> Vec<String> {
    let cluster = Cluster::builder().hosts(2).devices(1).start().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (trace, picture) = (folder.path().join("trace.json"), folder.path().join("%s.ppm"));
    let mut job = cluster.job(0, &example("mandelbrot/mandelbrot.c", Variant::PLAIN).unwrap()).unwrap();
    job = job.env("ACCORD_EMULATE", "nvidia").env("ACCORD_TRACE", &trace);
    if let Some(transport) = transport {
        job = job.env("ACCORD_TRANSPORT", transport);
    }
    let size = ["--width", "32", "--height", "18", "--iterations", "10", "--blocks", "3"];
    job.args(size).args(["--output", picture.to_str().unwrap()]).run().unwrap().success().unwrap();
    let trace: serde_json::Value = serde_json::from_slice(&std::fs::read(trace).unwrap()).unwrap();
    let labels = trace["traceEvents"].as_array().unwrap().iter().filter(|event| event["name"] == "process_labels");
    labels.map(|event| event["args"]["labels"].as_str().unwrap().to_owned()).collect()
}

/// The table of settings gives the default, and the trace shows what was used.
#[test]
fn executors_of_this_machine_are_reached_by_shared_memory_unless_told_otherwise() {
    for (transport, way, why) in [
        (None, "shm to 127.0.0.3:", "(same machine)"),
        (Some("shm"), "shm to 127.0.0.3:", "(ACCORD_TRANSPORT=shm)"),
        (Some("tcp"), "tcp to 127.0.0.3:", "(ACCORD_TRANSPORT=tcp)"),
    ] {
        let routes = routes(transport);
        let [here, there] = &routes[..] else { panic!("{routes:?}") };
        assert_eq!(here, "in-process");
        assert!(there.starts_with(way) && there.ends_with(why), "{transport:?}: {there}");
    }
}

/// Both ways in which MPI codes choose their device give each rank one of its own, on its own node.
#[test]
fn mpi_ranks_get_devices_of_their_own_by_rank_and_by_local_rank() {
    if Command::new("mpirun").arg("--version").output().is_err() {
        println!("skipped: no mpirun");
        return;
    }
    let program = compile_mpi(&repository_file("tests/programs/mpi/numbers.c"), Variant::PLAIN).unwrap();
    let all = [(&[][..], "rank"), (&["--loopback"], "local"), (&[], "none"), (&["--loopback"], "rank"), (&[], "local")];
    for (options, idiom) in cases(&all, 2) {
        let folder = tempfile::tempdir().unwrap();
        let finished = Job::new(tool(Tool::Accord).unwrap())
            .env("ACCORD_LIBACC", libacc().unwrap())
            .env("ACCORD_CPU_MEMORY", "128M")
            .env("ACCORD_TRACE", folder.path().join("%r.json"))
            .args(["run", "--local-cluster", "3x2", "-np", "6"])
            .args(options)
            .arg("--")
            .arg(&program)
            .arg(idiom)
            .run()
            .unwrap()
            .success()
            .unwrap();
        let mut taken = std::collections::BTreeSet::new();
        for rank in 0..6 {
            let report = finished.report();
            let line = finished.stdout.lines().find(|line| field(line, "rank") == Some(rank.to_string().as_str()));
            let line = line.unwrap_or_else(|| panic!("no rank {rank}: {report}"));
            let (node, ordinal, num) = place(&folder.path().join(format!("{rank}.json")));
            assert_eq!(field(line, "on"), Some(node.as_str()), "{idiom} {options:?}: {report}");
            assert_eq!(num, format!("dev{}", field(line, "num").unwrap()), "{idiom} {options:?}: {report}");
            taken.insert((node, ordinal));
        }
        // A program that names no device gets the node's first one, and a warning.
        let warned = finished.stderr.contains("2 ranks of node");
        let wanted = if idiom == "none" { (3, true) } else { (6, false) };
        assert_eq!((taken.len(), warned), wanted, "{idiom} {options:?}: {taken:?} {}", finished.report());
    }
}

#[test]
fn accord_run_passes_exit_codes_and_arguments() {
    let program = test_program("cluster/device_count.c").unwrap();
    for (options, devices) in
        [(vec![], 3), (vec!["--local-cluster", "2x2"], 4), (vec!["--local-cluster", "2x2", "--loopback"], 4)]
    {
        let finished = Job::new(tool(Tool::Accord).unwrap())
            .env("ACCORD_LIBACC", libacc().unwrap())
            .env("ACCORD_CPU_DEVICES", "3")
            .env("ACCORD_CPU_MEMORY", "128M")
            .arg("run")
            .args(options.clone())
            .arg("--")
            .arg(&program)
            .run()
            .unwrap()
            .success()
            .unwrap();
        assert!(finished.stdout.contains(&format!("devices={devices}\n")), "{options:?}: {}", finished.report());
    }
}

/// Examples compiled for nvptx too, and linked instead of preloaded.
#[test]
fn other_ways_to_build() {
    for linked in [false, true] {
        let variant = Variant { offload: true, linked, ..Variant::PLAIN };
        let program = example("vecsum/vecsum.c", variant).unwrap();
        let cluster = Cluster::builder().hosts(2).devices(1).start().unwrap();
        let folder = libacc().unwrap();
        let mut job = cluster.job(1, &program).unwrap().env("LD_LIBRARY_PATH", folder.parent().unwrap());
        if linked {
            job = job.env("LD_PRELOAD", "");
        }
        let finished = job.arg("1000").run().unwrap().success().unwrap();
        assert!(finished.stdout.contains("elements=1000 sum=1498500"), "{}", finished.report());
    }
}
