//! The devices of this process's session.

use crate::kernels::Kernels;
use crate::{company, device_address, gpus, loader, requested, settings, worker_environment};
use accord_client::{
    Coordinator, InProcess, LocalDeviceClient, LocalFactory, Order, SessionSettings, TimeLimits, UserMessages,
    WantedDevices,
};
use accord_device::{SilenceLimit, StartConfig, cpu};
use accord_fabric::ProgramSpec;
use accord_fabric::route::TransportChoice;
use accord_fabric::transport::PeerAddress;
use accord_runtime::ports::{Cluster, DeviceClient};
use accord_scheduler::Request;
use accord_trust::Trust;
use accord_trust::attester::Attester;
use accord_types::settings::{self as names, parse_bytes};
use accord_types::status_line::StatusLine;
use accord_types::{
    DeviceInfo, DevicePtr, DeviceType, Error, ErrorCode, NodeId, QueueId, Result, SpanSink, os_text, printable,
};
use std::ffi::{OsStr, OsString};
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::sync::Arc;

/// Opens the session: the cluster's devices, or this machine's. Spans of all devices go to `trace`.
///
/// # Errors
/// Returns an error if settings are invalid, or a coordinator can't be reached or refuses.
pub(crate) fn connect(trace: Option<Arc<dyn SpanSink>>, kernels: &Arc<Kernels>) -> Result<Box<dyn Cluster>> {
    if settings::is_without_devices() {
        return Ok(Box::new(NoDevices));
    }
    settings::emulated_type()?;
    settings::timeout()?;
    settings::allocates_gpu_memory(|| false)?;
    settings::holds_rows()?;
    let node_name = settings::value(names::NODE).unwrap_or_else(host_name);
    let coordinator = coordinator()?;
    let in_cluster = coordinator.is_some();
    let job = requested::job(in_cluster)?;
    let request = requested::request(in_cluster)?;
    let (asked, request) = if in_cluster { (request, None) } else { (None, request) };
    let requested_cpus = request.as_ref().map(Request::cpu_devices_alone).filter(|count| *count > 0);
    let requested_cpus = requested_cpus.map(|count| count.min(CPU_DEVICES_MAX));
    let config = cpu::CpuConfig { devices: cpu_devices()?.or(requested_cpus), memory: cpu_memory()? };
    // A program without code for GPUs requests none.
    let kind = if in_cluster && !gpus::usable() { accord_backends::fallback_kind() } else { None };
    // A cluster's devices come from the coordinator's lease, and finding GPUs would take long for nothing.
    let mut devices = if in_cluster { Vec::new() } else { devices(&node_name, &config)? };
    if let Some(request) = &request {
        devices = requested::chosen(request, devices)?;
    }
    let connected = accord_client::connect(SessionSettings {
        coordinator,
        wanted: WantedDevices {
            kind,
            request: asked.map(|request| request.to_string()),
            job,
            order: order()?,
            rank: settings::rank(),
        },
        devices,
        node_name,
        local: local_devices(trace.clone(), kernels, in_cluster),
        images: kernels.images(),
        same_host: gpus::same_host_peers(in_cluster)?,
        program: program(trace.is_some()),
        transport: transport()?,
        limits: TimeLimits { silence: settings::timeout()?, opening: settings::open_timeout()? },
        messages: UserMessages { notify: Box::new(notify), waits: Box::new(show_wait) },
        trace,
    });
    connected.map_err(|error| match error.code() {
        code @ ErrorCode::DeviceTypeUnavailable if kind.is_some() && settings::emulated().is_none() => {
            Error::new(code, format!("{}, and the program has no code for GPUs", error.cause())).remedy(
                "compile and link it with -foffload=nvptx-none, or let agents offer CPU devices (--cpu-devices)",
            )
        }
        _ => error,
    })
}

/// Returns this machine's devices: its GPUs, and CPU devices if there is none or settings request them.
fn devices(node_name: &str, config: &cpu::CpuConfig) -> Result<Vec<DeviceInfo>> {
    let mut devices = if gpus::usable() { gpus::inventory(node_name) } else { Vec::new() };
    let asked = config.devices.is_some() || settings::runtime()?.device_type == Some(DeviceType::Cpu);
    if devices.is_empty() || asked {
        let first = devices.iter().map(|gpu| gpu.id.ordinal + 1).max().unwrap_or(0);
        devices.extend(cpu::inventory(NodeId(0), node_name, config).into_iter().map(|mut cpu| {
            cpu.id.ordinal += first;
            cpu
        }));
    }
    Ok(devices)
}

