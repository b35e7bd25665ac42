//! Finds the GPUs of this machine that the driver shows to this process.

use super::driver::{Driver, DriverError, NoDriver};
use accord_device::Found;
use accord_types::{DeviceFault, DeviceId, DeviceInfo, DeviceKind, Error, ErrorCode, NodeId};
use cudarc::driver::sys::{CUdevice, CUdevice_attribute as Attribute, CUuuid};
use std::ffi::{CStr, c_char};
use std::path::Path;

/// Oldest supported driver: CUDA 11.4's, in the driver's own numbering.
const DRIVER_MIN: i32 = 11_040;
/// Oldest supported architecture.
const SM_MIN: i32 = 50;

/// Attributes that a description contains, for programs that query devices of any node.
const REPORTED: &[Attribute] = &[
    Attribute::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK,
    Attribute::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X,
    Attribute::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y,
    Attribute::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z,
    Attribute::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X,
    Attribute::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y,
    Attribute::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z,
    Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK,
    Attribute::CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY,
    Attribute::CU_DEVICE_ATTRIBUTE_WARP_SIZE,
    Attribute::CU_DEVICE_ATTRIBUTE_MAX_PITCH,
    Attribute::CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK,
    Attribute::CU_DEVICE_ATTRIBUTE_CLOCK_RATE,
    Attribute::CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT,
    Attribute::CU_DEVICE_ATTRIBUTE_GPU_OVERLAP,
    Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT,
    Attribute::CU_DEVICE_ATTRIBUTE_KERNEL_EXEC_TIMEOUT,
    Attribute::CU_DEVICE_ATTRIBUTE_INTEGRATED,
    Attribute::CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY,
    Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_MODE,
    Attribute::CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS,
    Attribute::CU_DEVICE_ATTRIBUTE_ECC_ENABLED,
    Attribute::CU_DEVICE_ATTRIBUTE_PCI_BUS_ID,
    Attribute::CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID,
    Attribute::CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE,
    Attribute::CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH,
    Attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE,
    Attribute::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR,
    Attribute::CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT,
    Attribute::CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING,
    Attribute::CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID,
    Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
    Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
    Attribute::CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED,
    Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR,
    Attribute::CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR,
    Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN,
    Attribute::CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR,
];

const NO_DEVICE: &str = "the NVIDIA driver shows no device";

fn nothing(note: impl Into<String>) -> Found {
    Found { note: Some(note.into()), ..Found::default() }
}

fn problem(note: String) -> Found {
    Found { failed: true, ..nothing(note) }
}

/// Finds GPUs. Takes microseconds without a driver. Ordinals are the driver's.
pub fn inventory(node: NodeId, node_name: &str) -> Found {
    let driver = match Driver::get() {
        Ok(driver) => driver,
        Err(NoDriver::Absent(why)) => return nothing(format!("there is no NVIDIA driver ({why})")),
        Err(NoDriver::Old(name)) => {
            return problem(format!("the NVIDIA driver is too old: it has no {name}; update it"));
        }
    };
    match read(driver, node, node_name) {
        Ok(probe) => probe,
        Err(DriverError { code: DriverError::NO_DEVICE, .. }) => nothing(NO_DEVICE),
        Err(error) => problem(format!("the NVIDIA driver does not start: {}", explain(error))),
    }
}

/// Returns the driver's text and the remedy.
fn explain(error: DriverError) -> String {
    let error = error.into_error(ErrorCode::DeviceInit);
    let remedy = error.remedy_text().unwrap_or("look at nvidia-smi and the kernel's messages");
    format!("{}; {remedy}", error.cause())
}

fn read(driver: &Driver, node: NodeId, node_name: &str) -> Result<Found, DriverError> {
    let (mut version, mut count) = (0, 0);
    // SAFETY: no preconditions; the values are valid for writing.
    unsafe {
        driver.cuInit(0)?;
        driver.cuDriverGetVersion(&raw mut version)?;
        driver.cuDeviceGetCount(&raw mut count)?;
    }
    if version < DRIVER_MIN {
        let version = dotted(version);
        let note = format!("the NVIDIA driver is of CUDA {version}, and 11.4 is the oldest that is used; update it");
        return Ok(problem(note));
    }
    if count == 0 {
        return Ok(nothing(NO_DEVICE));
    }
    let (mut probe, mut notes) = (Found::default(), Vec::new());
    for ordinal in 0..count {
        let mut device: CUdevice = 0;
        // SAFETY: the value is valid for writing.
        unsafe { driver.cuDeviceGet(&raw mut device, ordinal) }?;
        match describe(driver, device) {
            Ok(Ok(mut info)) => {
                info.id = DeviceId { node, ordinal: ordinal.unsigned_abs() };
                info.node_name = node_name.to_owned();
                info.driver = dotted(version);
                probe.devices.push(info);
            }
            Ok(Err(note)) => notes.push(format!("GPU {ordinal} {note}")),
            // The others may be well.
            Err(error) => {
                probe.failed = true;
                notes.push(format!("GPU {ordinal} fails: {}", explain(error)));
            }
        }
    }
    probe.note = (!notes.is_empty()).then(|| notes.join("; "));
    Ok(probe)
}

