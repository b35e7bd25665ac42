//! The environment, read once. Only this file reads it.

use crate::sanitizer;
use accord_device::image::EXPLAIN_ENV;
use accord_gpu::cache_folder;
use accord_runtime::Settings;
use accord_types::settings::{self, Setting};
use accord_types::unknown_settings::unknown_settings;
use accord_types::{Check, Compare, DeviceType, Error, ErrorCode, Rank, Result, spin_policy};
use std::ffi::OsStr;
use std::hash::{BuildHasher, RandomState};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

/// Whether this process serves a CPU device instead of running the program. Constant, though the worker removes the variable
/// from its environment after reading it.
pub(crate) fn is_worker() -> bool {
    static WORKER: OnceLock<bool> = OnceLock::new();
    *WORKER.get_or_init(accord_device::cpu::is_worker)
}

/// Returns the file for the description of this process's GPU code, which replaces running the program, or `None` if not
/// requested.
pub(crate) fn explain_to() -> Option<&'static Path> {
    static FILE: OnceLock<Option<PathBuf>> = OnceLock::new();
    let file = FILE.get_or_init(|| {
        if has_more_rights() {
            return None;
        }
        let value = std::env::var_os(EXPLAIN_ENV)?.into_string().ok()?;
        let (parent, file) = value.split_once(':')?;
        (parent.parse() == Ok(std::os::unix::process::parent_id())).then(|| PathBuf::from(file))
    });
    file.as_deref()
}

