//! `accord run` with a cluster of its own, and faults of the launcher, of links and of ranks.

use crate::clocks::Clocks;
use crate::links;
use crate::site::{
    BY_DEFAULT, LIMIT, LONG, Outcome, SHORT, bound, group_of_pids, has_networks, reach, signal, times, transport,
};
use crate::table::{Fault, Lanes, Phase, Role};
use accord_tests::{Job, Running, Tool, libacc, test_program, tool};
use nix::sys::signal::Signal;
use nix::unistd::Pid;
use std::path::Path;
use std::time::{Duration, Instant};

/// How long the folder of a run may stay after its launcher was killed.
const FOLDER_GOES: Duration = Duration::from_secs(5);

/// Performs one try. Odd jitters hit the supervisor instead of the launcher.
pub(crate) fn on_accord_run(
    role: Role,
    (fault, phase): (Fault, Phase),
    lanes: Lanes,
    jitter: Duration,
    clocks: &Clocks,
) -> Outcome {
    let (input, output) = std::io::pipe().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let ranks: &[&str] = if role == Role::Rank { &["-np", "2"] } else { &[] };
    // A process whose clock is set back is identified by its own number, which is the real one only outside of
    // namespaces.
    let apart = lanes == Lanes::Tls && has_networks() && fault != Fault::ClockBack;
    let loopback: &[&str] = if apart { &[] } else { &["--loopback"] };
    let from_beginning = phase == Phase::Start && fault.is_limit();
    let job = if from_beginning {
        let line = format!("{}; exec \"$0\" \"$@\"", limit_of_a_shell(fault, jitter.as_millis() as u64));
        Job::new("sh").args(["-c", &line]).arg(tool(Tool::Accord).unwrap())
    } else {
        Job::new(tool(Tool::Accord).unwrap())
    };
    let job = if fault == Fault::ClockBack { job.env("LD_PRELOAD", clocks.object()) } else { job };
    let running = times(fault)
        .into_iter()
        .fold(job, |job, (name, time)| job.env(name, time))
        .envs(transport(lanes).map(|(name, value)| (name.to_owned(), value.into())))
        .env("ACCORD_LIBACC", libacc().unwrap())
        .env("ACCORD_CPU_MEMORY", "64M")
        .env("ACCORD_TEST_SEPARATE", "1")
        .env("TMPDIR", folder.path())
        .args(["run", "--local-cluster", "3x1"])
        .args(loopback.iter().copied())
        .args(ranks.iter().copied())
        .arg("--")
        .arg(test_program("cluster/phases.c").unwrap())
        .arg(phase.argument())
        .stdin(input)
        .timeout(LIMIT)
        .start()
        .unwrap();
    let mut output = Some(output);
    match phase {
        Phase::Start if from_beginning => {}
        Phase::Start => std::thread::sleep(jitter),
        _ => reach(&running, phase, jitter, &mut output),
    }
    let begun = Instant::now();
    let mut whose_clock = None;
    let (hit, lasted) = if from_beginning {
        (true, Duration::ZERO)
    } else if fault.is_link() {
        links::hit(&running, role, fault)
    } else {
        let odd = jitter.as_millis() % 2 == 1;
        let launcher = pid(running.id());
        let target = match role {
            Role::Rank => rank_of(&running),
            _ if odd => Some(supervisor_of(&running).unwrap_or(launcher)),
            _ => Some(launcher),
        };
        let end = if jitter.as_millis() % 4 < 2 { Signal::SIGTERM } else { Signal::SIGKILL };
        if fault == Fault::ClockBack {
            target.iter().for_each(|target| clocks.set_back(*target));
            whose_clock = target;
        }
        let lasted = target.map_or(Duration::ZERO, |target| {
            // A stopped target handles no other signal.
            strike(fault, target, &running, if target == launcher { Signal::SIGKILL } else { end })
        });
        (target.is_some(), lasted)
    };
    std::thread::sleep(Duration::from_millis(150));
    drop(output);
    let finished = running.finish().unwrap();
    let took = begun.elapsed().saturating_sub(lasted);
    whose_clock.iter().for_each(|target| clocks.forget(*target));
    Outcome { finished, took, hit, left: folders_left(folder.path()), printed: String::new() }
}

fn pid(id: u32) -> Pid {
    Pid::from_raw(i32::try_from(id).unwrap())
}

/// Returns a shell's command for a limit. `amount` says how tight it is: from too little for a start to plenty.
fn limit_of_a_shell(fault: Fault, amount: u64) -> String {
    match fault {
        Fault::NoDescriptors => format!("ulimit -n {}", 3 + amount % 45),
        Fault::NoMemory => format!("ulimit -v {}", (32 + 4 * amount) << 10),
        Fault::NoFileSpace => format!("ulimit -f {}", (1 << (amount % 20)) - 1),
        _ if !nix::unistd::geteuid().is_root() => format!("ulimit -u {}", amount % 60),
        _ => match group_of_pids(1 + amount % 60) {
            Some(group) => format!("echo $$ > {}/cgroup.procs", group.display()),
            None => ":".to_owned(),
        },
    }
}

/// Returns what is left in the parent of runs' folders after a while.
fn folders_left(folder: &Path) -> Vec<String> {
    let deadline = Instant::now() + FOLDER_GOES;
    loop {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        let left: Vec<String> = names.filter(|name| name.starts_with("accord-")).collect();
        if left.is_empty() || Instant::now() >= deadline {
            return left;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Applies the fault. Returns how long it lasted.
fn strike(fault: Fault, target: Pid, running: &Running, end: Signal) -> Duration {
    let begun = Instant::now();
    let stop_for = |time: Duration| {
        signal(target, Signal::SIGSTOP);
        std::thread::sleep(time);
        signal(target, Signal::SIGCONT);
        begun.elapsed()
    };
    match fault {
        Fault::Killed => signal(target, Signal::SIGKILL),
        Fault::StoppedShort => return stop_for(SHORT),
        Fault::StoppedLong => return stop_for(LONG),
        Fault::StoppedByDefault => return stop_for(BY_DEFAULT),
        Fault::StoppedForEver => {
            signal(target, Signal::SIGSTOP);
            std::thread::sleep(SHORT);
            let _ = running.signal(end);
        }
        _ => bound(target, fault),
    }
    Duration::ZERO
}

fn supervisor_of(running: &Running) -> Option<Pid> {
    let found = accord_tests::leftovers(running.mark());
    let line = found.iter().find(|line| line.contains(" __supervise "))?;
    Some(Pid::from_raw(line.split(' ').next()?.parse().ok()?))
}

/// Returns a program that mpirun has started: unlike its workers it has an argument.
fn rank_of(running: &Running) -> Option<Pid> {
    let found = accord_tests::leftovers(running.mark());
    let is_rank = |line: &&String| {
        let mut words = line.split(' ').skip(1);
        words.next().is_some_and(|program| program.contains("/phases-")) && words.next().is_some()
    };
    let rank = found.iter().find(is_rank)?;
    Some(Pid::from_raw(rank.split(' ').next()?.parse().ok()?))
}
