//! Turns on a device that sessions of several jobs share: shares of device time by weight, the wait of a light session,
//! throughput of four users' sessions, and the cost for a session alone.
//!
//! A coordinator and an agent without control groups run as processes, which takes root: CPU devices are divided by turns
//! then, as GPUs always are. Each measurement is made with programs that drive the device themselves, and with executors.

use crate::report::{Report, build_folder, compile, compile_with_offload, text};
use crate::services::{Services, agent_without_cgroups, release};
use accord_trust::name::Role;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// Durations of regions, in us.
const REGIONS_US: [u32; 3] = [50, 1_000, 10_000];
/// Regions of the four users' sessions.
const OF_USERS_US: u32 = 1_000;
/// Regions of the session beside the light one.
const BESIDE_LIGHT_US: u32 = 10_000;
/// Regions of the light session.
const LIGHT_US: u32 = 50;
const LIGHT_ROUNDS: u32 = 201;
/// Pause of the light session in us, which is no multiple of a region.
const LIGHT_PAUSE_US: u32 = 23_700;
/// Rounds and pause of a session that launches so rarely that the other one runs without turns meanwhile.
const RARE_ROUNDS: u32 = 5;
const RARE_PAUSE_US: u32 = 2_003_700;
const USERS: usize = 4;
/// Rounds of measurements that alternate.
const ROUNDS: usize = 5;
/// Duration of a measurement of throughput.
const WINDOW: Duration = Duration::from_secs(3);
/// Time in which a started program reaches its steady state.
const WARM_UP: Duration = Duration::from_millis(1_500);
const START_MAX: Duration = Duration::from_secs(60);

/// Difference of a share of device time from its part of the weights.
const SHARE_MAX: f64 = 0.03;
/// The wait of a light session beyond one region of the other.
const LIGHT_EXTRA_US: f64 = 1_000.0;
const TOGETHER_MIN: f64 = 0.95;
const ALONE_MIN: f64 = 0.98;

/// Nodes that programs name as theirs: that of the device, or another one.
const PLACES: [(&str, &str); 2] = [("in-process", "h0"), ("executor", "elsewhere")];

pub(crate) fn run() -> Result<Report, String> {
    let mut report = Report::of("accord-bench turns");
    let site = Site::start()?;
    for kind in site.kinds.clone() {
        for (place, node) in PLACES {
            let device = SharedDevice { site: &site, kind, node };
            let name = format!("{kind}/{place}");
            eprintln!("turns: {name}");
            device.shares(&name, &mut report)?;
            device.light(&name, &mut report)?;
            device.together(&name, &mut report)?;
            device.alone(&name, &mut report)?;
        }
    }
    Ok(report)
}

/// A cluster of one node with a device of each kind.
struct Site {
    services: Services,
    address: String,
    program: PathBuf,
    /// Types of its devices.
    kinds: Vec<&'static str>,
}

impl Site {
    fn start() -> Result<Self, String> {
        let has_gpu = Path::new("/dev/nvidia0").exists();
        let program = build_folder()?.join("turns");
        let source = crate::root().join("benches/programs/turns.c");
        if has_gpu {
            compile_with_offload(&source, &program)?;
        } else {
            compile(&source, &program)?;
        }
        let mut services = Services::new("turns")?;
        for user in 0..USERS {
            services.issue(&format!("user{user}"), Role::Tenant(format!("user{user}")))?;
        }
        let state = services.file("state").to_string_lossy().into_owned();
        let coordinator = Command::new(release("accord-coordinator"));
        let arguments = ["--listen", "127.0.0.1:0", "--state", &state];
        let address = services.start(coordinator, "coordinator", &arguments)?.address;
        let accounts: Vec<String> = (0..USERS).map(|user| format!("user{user}=root")).collect();
        let accounts = accounts.join(",");
        let mut arguments =
            vec!["--coordinator", &address, "--listen", "127.0.0.1:0", "--node", "h0", "--cpu-devices", "1"];
        arguments.extend(["--users", &accounts]);
        arguments.extend((!has_gpu).then_some(["--gpus", "off"]).into_iter().flatten());
        services.start(agent_without_cgroups(), "agent", &arguments)?;
        let kinds = ["cpu"].into_iter().chain(has_gpu.then_some("nvidia")).collect();
        Ok(Self { services, address, program, kinds })
    }
}

