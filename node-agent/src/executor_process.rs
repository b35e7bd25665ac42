//! The executor's side of its start. It is this same program, started by its keeper, with its end of a socket to the
//! agent as standard input.

use crate::device_memory::is_counted;
use crate::devices::NodeDevices;
use crate::memory_service::{AgentAccount, receive_service};
use crate::own_program::again;
use accord_device::cpu::collect_orphans;
use accord_device::{MemoryAccount, TurnAgent};
use accord_executor::{ExecutorConfig, Limits, TurnLane, UseSink};
use accord_fabric::Key;
use accord_fabric::copy_way::{CopyWay, CopyWays};
use accord_fabric::handshake::Purpose;
use accord_fabric::route::{LaneTerms, TransportChoice};
use accord_fabric::transport::Handover;
use accord_gpu::{Printed, cache_folder};
use accord_proto::bounds;
use accord_proto::v1::{self, ExecutorStart};
use accord_telemetry::log::Flush;
use accord_types::settings::TRANSPORT;
use accord_types::{Cost, DeviceInfo, NodeId, SessionId, Source};
use nix::unistd::{Gid, Uid, getuid, setgroups, setresgid, setresuid};
use prost::Message;
use rustix::process::{
    DumpableBehavior, Pid, Signal, getppid, set_dumpable_behavior, set_parent_process_death_signal, setsid,
};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, OnceLock};

/// The first argument that makes this program an executor.
pub const ARGUMENT: &str = "executor";
/// The first argument that makes this program, started by root, an executor of another user. The user's number, group
/// and supplementary groups (separated by commas) follow.
pub const ARGUMENT_AS: &str = "executor-as";
/// Most bytes of an [`ExecutorStart`].
const START_MAX: u32 = 1 << 20;

/// Serves one session.
pub fn main() -> ExitCode {
    let _flush = Flush;
    match start() {
        // The keeper ends processes that regions have left.
        Ok((control, config)) => accord_executor::run(control, config),
        Err(error) => {
            let _ = writeln!(
                std::io::stderr(),
                "accord-node-agent executor: {error}; executors are started by an agent only"
            );
            ExitCode::FAILURE
        }
    }
}

/// Gives up root for good, and executes this program again as an executor. Nothing is read or opened before.
pub fn become_user() -> ExitCode {
    let mut arguments = std::env::args().skip(2);
    let mut number = || arguments.next()?.parse().ok();
    let (uid, gid) = (number(), number());
    let groups = arguments.next().unwrap_or_default();
    let groups: Option<Vec<Gid>> =
        groups.split(',').filter(|text| !text.is_empty()).map(|text| text.parse().ok().map(Gid::from_raw)).collect();
    let failed = |why: String| {
        let _ = writeln!(std::io::stderr(), "accord-node-agent executor: {why}");
        ExitCode::FAILURE
    };
    let (Some(uid), Some(gid), Some(groups)) = (uid, gid, groups) else {
        return failed("executors are started by an agent only".to_owned());
    };
    let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
    // Groups first, because only root may change them.
    let given_up = setgroups(&groups).and_then(|()| setresgid(gid, gid, gid)).and_then(|()| setresuid(uid, uid, uid));
    if let Err(error) = given_up {
        return failed(format!("cannot become user {uid}: {error}"));
    }
    if !uid.is_root() && (setresuid(Uid::from_raw(0), Uid::from_raw(0), Uid::from_raw(0)).is_ok() || getuid() != uid) {
        return failed(format!("could become root again, as user {uid}"));
    }
    match std::env::current_exe() {
        Ok(program) => {
            let error = again(&program).arg(ARGUMENT).exec();
            failed(format!("user {uid} cannot run {}: {error}", program.display()))
        }
        Err(error) => failed(format!("user {uid} cannot run this program: {error}")),
    }
}

/// Sends the start message to a new executor.
pub(crate) fn send_start(mut control: &Handover, start: &ExecutorStart) -> std::io::Result<()> {
    let body = start.encode_to_vec();
    let length = u32::try_from(body.len()).unwrap_or(u32::MAX);
    control.write_all(&[&length.to_le_bytes()[..], &body].concat())
}

