//! Agents that are ranks of an MPI job: `accord run --fabric mpi`. Results are right, and nothing is left when a node
//! dies. Skipped, with a message, without MPI or without its object (`make mpi`).

use accord_tests::{Cluster, Finished, Job, Result, Running, Tool, leftovers, libacc, no_mpi, test_program, tool};
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// The time in which a program must notice a lost node of its job.
const LOST: Duration = Duration::from_secs(3);
/// Extra time on a busy machine.
const SLACK: Duration = Duration::from_secs(3);
/// The time limit of a run's start, as in `accord run`.
const START: Duration = Duration::from_secs(20);
/// How long an idle agent is observed.
const WATCHED: Duration = Duration::from_secs(5);
/// Most times that an idle agent's threads wake up meanwhile: some 80 a second are usual.
const WAKE_UPS_MAX: u64 = 1_500;

/// Whether MPI is missing; prints so.
fn is_skipped() -> bool {
    let why = no_mpi();
    if let Some(why) = &why {
        println!("skipped: {why}");
    }
    why.is_some()
}

fn run(program: &Path) -> Job {
    run_on(&["--local-cluster", "3x1", "--loopback"], program)
}

fn run_on(hosts: &[&str], program: &Path) -> Job {
    Job::new(tool(Tool::Accord).unwrap())
        .with_mpi()
        .env("ACCORD_LIBACC", libacc().unwrap())
        .env("ACCORD_CPU_MEMORY", "256M")
        .timeout(Duration::from_secs(60))
        .arg("run")
        .args(hosts.iter().copied())
        .args(["--fabric", "mpi", "--"])
        .arg(program)
}

/// Returns the agent of a host in the run of `supervisor`.
fn agent_of(supervisor: Pid, host: &str) -> Option<Pid> {
    descendants(supervisor).into_iter().find(|pid| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let words: Vec<_> = line.split(|byte| *byte == 0).map(String::from_utf8_lossy).collect();
        words.first().is_some_and(|program| program.ends_with("accord-node-agent"))
            && words.windows(2).any(|two| two[0] == "--node" && two[1] == host)
    })
}

fn descendants(of: Pid) -> Vec<Pid> {
    let (mut all, mut open) = (Vec::new(), vec![of]);
    while let Some(pid) = open.pop() {
        let tasks = PathBuf::from(format!("/proc/{pid}/task"));
        for task in std::fs::read_dir(tasks).into_iter().flatten().flatten() {
            let children = std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
            let children = children.split_whitespace().filter_map(|word| word.parse().ok()).map(Pid::from_raw);
            open.extend(children.inspect(|child| all.push(*child)));
        }
    }
    all
}

fn succeeded(finished: &Finished) {
    assert_eq!(finished.code(), 0, "{}", finished.report());
    assert!(finished.left_behind.is_empty(), "{}", finished.report());
}

#[test]
fn devices_of_all_nodes_work_and_copy_to_each_other() {
    if is_skipped() {
        return;
    }
    for program in ["c/devices_each.c", "c/d2d_all_pairs.c", "c/d2d_async_all_pairs.c"] {
        succeeded(&run(&test_program(program).unwrap()).run().unwrap());
    }
}

/// The program's host has no devices, but an agent, which the program connects through.
#[test]
fn a_program_without_devices_of_its_own_goes_by_its_hosts_agent() {
    if is_skipped() || is_without_links() {
        return;
    }
    let job = run_on(&["--local-cluster", "2x1", "--remote-only"], &test_program("c/devices_each.c").unwrap());
    succeeded(&job.run().unwrap());
}