/// Returns the driver's number of a GPU in this process; other processes may order the GPUs differently.
pub(crate) fn find(driver: &Driver, info: &DeviceInfo) -> Result<CUdevice, Error> {
    let failed = |error: DriverError| error.into_error(ErrorCode::DeviceInit);
    let get = |ordinal: i32| {
        let mut device: CUdevice = 0;
        // SAFETY: the value is valid for writing.
        unsafe { driver.cuDeviceGet(&raw mut device, ordinal) }.map(|()| device)
    };
    let own = info.id.ordinal as i32;
    if info.uuid.is_empty() {
        return get(own).map_err(failed);
    }
    let mut count = 0;
    // SAFETY: the value is valid for writing.
    unsafe { driver.cuDeviceGetCount(&raw mut count) }.map_err(failed)?;
    // Usually the first number is right.
    for ordinal in std::iter::once(own).chain(0..count).filter(|ordinal| *ordinal < count) {
        let device = get(ordinal).map_err(failed)?;
        if uuid(driver, device).is_ok_and(|uuid| uuid == info.uuid) {
            return Ok(device);
        }
    }
    Err(Error::new(ErrorCode::DeviceInit, format!("the NVIDIA driver does not show {} to this process", info.uuid))
        .device_fault(Some(DeviceFault::MISSING))
        .remedy("check CUDA_VISIBLE_DEVICES and the control group's devices"))
}

/// Returns the device, or the reason why it is not used.
fn describe(driver: &Driver, device: CUdevice) -> Result<Result<DeviceInfo, String>, DriverError> {
    let mut name = [0 as c_char; 256];
    let mut memory = 0;
    // SAFETY: both are valid for writing, the name for its length.
    unsafe {
        driver.cuDeviceGetName(name.as_mut_ptr(), name.len() as i32, device)?;
        driver.cuDeviceTotalMem_v2(&raw mut memory, device)?;
    }
    let name = text(&name);
    let attribute = |which| {
        let mut value = 0;
        // SAFETY: the value is valid for writing.
        unsafe { driver.cuDeviceGetAttribute(&raw mut value, which, device) }.map(|()| value)
    };
    let major = attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?;
    let minor = attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?;
    if major * 10 + minor < SM_MIN {
        return Ok(Err(format!("({name}) is sm_{major}{minor}, and sm_50 is the oldest that is used")));
    }
    let number = |part: i32| u16::try_from(part).unwrap_or_default();
    // Compute mode 2 prohibits use.
    if attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_MODE)? == 2 {
        return Ok(Err(format!("({name}) is in compute mode PROHIBITED")));
    }
    if attribute(Attribute::CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED)? == 0 {
        return Ok(Err(format!("({name}) can't map memory at addresses of the program's choice")));
    }
    Ok(Ok(DeviceInfo {
        id: DeviceId { node: NodeId(0), ordinal: 0 },
        node_name: String::new(),
        kind: DeviceKind::CUDA,
        name,
        vendor: "NVIDIA".to_owned(),
        driver: String::new(),
        uuid: uuid(driver, device)?,
        memory: memory as u64,
        units: attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?.unsigned_abs(),
        compute: (number(major), number(minor)),
        context: 0,
        attributes: REPORTED.iter().filter_map(|which| Some((*which as u16, attribute(*which).ok()?))).collect(),
        numa: numa_node(driver, device),
        cpus: Vec::new(),
    }))
}

/// Whether kernels can access memory unknown to the driver, such as `malloc`'s, by address translation services or
/// heterogeneous memory management.
pub(super) fn reaches_pageable_memory(driver: &Driver, device: CUdevice) -> bool {
    let mut value = 0;
    let which = Attribute::CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS;
    // SAFETY: the value is valid for writing.
    unsafe { driver.cuDeviceGetAttribute(&raw mut value, which, device) }.is_ok() && value != 0
}

fn uuid(driver: &Driver, device: CUdevice) -> Result<String, DriverError> {
    let mut uuid = CUuuid { bytes: [0; 16] };
    // SAFETY: the value is valid for writing.
    unsafe { driver.cuDeviceGetUuid_v2(&raw mut uuid, device) }?;
    let mut text = String::from("GPU");
    for (at, byte) in uuid.bytes.iter().enumerate() {
        let dash = if matches!(at, 0 | 4 | 6 | 8 | 10) { "-" } else { "" };
        text.push_str(&format!("{dash}{:02x}", byte.cast_unsigned()));
    }
    Ok(text)
}

/// Returns the NUMA node of a device's slot, as the kernel reports it.
fn numa_node(driver: &Driver, device: CUdevice) -> Option<u32> {
    let mut id = [0 as c_char; 32];
    // SAFETY: `id` is valid for writing for its length.
    unsafe { driver.cuDeviceGetPCIBusId(id.as_mut_ptr(), id.len() as i32, device) }.ok()?;
    let file = Path::new("/sys/bus/pci/devices").join(text(&id).to_ascii_lowercase()).join("numa_node");
    // The kernel writes -1 for an unknown node.
    std::fs::read_to_string(file).ok()?.trim().parse().ok()
}

fn text(bytes: &[c_char]) -> String {
    // SAFETY: the driver terminates its strings inside the buffer, which was zeroed and is longer than any of them.
    unsafe { CStr::from_ptr(bytes.as_ptr()) }.to_string_lossy().into_owned()
}

/// Formats 12080 as 12.8.
fn dotted(version: i32) -> String {
    format!("{}.{}", version / 1000, version % 1000 / 10)
}