/// Whether the program has more rights than its user, who sets the environment: set-user-ID, set-group-ID, file capabilities.
pub(crate) fn has_more_rights() -> bool {
    // SAFETY: has no preconditions.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

/// Whether this process has no devices, because it runs only the program's constructors.
pub(crate) fn is_without_devices() -> bool {
    is_worker() || explain_to().is_some()
}

/// Whether `ACC_PROFLIB` names a library.
pub(crate) fn has_profiling_libraries() -> bool {
    value(settings::ACC_PROFLIB).is_some()
}

/// `ACCORD_DEBUG`: whether errors are reported in more detail.
pub(crate) fn debug() -> bool {
    static DEBUG: OnceLock<bool> = OnceLock::new();
    *DEBUG.get_or_init(|| value(settings::DEBUG).is_some_and(|text| text != "0"))
}

/// `ACCORD_IPC`: whether GPUs of different processes of this machine copy to each other directly.
///
/// # Errors
/// Returns `acc_error_invalid_argument` for an invalid value.
pub(crate) fn ipc() -> Result<bool> {
    value(settings::IPC).map_or(Ok(true), |text| Ok(!is_off(settings::IPC, &text)?))
}

/// `ACCORD_GPU_MEMORY`: whether the driver allocates memory of this process's GPUs where it chooses, in place of mapping.
///
/// # Errors
/// Returns `acc_error_invalid_argument` for an invalid value.
pub(crate) fn allocates_gpu_memory(has_mpi: impl FnOnce() -> bool) -> Result<bool> {
    match value(settings::GPU_MEMORY).as_deref() {
        None | Some("auto") => Ok(has_mpi()),
        Some("allocate") => Ok(true),
        Some("map") => Ok(false),
        Some(other) => {
            let cause = format!("{} is \"{other}\"", settings::GPU_MEMORY.name);
            Err(Error::new(ErrorCode::InvalidArgument, cause).remedy("set it to auto, allocate or map, or unset it"))
        }
    }
}

/// `ACCORD_ROWS`: whether copies of rows to and from this process's GPUs may be held back; `None`: only if no other code in
/// the process uses the driver.
///
/// # Errors
/// Returns `acc_error_invalid_argument` for an invalid value.
pub(crate) fn holds_rows() -> Result<Option<bool>> {
    match value(settings::ROWS).as_deref() {
        None | Some("auto") => Ok(None),
        Some("on") => Ok(Some(true)),
        Some("off") => Ok(Some(false)),
        Some(other) => {
            let cause = format!("{} is \"{other}\"", settings::ROWS.name);
            Err(Error::new(ErrorCode::InvalidArgument, cause).remedy("set it to auto, on or off, or unset it"))
        }
    }
}

/// `ACCORD_OPEN_TIMEOUT`: the time limit of opening a session.
///
/// # Errors
/// Returns `acc_error_invalid_argument` for an invalid value.
pub(crate) fn open_timeout() -> Result<Duration> {
    let text = value(settings::OPEN_TIMEOUT).unwrap_or_else(|| settings::OPEN_TIMEOUT.default.to_owned());
    settings::parse_time(&text).ok_or_else(|| {
        let name = settings::OPEN_TIMEOUT.name;
        Error::new(ErrorCode::InvalidArgument, format!("{name} is \"{text}\", which is no time"))
            .remedy("set it to a time such as 90s or 5m, or unset it")
    })
}

/// `ACCORD_TIMEOUT`: the longest silence of a peer; `None`: no limit.
///
/// # Errors
/// Returns `acc_error_invalid_argument` for an invalid value.
pub(crate) fn timeout() -> Result<Option<Duration>> {
    let text = value(settings::TIMEOUT).unwrap_or_else(|| settings::TIMEOUT.default.to_owned());
    if text.trim() == "off" {
        return Ok(None);
    }
    settings::parse_time(&text).filter(|time| !time.is_zero()).map(Some).ok_or_else(|| {
        Error::new(
            ErrorCode::InvalidArgument,
            format!("{} is \"{text}\", which is no time above 0, and not off", settings::TIMEOUT.name),
        )
        .remedy("set it to a time such as 90s or 5m or to off, or unset it")
    })
}

/// `ACCORD_CACHE`: the folder for compiled code, or `None`.
pub(crate) fn cache() -> Option<PathBuf> {
    if has_more_rights() {
        return None;
    }
    cache_folder(value(settings::CACHE).as_deref().map(OsStr::new))
}

/// `ACCORD_UNMAPPED=map`; [`runtime`] checks other values.
pub(crate) fn maps_unmapped() -> bool {
    value(settings::UNMAPPED).is_some_and(|text| text.trim() == "map")
}

/// `ACCORD_DROPPED_UPDATES`: whether updates that GCC has dropped only cause a warning.
///
/// # Errors
/// Returns `acc_error_invalid_argument` for an invalid value.
pub(crate) fn warns_of_dropped_updates() -> Result<bool> {
    let text = value(settings::DROPPED_UPDATES).unwrap_or_else(|| settings::DROPPED_UPDATES.default.to_owned());
    match text.trim() {
        "error" => Ok(false),
        "warn" => Ok(true),
        _ => Err(Error::new(
            ErrorCode::InvalidArgument,
            format!("{} is \"{text}\", which is neither error nor warn", settings::DROPPED_UPDATES.name),
        )
        .remedy("set it to error or warn, or unset it")),
    }
}

/// `ACCORD_EMULATE`: the type under which CPU devices appear, or `None` for their own.
pub(crate) fn emulated() -> Option<DeviceType> {
    emulated_type().ok().flatten()
}

/// Returns [`emulated`] at the start of a session.
///
/// # Errors
/// Returns `acc_error_invalid_argument` for a type that can't be emulated.
pub(crate) fn emulated_type() -> Result<Option<DeviceType>> {
    value(settings::EMULATE).map(|text| emulated_as(&text)).transpose()
}

fn emulated_as(text: &str) -> Result<DeviceType> {
    let name = text.trim().to_ascii_lowercase();
    match name.strip_prefix("acc_device_").unwrap_or(&name) {
        "nvidia" => Ok(DeviceType::Nvidia),
        _ => Err(Error::new(
            ErrorCode::InvalidArgument,
            format!("ACCORD_EMULATE is \"{text}\", which CPU devices can't appear as"),
        )
        .remedy("set it to nvidia, or unset it")),
    }
}

/// Returns this program's rank in an MPI job, as launchers set it.
pub(crate) fn rank() -> Option<Rank> {
    Rank::of_environment(|name| std::env::var(name).ok())
}

/// Returns the rank if the first device number that a program of an MPI job names decides the numbering: in a cluster,
/// unless `ACCORD_DEVICE_ORDER` decides it.
fn rank_that_settles() -> Option<Rank> {
    value(settings::COORDINATOR)?;
    rank().filter(|_| value(settings::DEVICE_ORDER).is_none_or(|order| order.trim() == "auto"))
}

/// Returns a sentence for each unknown variable that looks like a setting. Only for the first rank of a job.
pub(crate) fn unknown() -> Vec<String> {
    if rank().is_some_and(|rank| rank.rank > 0) {
        return Vec::new();
    }
    unknown_settings(std::env::vars_os().map(|(name, _)| name))
}

/// Returns the runtime's settings.
///
/// # Errors
/// Returns `acc_error_device_type_unavailable`, `acc_error_invalid_argument` for values without a meaning.
pub(crate) fn runtime() -> Result<Settings> {
    spin_policy::read_cores(|name| std::env::var(name).ok())?;
    if is_without_devices() {
        // The process has no devices of its own, so that the program's choice does not apply.
        return Ok(Settings { device_type: Some(DeviceType::Host), ..Settings::default() });
    }
    warns_of_dropped_updates()?;
    Ok(Settings {
        device_type: value(settings::ACC_DEVICE_TYPE).map(|text| device_type(&text)).transpose()?,
        device_num: value(settings::ACC_DEVICE_NUM).map(|text| device_num(&text)).transpose()?,
        default_dims: value(settings::GOMP_OPENACC_DIM).map(|text| launch_dims(&text)).transpose()?.unwrap_or_default(),
        rank: rank_that_settles(),
        debug: debug(),
        low_addresses: sanitizer::is_thread_sanitizer(),
        maps_unmapped: value(settings::UNMAPPED).map_or(Ok(false), |text| unmapped(&text))?,
        explains_errors: value(settings::EXPLAIN_ERRORS).is_some_and(|text| text.trim() != "0"),
        check: value(settings::CHECK).map_or(Ok(Check::Nothing), |text| check(&text))?,
        seed: RandomState::new().hash_one(std::process::id()),
        pageable: value(settings::PAGE_LOCK).map_or(Ok(false), |text| is_off(settings::PAGE_LOCK, &text))?,
    })
}

/// `ACCORD_COMPARE`: whether regions are compared with a CPU device, and by which limits.
///
/// # Errors
/// Returns `acc_error_invalid_argument` for an invalid value.
pub(crate) fn compare() -> Result<Compare> {
    let Some(text) = value(settings::COMPARE) else { return Ok(Compare::Nothing) };
    Compare::parse(&text).ok_or_else(|| {
        let cause = format!("{} is \"{text}\", which is no limit of a comparison", settings::COMPARE.name);
        Error::new(ErrorCode::InvalidArgument, cause)
            .remedy("set it to on, off, or limits such as rel=1e-4,abs=1e-9 or ulp=4, or unset it")
    })
}

/// Returns what `ACCORD_CHECK` requests.
fn check(text: &str) -> Result<Check> {
    Check::parse(text).ok_or_else(|| {
        let cause = format!("{} is \"{text}\", which is no check", settings::CHECK.name);
        Error::new(ErrorCode::InvalidArgument, cause).remedy("set it to bounds or off, or unset it")
    })
}

/// Whether a setting that is on or off is off.
fn is_off(setting: Setting, text: &str) -> Result<bool> {
    match text.trim() {
        "on" => Ok(false),
        "off" => Ok(true),
        _ => Err(Error::new(
            ErrorCode::InvalidArgument,
            format!("{} is \"{text}\", which is neither on nor off", setting.name),
        )
        .remedy("set it to on or off, or unset it")),
    }
}

/// Whether `ACCORD_UNMAPPED` requests mapping.
fn unmapped(text: &str) -> Result<bool> {
    match text.trim() {
        "error" => Ok(false),
        "map" => Ok(true),
        _ => Err(Error::new(
            ErrorCode::InvalidArgument,
            format!("{} is \"{text}\", which is neither error nor map", settings::UNMAPPED.name),
        )
        .remedy("set it to error or map, or unset it")),
    }
}

/// Returns one setting's value, by any of its names.
pub(crate) fn value(setting: Setting) -> Option<String> {
    found(setting).map(|(_, value)| value)
}

/// Returns the name under which a setting was found, and its value.
pub(crate) fn found(setting: Setting) -> Option<(&'static str, String)> {
    if has_more_rights() && settings::FOR_EQUAL_RIGHTS.contains(&setting) {
        return None;
    }
    setting.find(|name| {
        let value = std::env::var(name).ok()?;
        Some(if name == settings::ACC_PROFLIB.name { without_libacc(&value) } else { value })
    })
}

/// Whether a path is this library's.
fn is_libacc(path: &str) -> bool {
    path.rsplit('/').next() == Some("libacc.so")
}

/// Returns a list of profiling libraries without this one.
fn without_libacc(list: &str) -> String {
    list.split(';').filter(|path| !is_libacc(path)).collect::<Vec<_>>().join(";")
}

/// Returns the libraries that `LD_PRELOAD` has the dynamic linker load first.
pub(crate) fn preloaded() -> Vec<String> {
    if has_more_rights() {
        // The dynamic linker has ignored it.
        return Vec::new();
    }
    let list = std::env::var("LD_PRELOAD").unwrap_or_default();
    list.split([':', ' ']).filter(|path| !path.is_empty()).map(str::to_owned).collect()
}

/// Returns the path by which `LD_PRELOAD` loads this library into the process and its children.
fn preloaded_as() -> Option<String> {
    preloaded().into_iter().find(|path| is_libacc(path))
}

/// Whether `LD_PRELOAD` has this library in the process.
pub(crate) fn is_preloaded() -> bool {
    preloaded_as().is_some()
}

/// Puts this library into `ACC_PROFLIB` where it is preloaded or `linked_as` a name, before tools, so that a libgomp that is loaded later announces
/// itself. For the constructor, because later other threads may read the environment.
pub(crate) fn register_as_proflib(linked_as: Option<String>) {
    // A library that is linked with this one may be loaded when the program has several threads.
    let linked = || linked_as.filter(|path| is_libacc(path) && !has_more_rights() && is_one_thread());
    let Some(own) = preloaded_as().or_else(linked).filter(|_| !is_without_devices()) else { return };
    let name = settings::ACC_PROFLIB.name;
    let tools = std::env::var(name).unwrap_or_default();
    if tools.split(';').any(is_libacc) {
        return;
    }
    let all = if tools.is_empty() { own } else { format!("{own};{tools}") };
    // SAFETY: the process has only one thread, the calling one.
    unsafe { std::env::set_var(name, all) };
}

/// Whether the calling thread is the process's only one.
fn is_one_thread() -> bool {
    std::fs::read_dir("/proc/thread-self/..").is_ok_and(|threads| threads.count() == 1)
}

fn device_type(text: &str) -> Result<DeviceType> {
    let name = text.trim().to_ascii_lowercase();
    match name.strip_prefix("acc_device_").unwrap_or(&name) {
        "nvidia" => Ok(DeviceType::Nvidia),
        "cpu" => Ok(DeviceType::Cpu),
        "host" => Ok(DeviceType::Host),
        "not_host" => Ok(DeviceType::NotHost),
        "default" => Ok(DeviceType::Default),
        "radeon" => Ok(DeviceType::Radeon),
        _ => Err(Error::new(
            ErrorCode::DeviceTypeUnavailable,
            format!("ACC_DEVICE_TYPE is \"{text}\", which is no device type"),
        )
        .remedy("set it to nvidia, cpu or host, or unset it")),
    }
}

fn device_num(text: &str) -> Result<u32> {
    text.trim().parse().map_err(|_| {
        Error::new(ErrorCode::InvalidArgument, format!("ACC_DEVICE_NUM is \"{text}\", which is no device number"))
            .remedy("set it to 0 or more, or unset it")
    })
}

/// Parses `gangs:workers:vector`; an empty part or `-` leaves that one open.
fn launch_dims(text: &str) -> Result<[u32; 3]> {
    let bad = || {
        Error::new(
            ErrorCode::InvalidArgument,
            format!("GOMP_OPENACC_DIM is \"{text}\", which is not of the form gangs:workers:vector"),
        )
        .remedy("write up to three numbers with colons between them, or unset it")
    };
    let mut dims = [0; 3];
    for (at, part) in text.split(':').enumerate() {
        let dim = dims.get_mut(at).ok_or_else(bad)?;
        *dim = match part.trim() {
            "" | "-" => 0,
            number => number.parse().map_err(|_| bad())?,
        };
    }
    Ok(dims)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_types_are_read_in_either_case_and_with_their_prefix() {
        assert_eq!(device_type("NVIDIA").unwrap(), DeviceType::Nvidia);
        assert_eq!(device_type("acc_device_host").unwrap(), DeviceType::Host);
        assert_eq!(device_type("tpu").unwrap_err().code(), ErrorCode::DeviceTypeUnavailable);
    }

    #[test]
    fn only_known_types_are_emulated() {
        assert_eq!(emulated_as(" NVIDIA").unwrap(), DeviceType::Nvidia);
        assert_eq!(emulated_as("acc_device_nvidia").unwrap(), DeviceType::Nvidia);
        let text = emulated_as("amd").unwrap_err().to_string();
        assert!(text.contains("\"amd\"") && text.contains("nvidia"), "{text}");
    }

    #[test]
    fn launch_dimensions_may_be_left_open() {
        assert_eq!(launch_dims("64:8:32").unwrap(), [64, 8, 32]);
        assert_eq!(launch_dims("::128").unwrap(), [0, 0, 128]);
        assert_eq!(launch_dims("16").unwrap(), [16, 0, 0]);
        assert_eq!(launch_dims("-:4").unwrap(), [0, 4, 0]);
        assert!(launch_dims("a:b").is_err());
        assert!(launch_dims("1:2:3:4").is_err());
    }

    #[test]
    fn a_switch_is_on_or_off() {
        assert!(is_off(settings::PAGE_LOCK, "off").unwrap());
        assert!(!is_off(settings::PAGE_LOCK, "on").unwrap());
        assert!(is_off(settings::PAGE_LOCK, "maybe").unwrap_err().to_string().contains("ACCORD_PAGE_LOCK"));
    }

    #[test]
    fn unmapped_pointers_are_errors_or_maps() {
        assert!(!unmapped("error").unwrap());
        assert!(unmapped(" map ").unwrap());
        assert!(unmapped("yes").unwrap_err().to_string().contains("ACCORD_UNMAPPED"));
    }

    #[test]
    fn device_numbers_are_not_negative() {
        assert_eq!(device_num(" 3 ").unwrap(), 3);
        assert!(device_num("-1").is_err());
    }
}