/// Creates the factory that drives this machine's devices in-process. It leaves out GPUs of a cluster that the driver hides from this process, as under
/// a batch system.
fn local_devices(trace: Option<Arc<dyn SpanSink>>, kernels: &Arc<Kernels>, in_cluster: bool) -> LocalFactory {
    let kernels = Arc::clone(kernels);
    let ipc = in_cluster && settings::ipc().is_ok_and(|on| on);
    Box::new(move |devices| {
        // A value without a meaning was an error before.
        let allocate = settings::allocates_gpu_memory(device_address::program_has_mpi).unwrap_or(false);
        let company: Option<fn() -> bool> = match settings::holds_rows().unwrap_or(Some(false)) {
            None => Some(company::in_company),
            Some(true) => None,
            Some(false) => Some(|| true),
        };
        let mut visible = None;
        let mut drives = |info: &DeviceInfo| {
            let visible = visible.get_or_insert_with(|| gpus::inventory(&info.node_name));
            gpus::is_among(info, visible)
        };
        devices
            .iter()
            .map(|info| -> Result<Option<Arc<dyn LocalDeviceClient>>> {
                let able = accord_backends::backend(info.kind)?.capabilities;
                if in_cluster && !able.fallback && !drives(info) {
                    return Ok(None);
                }
                let config = StartConfig {
                    // The runtime chooses the place.
                    place: None,
                    program: able.runs_program.then(worker_program),
                    account: None,
                    turns: None,
                    images: kernels.images(),
                    cache: settings::cache(),
                    ipc,
                    // No other user uses the GPU, and its driver may allocate memory in other ways.
                    scrub: false,
                    allocate: able.allocates && allocate,
                    company,
                };
                let seen_as = if able.fallback { settings::emulated() } else { None };
                Ok(Some(Arc::new(InProcess::new(info.clone(), seen_as, config, trace.clone())?)))
            })
            .collect()
    })
}

/// Creates the client of one more CPU device of this process, with which regions are compared. It can have `addresses` addresses. What its regions print is
/// dropped, since the program's own devices print it too.
///
/// # Errors
/// Returns `acc_error_device_init` if this build has no CPU devices.
pub(crate) fn further_cpu_device(kernels: &Kernels, addresses: u64) -> Result<Arc<dyn DeviceClient>> {
    // A device prefers twice as many addresses as it has memory.
    let config = cpu::CpuConfig { devices: Some(1), memory: Some(addresses / 2) };
    let info = cpu::inventory(NodeId(0), &host_name(), &config).pop();
    let info = info.ok_or_else(|| Error::new(ErrorCode::DeviceInit, "this machine has no CPU device"))?;
    let config = StartConfig {
        place: None,
        program: Some(accord_device::ProgramSpec { output: Some(Arc::new(|_, _| {})), ..worker_program() }),
        account: None,
        turns: None,
        images: kernels.images(),
        cache: None,
        ipc: false,
        scrub: false,
        allocate: false,
        company: None,
    };
    Ok(Arc::new(InProcess::new(info, None, config, None)?))
}

/// Displays that the program's request waits.
fn show_wait(line: Option<&str>) {
    static DISPLAYED: StatusLine = StatusLine::new();
    match line {
        Some(line) => DISPLAYED.show(line),
        None => DISPLAYED.end(),
    }
}

/// Prints one line for the user, to whom the program may seem to hang.
fn notify(line: &str) {
    // Standard error may be closed.
    let _ = writeln!(std::io::stderr(), "accord: {}", printable(line));
}

/// Returns the program of this machine's workers: copies of this process. The program may have cleared its environment, so
/// that this library is always named.
fn worker_program() -> accord_device::ProgramSpec {
    let own = loader::holding(worker_program as *const () as usize);
    let own_program = accord_device::ProgramSpec::of_this_process();
    let env = worker_environment::here();
    // Under valgrind the kernel's name for the executable leads to valgrind's own.
    let is_valgrinds = |(name, value): &(OsString, OsString)| name == "LD_PRELOAD" && has_valgrinds_part(value);
    let path = if env.iter().any(is_valgrinds) { std::env::current_exe().ok() } else { None };
    accord_device::ProgramSpec {
        exe: path.unwrap_or(own_program.exe),
        libacc: own.map(|object| os_text::decode(&object.path).into()),
        cwd: worker_environment::left_folder().map(|folder| folder.start),
        env: Some(env),
        // A value without a meaning is an error where the session begins.
        silence_limit: settings::timeout().ok().map(|timeout| SilenceLimit { timeout, notify: Arc::new(notify) }),
        ..own_program
    }
}

/// Whether valgrind preloads a library of its own.
fn has_valgrinds_part(preload: &OsStr) -> bool {
    const PART: &[u8] = b"/vgpreload_";
    preload.as_bytes().windows(PART.len()).any(|part| part == PART)
}