fn start() -> Result<(Handover, ExecutorConfig), String> {
    // The agent takes over if the keeper is killed, because a killed keeper ends no processes.
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(|error| error.to_string())?;
    keep_apart().map_err(|error| error.to_string())?;
    let control = take_standard_input().map_err(|error| error.to_string())?;
    let start = receive_start(&mut &control).map_err(|error| format!("no start message: {error}"))?;
    let keeper = i32::try_from(start.keeper_pid).ok().and_then(Pid::from_raw);
    if keeper.is_none() || getppid() != keeper {
        return Err("its keeper is gone".to_owned());
    }
    // The agent counts the memory of CPU devices only, and sends the lane for it next.
    let is_counted = |device: &v1::Device| DeviceInfo::try_from(device.clone()).is_ok_and(|device| is_counted(&device));
    let memory: Option<Arc<dyn MemoryAccount>> = match start.devices.iter().any(is_counted) {
        true => Some(Arc::new(AgentAccount::receive(&control).map_err(|error| error.to_string())?)),
        false => None,
    };
    let turns: Option<Arc<dyn TurnAgent>> = match start.turns {
        true => {
            let lane = receive_service(&control, Purpose::Turns).map_err(|error| error.to_string())?;
            Some(TurnLane::start(lane, drop).map_err(|error| format!("no turns on devices: {error}"))?)
        }
        false => None,
    };
    let reports = control.try_clone().map_err(|error| error.to_string())?;
    let report: UseSink = Arc::new(move |uses| reports.report_use(uses));
    Ok((control, config_of(start, wanted()?, Arc::default(), SharedBy { memory, turns }, report)?))
}

/// Isolates this process from the agent's terminal and from the session's regions, which run in processes of the same
/// user: they can't trace it or open its descriptors. Processes that regions fork stay below this process while it
/// lives, then below its keeper.
fn keep_apart() -> std::io::Result<()> {
    // Fails if this process leads a session already.
    let _ = setsid();
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    collect_orphans()
}

/// The services of the agent for devices that several sessions use.
#[derive(Default)]
pub(crate) struct SharedBy {
    /// Counts the memory of CPU devices.
    pub(crate) memory: Option<Arc<dyn MemoryAccount>>,
    /// Gives out turns.
    pub(crate) turns: Option<Arc<dyn TurnAgent>>,
}

/// Returns the executor's configuration. Executors that share a process share `printed`; `report` receives the use of
/// devices.
pub(crate) fn config_of(
    start: ExecutorStart,
    wanted: TransportChoice,
    printed: Arc<OnceLock<Option<Printed>>>,
    shared: SharedBy,
    report: UseSink,
) -> Result<ExecutorConfig, String> {
    let node = NodeId(start.node);
    let devices: Result<Vec<DeviceInfo>, _> = start.devices.into_iter().map(DeviceInfo::try_from).collect();
    let mut devices = devices.map_err(|error| error.to_string())?;
    for device in &mut devices {
        device.id.node = node;
    }
    let libacc = Some(start.libacc).filter(|path| !path.is_empty()).map(PathBuf::from);
    Ok(ExecutorConfig {
        node,
        node_name: start.node_name,
        session: SessionId(start.session),
        limits: Limits {
            ordinals: devices.iter().map(|device| device.id.ordinal).collect(),
            memory: start.memory_quota,
            streams: start.stream_quota,
        },
        key: Key::new(start.key).map_err(|error| error.to_string())?,
        transport: LaneTerms { wanted, plain_tcp: start.plain_tcp },
        ways: ways(start.mapped, start.lane),
        report,
        devices: Box::new(NodeDevices {
            devices,
            libacc,
            cache: cache_folder(Some(OsStr::new(&start.cache))),
            ipc: start.ipc,
            printed,
            memory: shared.memory,
            turns: shared.turns,
        }),
    })
}

/// Returns the ways of copies to devices of other processes of this machine.
fn ways(mapped: Option<v1::PathTimes>, lane: Option<v1::PathTimes>) -> CopyWays {
    let known =
        |times: Option<v1::PathTimes>| times.map(|times| Cost { times: times.into(), source: Source::Estimated });
    CopyWays::usual([CopyWay::Mapped, CopyWay::Lane])
        .with_known(CopyWay::Mapped, known(mapped))
        .with_known(CopyWay::Lane, known(lane))
}

/// Returns the agent's transport setting, which executors inherit.
pub(crate) fn wanted() -> Result<TransportChoice, String> {
    let (text, _) = TRANSPORT.in_force(|name| std::env::var(name).ok());
    text.parse().map_err(|remedy: String| format!("{} is {text:?}: {remedy}", TRANSPORT.name))
}

/// Takes the socket to the agent from standard input, so that workers do not inherit it.
fn take_standard_input() -> std::io::Result<Handover> {
    let control = std::io::stdin().as_fd().try_clone_to_owned()?;
    rustix::stdio::dup2_stdin(File::open("/dev/null")?)?;
    Ok(Handover::from_descriptor(control))
}

fn receive_start(control: &mut impl Read) -> std::io::Result<ExecutorStart> {
    let invalid = |why: String| std::io::Error::new(std::io::ErrorKind::InvalidData, why);
    let mut length = [0; 4];
    control.read_exact(&mut length)?;
    let length = u32::from_le_bytes(length);
    if length > START_MAX {
        return Err(invalid(format!("{length} bytes are announced")));
    }
    let mut body = vec![0; length as usize];
    control.read_exact(&mut body)?;
    bounds::read(&body).map_err(invalid)
}