/// The agents' MPI has files of shared memory, which its launcher removes if it has the time.
#[test]
fn no_shared_memory_is_left_however_a_run_ends() {
    if is_skipped() {
        return;
    }
    for killed in [false, true] {
        let running = run(&test_program("cluster/endless.c").unwrap()).args(["launch", "1"]).start().unwrap();
        running.await_output("ready").unwrap();
        let run = Pid::from_raw(running.id().cast_signed());
        let agent = agent_of(run, "h2").expect("the agent of the node");
        let maps = std::fs::read_to_string(format!("/proc/{agent}/maps")).unwrap();
        let named = maps.lines().filter_map(|line| Some(&line[line.find("/dev/shm/")?..]));
        // A name is removed as soon as it is no longer needed.
        let files: Vec<&Path> = named.filter(|name| !name.ends_with(" (deleted)")).map(Path::new).collect();
        println!("{files:?}");
        let signal = if killed { Signal::SIGKILL } else { Signal::SIGTERM };
        kill(run, signal).unwrap();
        let finished = running.finish().unwrap();
        assert!(finished.left_behind.is_empty(), "{signal}: {}", finished.report());
        // A killed process leaves that to its supervisor.
        let end = Instant::now() + SLACK;
        while files.iter().any(|file| file.exists()) {
            assert!(Instant::now() < end, "{signal}: {files:?}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Agents started by hand may have names that are taken.
#[test]
fn a_job_whose_name_another_one_has_on_this_machine_says_so() {
    if is_skipped() {
        return;
    }
    let mut cluster = Cluster::builder().hosts(1).start().unwrap();
    cluster.kill_agent(0);
    let name = format!("same-{}", std::process::id());
    let agent = || {
        Job::new(tool(Tool::NodeAgent).unwrap())
            .with_mpi()
            .env("ACCORD_MEASURE", "off")
            .timeout(Duration::from_secs(60))
            .args(["--fabric", "mpi", "--world", &name, "--node", "h0", "--listen", "127.0.0.1:0"])
            .args(["--gpus", "off", "--cpu-devices", "1", "--cpu-memory", "64M", "--coordinator", cluster.address()])
            .arg("--tls")
            .arg(cluster.tls_of("h0"))
            .arg("--libacc")
            .arg(libacc().unwrap())
    };
    let end = |running: &Running| kill(Pid::from_raw(running.id().cast_signed()), Signal::SIGTERM).unwrap();
    let first = agent().start().unwrap();
    first.await_output("listening on").unwrap();
    let finished = agent().run().unwrap();
    let printed = format!("another world {name} runs on this machine; end it, or choose another --world");
    assert!(finished.code() == 1 && finished.stderr.contains(&printed), "{}", finished.report());
    // The previous one may still be ending.
    let next = agent().start().unwrap();
    std::thread::sleep(Duration::from_secs(1));
    end(&first);
    next.await_output("listening on").unwrap();
    end(&next);
    for running in [first, next] {
        let finished = running.finish().unwrap();
        assert_eq!(finished.code(), 0, "{}", finished.report());
    }
}

#[test]
fn routes_say_that_they_go_by_mpi() {
    if is_skipped() {
        return;
    }
    let finished = run(&tool(Tool::Accord).unwrap()).arg("info").run().unwrap();
    succeeded(&finished);
    assert_eq!(finished.stdout.matches("mpi (ACCORD_TRANSPORT=mpi)").count(), 2, "{}", finished.report());
    assert!(finished.stdout.contains("MPI (--fabric mpi): built for "), "{}", finished.report());
    assert!(finished.stdout.contains(", which is here"), "{}", finished.report());
}

/// Launchers bind processes to cores, which only the speed reveals.
#[test]
fn agents_that_were_bound_to_few_cores_say_so() {
    if is_skipped() {
        return;
    }
    let hosts = ["-v", "--local-cluster", "2x1", "--loopback"];
    let job = || run_on(&hosts, &test_program("c/devices_each.c").unwrap());
    let all = sched_getaffinity(Pid::from_raw(0)).unwrap();
    let cores: Vec<_> = (0..CpuSet::count()).filter(|core| all.is_set(*core).unwrap()).collect();
    if cores.len() < 2 {
        println!("skipped: it takes two cores");
        return;
    }
    let free = job().run().unwrap();
    succeeded(&free);
    assert!(!free.stderr.contains("this agent may use 1 of "), "{}", free.report());
    // This thread's children inherit its cores.
    let mut first = CpuSet::new();
    first.set(cores[0]).unwrap();
    sched_setaffinity(Pid::from_raw(0), &first).unwrap();
    let bound = job().run().unwrap();
    succeeded(&bound);
    assert_eq!(bound.stderr.matches("this agent may use 1 of ").count(), 2, "{}", bound.report());
    assert!(bound.stderr.contains("have the launcher bind it to none"), "{}", bound.report());
}

/// A node dies while the program uses another one: an error with a node's name, in time, and nothing is left.
#[test]
fn a_job_whose_node_dies_ends_in_time_and_leaves_nothing() {
    if is_skipped() {
        return;
    }
    // Devices 1 and 2 are those of h2 and h3; the program connects through the agent of h1. When a node dies, MPI
    // usually holds the bytes of copies.
    let cases = [
        (&["launch", "1"][..], "h2"),
        (&["launch", "1"], "h3"),
        (&["launch", "1"], "h1"),
        (&["copy", "2"], "h2"),
        (&["copy", "2"], "h3"),
        (&["copy", "2"], "h1"),
        (&["d2d", "1", "2"], "h3"),
        (&["d2d", "1", "2"], "h2"),
        (&["d2d", "1", "2"], "h1"),
    ];
    for (arguments, dies) in accord_test_tier::cases(&cases, 3) {
        // The agents' messages are printed at the end, too.
        let hosts = ["-v", "--local-cluster", "3x1", "--loopback"];
        let job = run_on(&hosts, &test_program("cluster/endless.c").unwrap()).args(arguments.iter().copied());
        let running = job.start().unwrap();
        running.await_output("ready").unwrap();
        let agent = agent_of(Pid::from_raw(running.id().cast_signed()), dies).expect("the agent of the node");
        let died = Instant::now();
        kill(agent, Signal::SIGKILL).unwrap();
        let finished = running.finish().unwrap();
        assert!(died.elapsed() < LOST + SLACK, "{arguments:?}: it took {:?}", died.elapsed());
        assert!(!finished.timed_out && finished.code() == 1, "{arguments:?}: {}", finished.report());
        let (program, run): (Vec<_>, Vec<_>) = finished.stderr.lines().partition(|line| line.contains("acc_error"));
        // UCX aborts a rank that was reading another one's memory when that died, and this one's sockets may be closed
        // first: then both have died.
        let aborted = finished.stderr.contains("process_vm_readv(");
        let dead: &[&str] = if aborted { &["h1", "h2", "h3"] } else { &[dies] };
        let named = |dead: &&str| program.iter().any(|line| line.contains(&format!("node {dead}")));
        assert!(dead.iter().any(named), "{arguments:?}: {}", finished.report());
        let ended = |dead: &&str| format!("the run has ended early: the agent of node {dead} ");
        let ended = |dead: &&str| run.iter().any(|line| line.contains(&ended(dead)));
        assert!(dead.iter().any(ended), "{arguments:?}: {}", finished.report());
        assert!(finished.stderr.contains("acc_error_device_unavailable"), "{arguments:?}: {}", finished.report());
        assert!(finished.left_behind.is_empty(), "{arguments:?}: {}", finished.report());
    }
}

/// Stops an agent once it exists, and returns it.
fn held(supervisor: Pid, host: &str) -> Pid {
    let begun = Instant::now();
    loop {
        if let Some(agent) = agent_of(supervisor, host) {
            kill(agent, Signal::SIGSTOP).unwrap();
            return agent;
        }
        assert!(begun.elapsed() < START, "no agent of {host}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn has_thread(process: Pid, name: &str) -> bool {
    let tasks = std::fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let mut names = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok());
    names.any(|known| known.trim_end() == name)
}

/// A late rank, and one that waits in MPI's start, end with the one that dies there.
#[test]
fn a_job_whose_agent_dies_before_all_have_begun_ends_in_time() {
    if is_skipped() {
        return;
    }
    for _ in 0..accord_test_tier::pick(1, 3) {
        let running = run(&test_program("c/devices_each.c").unwrap()).start().unwrap();
        let supervisor = Pid::from_raw(running.id().cast_signed());
        // No rank completes MPI's start without it.
        let late = held(supervisor, "h3");
        let begun = Instant::now();
        let dies = loop {
            match agent_of(supervisor, "h2") {
                Some(agent) if has_thread(agent, "accord-mpi") => break agent,
                _ => assert!(begun.elapsed() < START, "h2 does not start MPI"),
            }
            std::thread::sleep(Duration::from_millis(1));
        };
        kill(dies, Signal::SIGKILL).unwrap();
        let died = Instant::now();
        std::thread::sleep(Duration::from_millis(200));
        let _ = kill(late, Signal::SIGCONT);
        let finished = running.finish().unwrap();
        assert!(died.elapsed() < LOST + SLACK, "it took {:?}: {}", died.elapsed(), finished.report());
        assert_eq!(finished.code(), 125, "{}", finished.report());
        let named = finished.stderr.contains("the agent of node h2 ");
        assert!(named && finished.left_behind.is_empty(), "{}", finished.report());
    }
}

/// Whether hosts' links can't be cut here; prints so.
fn is_without_links() -> bool {
    let has = |tool: &str| Command::new(tool).arg("-V").output().is_ok();
    let can = nix::unistd::geteuid().is_root() && has("ip") && has("nsenter");
    if !can {
        println!("skipped: only root with ip and nsenter may cut the links of hosts");
    }
    !can
}

/// Disconnects the host of an agent, or reconnects it.
fn set_link(agent: Pid, up: bool) {
    let net = format!("--net=/proc/{agent}/ns/net");
    let word = if up { "up" } else { "down" };
    let done = Command::new("nsenter").args([&net, "ip", "link", "set", "eth0", word]).status().unwrap();
    assert!(done.success());
}

fn run_on_hosts(arguments: &[&str]) -> Running {
    let job = run_on(&["--local-cluster", "3x1"], &test_program("cluster/endless.c").unwrap());
    let running = job.args(arguments.iter().copied()).start().unwrap();
    running.await_output("ready").unwrap();
    running
}

/// A machine that loses power sends nothing, not even the ends of its connections.
#[test]
fn a_job_whose_machine_goes_silent_ends_in_time() {
    if is_skipped() || is_without_links() {
        return;
    }
    let all = [(&["launch", "1"][..], "h2"), (&["launch", "1"], "h3"), (&["d2d", "1", "2"], "h3")];
    for (arguments, dies) in accord_test_tier::cases(&all, 1) {
        let running = run_on_hosts(arguments);
        let agent = agent_of(Pid::from_raw(running.id().cast_signed()), dies).expect("the agent of the node");
        let died = Instant::now();
        set_link(agent, false);
        let finished = running.finish().unwrap();
        println!("{arguments:?}: it took {:?}", died.elapsed());
        assert!(died.elapsed() < LOST + SLACK, "{arguments:?}: it took {:?}", died.elapsed());
        assert!(!finished.timed_out && finished.code() == 1, "{arguments:?}: {}", finished.report());
        let ended = format!("the run has ended early: the agent of node {dies} ");
        assert!(finished.stderr.contains(&ended), "{arguments:?}: {}", finished.report());
        let named =
            |line: &str| line.contains("acc_error_device_unavailable") && line.contains(&format!("node {dies}"));
        assert!(finished.stderr.lines().any(named), "{arguments:?}: {}", finished.report());
        assert!(finished.left_behind.is_empty(), "{arguments:?}: {}", finished.report());
    }
}

/// A network outage that lasts as long as a switch needs to find another path.
#[test]
fn a_job_goes_on_when_a_link_is_back_after_a_second_and_a_half() {
    if is_skipped() || is_without_links() {
        return;
    }
    let running = run_on_hosts(&["launch", "1"]);
    let agent = agent_of(Pid::from_raw(running.id().cast_signed()), "h2").expect("the agent of the node");
    set_link(agent, false);
    std::thread::sleep(Duration::from_millis(1_500));
    set_link(agent, true);
    // A run that considered it dead would have reported that.
    std::thread::sleep(LOST);
    assert!(agent_of(Pid::from_raw(running.id().cast_signed()), "h2") == Some(agent), "the agent has ended");
    running.signal(Signal::SIGTERM).unwrap();
    let finished = running.finish().unwrap();
    assert!(!finished.timed_out && finished.left_behind.is_empty(), "{}", finished.report());
    assert!(
        !finished.stderr.contains("acc_error") && !finished.stderr.contains("ended early"),
        "{}",
        finished.report()
    );
}

/// A stopped agent reads nothing: the program's traffic for it waits in bounded memory, and other nodes' devices go on.
#[test]
fn a_stopped_agent_blocks_no_other_node() {
    /// On a busy machine, too, the program's thread has filled all buffers after several of these.
    const PAUSE: Duration = Duration::from_millis(200);
    const LINES: usize = 6;
    if is_skipped() {
        return;
    }
    let (input, mut says) = std::io::pipe().unwrap();
    let job = run(&test_program("cluster/stopped_beside.c").unwrap()).args(["1", "2"]).stdin(input);
    // On a busy machine six lines take longer than an agent or an executor may usually be silent.
    let job = job.env("ACCORD_LOST_AFTER", "10m").env("ACCORD_TIMEOUT", "10m");
    let running = job.start().unwrap();
    running.await_output("ready").unwrap();
    let of_run = Pid::from_raw(running.id().cast_signed());
    let stopped = agent_of(of_run, "h3").expect("the agent of the node");
    let gateway = agent_of(of_run, "h1").expect("the agent of the program's node");
    kill(stopped, Signal::SIGSTOP).unwrap();
    let mut sizes = Vec::new();
    for n in 1..=LINES {
        std::thread::sleep(PAUSE);
        sizes.push(resident(gateway));
        says.write_all(b"go on\n").unwrap();
        running.await_output(&format!("went on {n}")).unwrap();
    }
    kill(stopped, Signal::SIGCONT).unwrap();
    drop(says);
    let finished = running.finish().unwrap();
    succeeded(&finished);
    let given: Vec<u64> = finished.stdout.split(' ').filter_map(|word| word.parse().ok()).collect();
    assert_eq!(given.len(), LINES, "{}", finished.report());
    assert!(given[LINES - 2] == given[LINES - 1], "it goes on giving: {}", finished.report());
    let grown = sizes[LINES - 1].saturating_sub(sizes[0]);
    assert!(grown < 1 << 20, "the gateway has {grown} bytes more: {sizes:?}");
}

/// Returns a process's private resident bytes: shared memory has a fixed size.
fn resident(process: Pid) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let kib: Option<u64> =
        status.lines().find_map(|line| line.strip_prefix("RssAnon:")?.trim().strip_suffix(" kB")?.parse().ok());
    kib.expect("what a process has in memory") * 1024
}

/// The job's executors are in its agents: MPI and the devices' memory are in one process.
#[test]
fn agents_host_executors_themselves_and_keep_nothing_of_them() -> Result<()> {
    /// The time in which a session's resources are released.
    const SOON: Duration = Duration::from_secs(5);
    if is_skipped() {
        return Ok(());
    }
    // Runs its argument twice, and ten more times, and waits each time.
    let script = "for i in 1 2; do \"$1\" || exit 1; done; echo ready; sleep 5; \
                  for i in 1 2 3 4 5 6 7 8 9 10; do \"$1\" || exit 1; done; echo again; sleep 30";
    let job = run(Path::new("/bin/sh")).args(["-c", script, "sh"]).arg(test_program("c/d2d_all_pairs.c")?);
    let running = job.start()?;
    running.await_output("ready")?;
    let supervisor = Pid::from_raw(running.id().cast_signed());
    let agent = agent_of(supervisor, "h2").expect("the agent of h2");
    assert_eq!(descendants(agent), [], "the agent has processes");
    std::thread::sleep(Duration::from_secs(1));
    let before = held_by(agent);
    running.await_output("again")?;
    let end = Instant::now() + SOON;
    while held_by(agent) > before && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(50));
    }
    println!("threads and descriptors after 2 programs: {before:?}, after 12: {:?}", held_by(agent));
    assert!(held_by(agent) <= before, "after 2 programs it had {before:?}, after 12 {:?}", held_by(agent));
    running.signal(Signal::SIGTERM)?;
    let finished = running.finish()?;
    assert!(!finished.timed_out && finished.left_behind.is_empty(), "{}", finished.report());
    Ok(())
}

/// Returns the number of threads and open files of a process.
fn held_by(process: Pid) -> (usize, usize) {
    let count = |what| std::fs::read_dir(format!("/proc/{process}/{what}")).map_or(0, Iterator::count);
    (count("task"), count("fd"))
}

/// A lost device affects only its session: the job goes on.
#[test]
fn a_job_whose_worker_dies_goes_on() -> Result<()> {
    if is_skipped() {
        return Ok(());
    }
    let script = "\"$1\" launch 1; echo \"it ended: $?\"; exec \"$2\"";
    let job = run(Path::new("/bin/sh")).args(["-c", script, "sh"]);
    let job = job.arg(test_program("cluster/endless.c")?).arg(test_program("c/devices_each.c")?);
    let running = job.start()?;
    running.await_output("ready")?;
    for worker in workers_of(&running) {
        kill(worker, Signal::SIGKILL).map_err(|error| error.to_string())?;
    }
    let finished = running.finish()?;
    assert!(finished.stdout.contains("it ended: 1"), "{}", finished.report());
    assert!(finished.stderr.contains("(node h2"), "{}", finished.report());
    succeeded(&finished);
    Ok(())
}

/// Returns the workers of the running program, which have its name without its arguments.
fn workers_of(running: &Running) -> Vec<Pid> {
    let all = leftovers(running.mark());
    let ids = all.iter().filter_map(|line| line.split(' ').next()?.parse().ok()).map(Pid::from_raw);
    let is_worker = |pid: &Pid| {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|variable| variable.starts_with(b"ACCORD_WORKER="))
    };
    ids.filter(is_worker).collect()
}

/// A node's cores belong to the program.
#[test]
fn idle_agents_wake_up_seldom() -> Result<()> {
    if is_skipped() {
        return Ok(());
    }
    // Measurements of paths between agents would count.
    let job = run(&test_program("cluster/endless.c")?).env("ACCORD_MEASURE", "off").args(["idle", "1"]);
    let running = job.start()?;
    running.await_output("ready")?;
    let agents: Vec<_> = ["h1", "h2", "h3"]
        .iter()
        .filter_map(|host| agent_of(Pid::from_raw(running.id().cast_signed()), host))
        .collect();
    assert_eq!(agents.len(), 3);
    // Until they sleep for their longest intervals.
    std::thread::sleep(Duration::from_millis(500));
    let before: Vec<_> = agents.iter().map(|agent| Scheduled::of(*agent)).collect();
    std::thread::sleep(WATCHED);
    for (agent, before) in agents.iter().zip(before) {
        let now = Scheduled::of(*agent);
        let (times, used) = (now.times - before.times, now.used - before.used);
        println!("an idle agent woke up {times} times in {WATCHED:?}, and used {used:?}");
        assert!(times < WAKE_UPS_MAX, "an idle agent woke up {times} times in {WATCHED:?}");
        // A thread that spins wakes up seldom.
        assert!(used < WATCHED / 4, "an idle agent used {used:?} in {WATCHED:?}");
    }
    running.signal(Signal::SIGTERM)?;
    let finished = running.finish()?;
    assert!(!finished.timed_out && finished.left_behind.is_empty(), "{}", finished.report());
    Ok(())
}

/// What all threads of a process have had of the processors.
struct Scheduled {
    used: Duration,
    /// How often one of them got a processor.
    times: u64,
}

impl Scheduled {
    fn of(process: Pid) -> Self {
        let mut all = Self { used: Duration::ZERO, times: 0 };
        for task in std::fs::read_dir(format!("/proc/{process}/task")).unwrap().flatten() {
            let Ok(stat) = std::fs::read_to_string(task.path().join("schedstat")) else { continue };
            let mut numbers = stat.split_whitespace().filter_map(|number| number.parse::<u64>().ok());
            all.used += Duration::from_nanos(numbers.next().unwrap_or(0));
            all.times += numbers.nth(1).unwrap_or(0);
        }
        all
    }
}
