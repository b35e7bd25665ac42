//! The request in `ACCORD_DEVICES`, and this machine's devices that a program without a coordinator gets by it.

use crate::{gpus, settings};
use accord_scheduler::Request;
use accord_scheduler::class::DeviceClass;
use accord_scheduler::model::model_of;
use accord_scheduler::request::AloneError;
use accord_types::settings::{DEVICES, JOB};
use accord_types::{DeviceInfo, DeviceType, Error, ErrorCode, JobToken, Result};

/// Parses the request.
///
/// # Errors
/// Returns `acc_error_invalid_argument` for an invalid request, or one that needs a scheduler if there is no coordinator.
pub(crate) fn request(in_cluster: bool) -> Result<Option<Request>> {
    let Some(text) = settings::value(DEVICES) else { return Ok(None) };
    let request = read(&text)?;
    check_usable(&request, settings::runtime()?.device_type, gpus::usable())?;
    if !in_cluster {
        request.check_alone().map_err(|error| refused(&request, &error))?;
    }
    Ok(Some(request))
}

/// Parses the token of the program's job.
///
/// # Errors
/// Returns `acc_error_invalid_argument` for an invalid token, or if the program also requests devices.
pub(crate) fn job(in_cluster: bool) -> Result<Option<JobToken>> {
    let Some(text) = settings::value(JOB).filter(|_| in_cluster) else { return Ok(None) };
    let token: JobToken = text.parse().map_err(|error: accord_types::NoToken| {
        let cause = format!("{} is not a job: {error}", JOB.name);
        Error::new(ErrorCode::InvalidArgument, cause).remedy(format!("unset {}", JOB.name))
    })?;
    match settings::value(DEVICES) {
        None => Ok(Some(token)),
        Some(devices) => {
            let cause = format!("{} is \"{devices}\" in job {}, which has its devices", DEVICES.name, token.job);
            let remedy = format!("unset {}, or {} for a job of its own", DEVICES.name, JOB.name);
            Err(Error::new(ErrorCode::InvalidArgument, cause).remedy(remedy))
        }
    }
}

/// Whether the program's devices are an allocation, so that the type of the first one is its default type.
pub(crate) fn is_allocated() -> bool {
    settings::value(DEVICES).is_some() || settings::value(JOB).is_some()
}

/// Returns the devices that a request chooses of this machine's.
///
/// # Errors
/// Returns `acc_error_device_unavailable` if the machine has too few.
pub(crate) fn chosen(request: &Request, devices: Vec<DeviceInfo>) -> Result<Vec<DeviceInfo>> {
    let classes: Vec<DeviceClass> = devices.iter().map(class).collect();
    let chosen = request.choose_alone(&classes).map_err(|error| refused(request, &error))?;
    let mut devices: Vec<Option<DeviceInfo>> = devices.into_iter().map(Some).collect();
    Ok(chosen.into_iter().filter_map(|at| devices.get_mut(at)?.take()).collect())
}

/// Refuses a program that can use none of its requested devices at once, not after a wait.
fn check_usable(request: &Request, device_type: Option<DeviceType>, uses_gpus: bool) -> Result<()> {
    let is_usable = |kind: DeviceType| {
        kind == DeviceType::NotHost
            || (uses_gpus || kind == DeviceType::Cpu || settings::emulated() == Some(kind))
                && device_type
                    .is_none_or(|only| matches!(only, DeviceType::Default | DeviceType::NotHost) || only == kind)
    };
    let parts = || request.alternatives.iter().map(|alternative| &alternative.parts);
    if parts().any(|parts| parts.iter().any(|part| is_usable(part.class.kind))) {
        return Ok(());
    }
    let (why, remedy) = match device_type {
        Some(only) if uses_gpus => {
            (format!("ACC_DEVICE_TYPE is {}", only.name()), "unset ACC_DEVICE_TYPE, or ask for devices of that type")
        }
        _ => (
            "the program has no code for GPUs".to_owned(),
            "compile and link it with -foffload=nvptx-none, or ask for cpu",
        ),
    };
    let cause = format!("{} is \"{request}\", and the program can use none of these: {why}", DEVICES.name);
    Err(Error::new(ErrorCode::DeviceTypeUnavailable, cause).remedy(remedy))
}

fn read(text: &str) -> Result<Request> {
    text.trim().parse().map_err(|error: accord_scheduler::TextError| {
        let word = text.trim().get(error.range()).unwrap_or_default();
        let cause = format!("{} is \"{text}\", which is wrong at \"{word}\": {}", DEVICES.name, error.message());
        Error::new(ErrorCode::InvalidArgument, cause)
    })
}

fn refused(request: &Request, error: &AloneError) -> Error {
    let (code, remedy) = match error {
        AloneError::NeedsScheduler { .. } => (ErrorCode::InvalidArgument, "leave it out"),
        AloneError::TooFew { .. } => (ErrorCode::DeviceUnavailable, "ask for fewer or others; accord info shows them"),
    };
    Error::new(code, format!("{} is \"{request}\": {error}", DEVICES.name)).remedy(remedy)
}

fn class(info: &DeviceInfo) -> DeviceClass {
    let capabilities = accord_backends::capabilities(info.kind);
    let emulated = capabilities.filter(|can| can.fallback).and_then(|_| settings::emulated());
    DeviceClass {
        kind: emulated.or(capabilities.map(|can| can.device_type)).unwrap_or(DeviceType::None),
        model: model_of(&info.name),
        memory: info.memory,
        context: 0,
        compute: (0, 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use accord_device::cpu;
    use accord_types::NodeId;

    fn cpu_devices(count: u32) -> Vec<DeviceInfo> {
        cpu::inventory(NodeId(0), "h1", &cpu::CpuConfig { devices: Some(count), memory: Some(1 << 30) })
    }

    #[test]
    fn a_request_chooses_of_the_machines_devices() {
        let ordinals = |text: &str| {
            let chosen = chosen(&read(text).unwrap(), cpu_devices(3))?;
            Ok::<_, Error>(chosen.iter().map(|info| info.id.ordinal).collect::<Vec<_>>())
        };
        assert_eq!(ordinals("2:cpu").unwrap(), [0, 1]);
        assert_eq!(ordinals("1-9").unwrap(), [0, 1, 2]);
        for (text, words) in [
            ("4:cpu", "it has 3 devices of all kinds"),
            ("1:nvidia", "it has 3 devices of all kinds"),
            ("1:cpu:2G", "it has 3 devices of all kinds"),
            ("1 limit=2h", "limit takes a cluster's scheduler"),
        ] {
            let error = ordinals(text).unwrap_err().to_string();
            assert!(error.contains(words) && error.contains(text), "{error}");
        }
    }

    #[test]
    fn a_request_without_sense_is_an_error_with_the_wrong_word() {
        let error = read(" 4:nvida near").unwrap_err();
        assert_eq!(error.code(), ErrorCode::InvalidArgument);
        let text = error.to_string();
        assert!(text.contains("wrong at \"nvida\"") && text.contains("did you mean nvidia?"), "{text}");
    }
}
