//! `slow-network [--delay-us N] [--mbit N] [--figures] -- PROGRAM ARGUMENT...`, as the program of `accord run --local-cluster HxD`: by default
//! 1 ms and 1 Gbit/s between the hosts. Of the ranks of an MPI program the first one runs the switch.
#![forbid(unsafe_code)]

use accord_slow_network::{Between, Carried, Hosts, Result, Switch, run};
use nix::unistd::{gettid, pipe};
use serde_json::json;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitCode, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

const USAGE: &str = "usage: slow-network [--delay-us N] [--mbit N] [--figures] -- PROGRAM [ARGUMENT...]\n\
                     by default 1000 us and 1000 Mbit/s; 0 Mbit/s is no limit";
const MBIT: u64 = 1_000_000;
/// Real-time priority of the switch's thread, so that frames leave on time on a busy machine.
const PRIORITY: &str = "10";
/// The rank of a process that Open MPI has started.
const RANK: &str = "OMPI_COMM_WORLD_RANK";

struct Arguments {
    between: Between,
    figures: bool,
    program: Vec<String>,
}

fn main() -> ExitCode {
    let failed = |why: String| {
        eprintln!("slow-network: {why}");
        ExitCode::from(2)
    };
    let arguments = match Arguments::read(std::env::args().skip(1)) {
        Ok(arguments) => arguments,
        Err(why) => return failed(format!("{why}\n{USAGE}")),
    };
    run_program(&arguments).unwrap_or_else(failed)
}

impl Arguments {
    fn read(mut words: impl Iterator<Item = String>) -> Result<Self> {
        let (mut delay_us, mut mbit, mut figures) = (1000, 1000, false);
        loop {
            let word = words.next().ok_or("a program is needed")?;
            let mut number = || {
                let value = words.next().and_then(|value| value.parse::<u64>().ok());
                value.ok_or_else(|| format!("{word} takes a number"))
            };
            match word.as_str() {
                "--delay-us" => delay_us = number()?,
                "--mbit" => mbit = number()?,
                "--figures" => figures = true,
                "--" => break,
                _ => return Err(format!("{word} is not known")),
            }
        }
        let program: Vec<String> = words.collect();
        if program.is_empty() {
            return Err("a program is needed".to_owned());
        }
        let rate = (mbit > 0).then_some(mbit * MBIT);
        Ok(Self { between: Between { delay: Duration::from_micros(delay_us), rate }, figures, program })
    }
}

fn run_program(arguments: &Arguments) -> Result<ExitCode> {
    let [program, rest @ ..] = &arguments.program[..] else { return Err("a program is needed".to_owned()) };
    let mut command = Command::new(program);
    command.args(rest);
    if std::env::var(RANK).is_ok_and(|rank| rank != "0") {
        return Err(format!("{program}: {}", command.exec()));
    }
    let network = Network::start(arguments.between)?;
    let status = command.status().map_err(|error| format!("{program}: {error}"))?;
    let carried = network.stop()?;
    if arguments.figures {
        print(&carried);
    }
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default());
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX)))
}

/// The switch in a thread of its own.
struct Network {
    thread: JoinHandle<Result<Carried>>,
    stop: OwnedFd,
}

impl Network {
    /// Returns once the hosts use it.
    fn start(between: Between) -> Result<Self> {
        let (until, stop) = pipe().map_err(|error| format!("pipe: {error}"))?;
        let (ready, is_ready) = channel();
        let thread = std::thread::Builder::new().name("switch".to_owned());
        let thread =
            thread.spawn(move || switch(between, &until, &ready)).map_err(|error| format!("a thread: {error}"))?;
        match is_ready.recv() {
            Ok(()) => Ok(Self { thread, stop }),
            Err(_) => Err(join(thread).err().unwrap_or_else(|| "the switch has ended".to_owned())),
        }
    }

    fn stop(self) -> Result<Carried> {
        drop(self.stop);
        join(self.thread)
    }
}

fn join(thread: JoinHandle<Result<Carried>>) -> Result<Carried> {
    thread.join().unwrap_or_else(|_| Err("the switch has panicked".to_owned()))
}

fn switch(between: Between, until: &OwnedFd, ready: &Sender<()>) -> Result<Carried> {
    let (hosts, mut sockets) = Hosts::take(between)?;
    hurry();
    let _ = ready.send(());
    let carried = run(Switch::new(sockets.len(), between.delay), &mut sockets, until.as_fd());
    let carried = carried.and_then(|carried| hosts.put_back().map(|()| carried));
    if let Err(why) = &carried {
        // The program would wait forever for frames that are no longer forwarded.
        eprintln!("slow-network: {why}");
        std::process::exit(2);
    }
    carried
}

/// Without real-time priority the delays are exact only on an idle machine.
fn hurry() {
    let mut command = Command::new("chrt");
    command.args(["--fifo", "--pid", PRIORITY, &gettid().to_string()]);
    let hurried = command.env_remove("LD_PRELOAD").stdin(Stdio::null()).stdout(Stdio::null()).status();
    if !hurried.is_ok_and(|status| status.success()) {
        eprintln!("slow-network: frames may leave late on a busy machine: chrt can't give the switch its priority");
    }
}

/// Prints figures as bench programs do.
fn print(carried: &Carried) {
    let counts = carried.counts;
    let dropped = counts.no_space + carried.refused + carried.missed;
    let late = carried.late.as_micros() as u64;
    for (name, unit, value) in [
        ("network_frames", "frames", counts.taken),
        ("network_bytes", "B", counts.bytes),
        ("network_dropped", "frames", dropped),
        ("network_late", "us", late),
        ("network_hops", "hops in a row", counts.hops),
    ] {
        println!("{}", json!({ "name": name, "unit": unit, "samples": [value] }));
    }
}