/// A device that programs of `node` use.
struct SharedDevice<'a> {
    site: &'a Site,
    kind: &'static str,
    node: &'static str,
}

impl SharedDevice<'_> {
    /// Two saturating sessions, of one and three quarters of the device.
    fn shares(&self, name: &str, report: &mut Report) -> Result<(), String> {
        for us in REGIONS_US {
            let steps = self.steps(us)?;
            let sessions = [25, 75].map(|percent| self.saturate(0, &self.part(percent), &steps));
            let [light, heavy] = sessions;
            let mut sessions = [light?, heavy?];
            std::thread::sleep(WARM_UP);
            let parts = (0..ROUNDS).map(|_| {
                let rates = rates(&mut sessions)?;
                Ok(rates[0] / (rates[0] + rates[1]))
            });
            let sample = format!("{name}/{us} us/share of a quarter");
            report.put(&sample, "of the device time", parts.collect::<Result<_, String>>()?);
            let part = report.median(&sample)?;
            let what = format!("{name}: {us} us, {part:.3} of 0.25 and {:.3} of 0.75", 1.0 - part);
            report.at_most(&what, (part - 0.25).abs(), "", SHARE_MAX);
            sessions.into_iter().try_for_each(Saturating::finish)?;
        }
        Ok(())
    }

    /// A light session beside one that saturates the device.
    fn light(&self, name: &str, report: &mut Report) -> Result<(), String> {
        let (steps, light_steps) = (self.steps(BESIDE_LIGHT_US)?, self.steps(LIGHT_US)?);
        let saturating = self.saturate(0, &self.part(50), &steps)?;
        std::thread::sleep(WARM_UP);
        let bar = f64::from(BESIDE_LIGHT_US) + LIGHT_EXTRA_US;
        for (what, rounds, pause) in [("light", LIGHT_ROUNDS, LIGHT_PAUSE_US), ("each 2 s", RARE_ROUNDS, RARE_PAUSE_US)]
        {
            let arguments = ["light", &light_steps, &rounds.to_string(), &pause.to_string()];
            let printed = self.output(1, &self.part(50), &arguments)?;
            report.take_lines(&format!("{name}/{what}/"), &printed)?;
            let sample = format!("{name}/{what}/light");
            report.at_most(&format!("{name}: launch and wait, {what}"), report.median(&sample)?, "us", bar);
        }
        saturating.finish()
    }

    /// Sessions of four users beside one session alone, in turns.
    fn together(&self, name: &str, report: &mut Report) -> Result<(), String> {
        let steps = self.steps(OF_USERS_US)?;
        let (mut alone, mut together) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            for (users, samples) in [(1, &mut alone), (USERS, &mut together)] {
                let start = |user| self.saturate(user, &self.part(25), &steps);
                let mut sessions = (0..users).map(start).collect::<Result<Vec<_>, _>>()?;
                std::thread::sleep(WARM_UP);
                samples.push(rates(&mut sessions)?.iter().sum());
                sessions.into_iter().try_for_each(Saturating::finish)?;
            }
        }
        let (one, all) = (format!("{name}/one session"), format!("{name}/four sessions"));
        report.put(&one, "regions a second", alone);
        report.put(&all, "regions a second", together);
        let ratio = report.median(&all)? / report.median(&one)?;
        report.at_least(&format!("{name}: throughput of {USERS} users' sessions / one"), ratio, "x", TOGETHER_MIN);
        Ok(())
    }

    /// A session alone with a share beside one that has the device for itself and takes no turns, in turns.
    fn alone(&self, name: &str, report: &mut Report) -> Result<(), String> {
        for us in [50, 1_000] {
            let steps = self.steps(us)?;
            let (mut sharing, mut exclusive) = (Vec::new(), Vec::new());
            for _ in 0..ROUNDS {
                for (request, samples) in [(self.part(25), &mut sharing), (format!("1:{}", self.kind), &mut exclusive)]
                {
                    let mut sessions = [self.saturate(0, &request, &steps)?];
                    std::thread::sleep(WARM_UP);
                    samples.extend(rates(&mut sessions)?);
                    sessions.into_iter().try_for_each(Saturating::finish)?;
                }
            }
            let (turns, none) = (format!("{name}/{us} us/with turns"), format!("{name}/{us} us/without turns"));
            report.put(&turns, "regions a second", sharing);
            report.put(&none, "regions a second", exclusive);
            let ratio = report.median(&turns)? / report.median(&none)?;
            report.at_least(&format!("{name}: {us} us, alone with turns / without"), ratio, "x", ALONE_MIN);
        }
        Ok(())
    }

    /// Returns the steps of a region that takes `us` on the idle device.
    fn steps(&self, us: u32) -> Result<String, String> {
        let printed = self.output(0, &format!("1:{}", self.kind), &["calibrate", &us.to_string()])?;
        Ok(printed.trim().to_owned())
    }

    fn part(&self, percent: u32) -> String {
        format!("1:{}:{percent}%", self.kind)
    }

    /// Returns the command of the program in a session of `user` that requests `devices`.
    fn command(&self, user: usize, devices: &str, arguments: &[&str]) -> Command {
        // A killed bench leaves no program behind.
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL"]).arg(&self.site.program).args(arguments);
        command.env("LD_PRELOAD", release("libacc.so")).env("ACCORD_DEVICES", devices).env("ACCORD_NODE", self.node);
        let certificates = self.site.services.file(&format!("user{user}"));
        command.env("ACCORD_COORDINATOR", &self.site.address).env("ACCORD_TLS", certificates);
        command
    }

    fn output(&self, user: usize, devices: &str, arguments: &[&str]) -> Result<String, String> {
        let mut command = self.command(user, devices, arguments);
        let output = command.stderr(Stdio::inherit()).output().map_err(text)?;
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        if output.status.success() { Ok(printed) } else { Err(format!("{command:?} ended with {}", output.status)) }
    }

    fn saturate(&self, user: usize, devices: &str, steps: &str) -> Result<Saturating, String> {
        let mut command = self.command(user, devices, &["saturate", steps]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().map_err(text)?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let (Some(input), Some(output)) = (input, output) else { return Err("no pipes".to_owned()) };
        let mut program = Saturating { child, input: Some(input), output: BufReader::new(output) };
        let begun = Instant::now();
        program.count()?;
        if begun.elapsed() > START_MAX {
            return Err(format!("{command:?} took {:?} to start", begun.elapsed()));
        }
        Ok(program)
    }
}