/// Returns this program, for executors of other nodes.
fn program(trace: bool) -> ProgramSpec {
    let (exe, build_id) = loader::executable();
    let left = worker_environment::left_folder().map(|folder| folder.start);
    let folder = left.or_else(|| std::env::current_dir().ok());
    ProgramSpec {
        exe,
        build_id,
        argv0: std::env::args_os().next().map(|argument| os_text::encode(&argument)).unwrap_or_default(),
        cwd: folder.map(|path| os_text::encode(path.as_os_str())).unwrap_or_default(),
        env: worker_environment::elsewhere()
            .into_iter()
            .map(|(name, value)| format!("{}={}", os_text::encode(&name), os_text::encode(&value)))
            .collect(),
        emulate_gpu: settings::emulated() == Some(DeviceType::Nvidia),
        trace,
    }
}

fn coordinator() -> Result<Option<Coordinator>> {
    let Some(address) = settings::value(names::COORDINATOR) else { return Ok(None) };
    let (folder, munge, token) =
        (settings::value(names::TLS), settings::value(names::MUNGE), settings::value(names::TOKEN_FILE));
    let home = std::env::var_os("HOME");
    let attester = Attester::of_settings(munge.as_deref(), token.as_deref());
    let trust = Trust::of_program(&address, folder.as_deref(), attester, home.as_deref())?;
    Ok(Some(Coordinator { address: PeerAddress::new(address), trust }))
}

fn transport() -> Result<TransportChoice> {
    let (text, _) = names::TRANSPORT.in_force(|name| std::env::var(name).ok());
    text.parse().map_err(|remedy: String| bad(&names::TRANSPORT, &text, &remedy))
}

fn order() -> Result<Order> {
    match settings::value(names::DEVICE_ORDER).as_deref() {
        None | Some("auto" | "local") => Ok(Order::Local),
        Some("global") => Ok(Order::Global),
        Some("rank") => Ok(match settings::rank() {
            Some(_) => Order::Rank,
            None => Order::Local,
        }),
        Some("node") => Ok(Order::Node),
        Some(other) => Err(bad(&names::DEVICE_ORDER, other, "use auto, local, global, rank or node")),
    }
}

fn cpu_devices() -> Result<Option<u32>> {
    settings::value(names::CPU_DEVICES)
        .map(|text| {
            text.trim()
                .parse()
                .ok()
                .filter(|count| *count <= CPU_DEVICES_MAX)
                .ok_or_else(|| bad(&names::CPU_DEVICES, &text, "use a number from 0 to 256"))
        })
        .transpose()
}

/// Most CPU devices of one machine, as each uses addresses and descriptors of its owner.
const CPU_DEVICES_MAX: u32 = 256;

fn cpu_memory() -> Result<Option<u64>> {
    settings::value(names::CPU_MEMORY)
        .map(|text| {
            parse_bytes(&text)
                .filter(|bytes| *bytes > 0)
                .ok_or_else(|| bad(&names::CPU_MEMORY, &text, "use a size such as 512M or 4G"))
        })
        .transpose()
}

fn bad(setting: &names::Setting, value: &str, remedy: &str) -> Error {
    Error::new(ErrorCode::InvalidArgument, format!("{} is \"{value}\", which has no meaning", setting.name))
        .remedy(remedy)
}

fn host_name() -> String {
    const LENGTH_MAX: usize = 256;
    let mut name = [0u8; LENGTH_MAX];
    // SAFETY: the buffer is valid for its length.
    let failed = unsafe { libc::gethostname(name.as_mut_ptr().cast(), name.len()) } != 0;
    let end = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
    if failed || end == 0 {
        return String::from("localhost");
    }
    String::from_utf8_lossy(&name[..end]).into_owned()
}

/// The cluster of a worker, whose code must not start devices of its own.
struct NoDevices;

impl Cluster for NoDevices {
    fn clients(&self) -> &[Arc<dyn DeviceClient>] {
        &[]
    }

    fn copy_between(
        &self,
        _queue: QueueId,
        source: usize,
        _src: DevicePtr,
        target: usize,
        _dst: DevicePtr,
        _len: u64,
    ) -> Result<()> {
        Err(Error::new(ErrorCode::DeviceUnavailable, format!("there is no device {source} and no device {target}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn the_program_is_described_by_its_own_file() {
        let program = program(false);
        assert_eq!(os_text::decode(&program.exe), std::env::current_exe().unwrap());
        assert!(!program.build_id.is_empty());
        assert_eq!(Path::new(&program.cwd), std::env::current_dir().unwrap());
    }

    #[test]
    fn this_machine_has_a_name() {
        assert!(!host_name().is_empty());
    }
}