/// A program that keeps its device busy.
struct Saturating {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

/// The regions of a program that have ended, at a time in us.
#[derive(Clone, Copy)]
struct Count {
    regions: f64,
    at_us: f64,
}

impl Saturating {
    fn count(&mut self) -> Result<Count, String> {
        self.input.as_mut().ok_or("no input")?.write_all(b"\n").map_err(text)?;
        let mut line = String::new();
        self.output.read_line(&mut line).map_err(text)?;
        let numbers: Vec<f64> = line.split_whitespace().skip(1).filter_map(|word| word.parse().ok()).collect();
        match numbers[..] {
            [regions, at_us] => Ok(Count { regions, at_us }),
            _ => Err(format!("a saturating program printed \"{}\"", line.trim_end())),
        }
    }

    fn finish(mut self) -> Result<(), String> {
        self.input = None;
        let status = self.child.wait().map_err(text)?;
        status.success().then_some(()).ok_or_else(|| format!("a saturating program ended with {status}"))
    }
}

impl Drop for Saturating {
    fn drop(&mut self) {
        let _ = self.child.kill().and_then(|()| self.child.wait());
    }
}

/// Returns the regions that each program runs in a second, of one period.
fn rates(programs: &mut [Saturating]) -> Result<Vec<f64>, String> {
    let mut counts = || programs.iter_mut().map(Saturating::count).collect::<Result<Vec<_>, _>>();
    let before = counts()?;
    std::thread::sleep(WINDOW);
    let after = counts()?;
    let rate = |(before, after): (Count, Count)| 1e6 * (after.regions - before.regions) / (after.at_us - before.at_us);
    Ok(before.into_iter().zip(after).map(rate).collect())
}
