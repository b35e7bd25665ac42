//! Launches: a kernel's arguments, and data for the device, as the entry of a region.

use crate::descriptor::Descriptor;
use crate::errors::{self, INVALID_CONFIGURATION, INVALID_RESOURCE_HANDLE, INVALID_VALUE, SourceLine, end};
use crate::memory::{self, Kind, Owner, Range};
use crate::modules::{self, GpuCode, Kernel, ManagedVariable, Parameter};
use crate::transfer::{self, Mode};
use crate::{acc, attributes, streams};
use accord_types::kernel_launch::{KernelArgument, KernelLaunch};
use std::collections::BTreeMap;
use std::ffi::c_char;
use std::sync::atomic::{AtomicU8, Ordering};

/// Most threads of a block, and of each of its dimensions.
const BLOCK: i64 = 1024;
const BLOCK_AXES: [i64; 3] = [1024, 1024, 64];
/// Most blocks of each dimension of a grid.
const GRID_AXES: [i64; 3] = [2_147_483_647, 65535, 65535];
/// Bytes of shared memory of a block, static and dynamic, that every device has.
const SHARED: usize = 48 << 10;
/// Blocks of a dimension that the launch leaves to the runtime (`<<<*, ...>>>`), on CPU devices and on GPUs; the loop has the grid's
/// stride.
const CHOSEN: i64 = 64;
const CHOSEN_GPU: i64 = 2048;

/// Managed and pinned memory that a kernel uses; the device has a copy for the duration of the launch.
#[derive(Default)]
struct Mirrors(BTreeMap<usize, Mirror>);

/// The device's copy of a range of host memory.
#[derive(Clone, Copy)]
struct Mirror {
    range: Range,
    copy: usize,
    /// Whether the copy is the device's part of a managed variable, which lives as long as the device.
    is_variable: bool,
}

impl Mirrors {
    /// Returns the device's address for a host address.
    fn address(&mut self, address: usize, place: SourceLine) -> usize {
        let Some(range) = memory::find(address).filter(|range| matches!(range.kind, Kind::Managed | Kind::Pinned))
        else {
            return address;
        };
        let mirror = *self.0.entry(range.start).or_insert_with(|| {
            let copy = memory::device_memory(range.bytes);
            if copy == 0 {
                end(place, "no device memory for a copy of managed memory", "use device arrays");
            }
            transfer::bytes(copy, range.start, range.bytes, Mode::HostToDevice);
            Mirror { range, copy, is_variable: false }
        });
        mirror.copy + (address - range.start)
    }

    fn copy_back(self) {
        for Mirror { range, copy, is_variable } in self.0.into_values() {
            transfer::bytes(range.start, copy, range.bytes, Mode::DeviceToHost);
            if !is_variable {
                memory::release(copy);
            }
        }
    }

    /// Copies managed variables of modules to the device.
    fn copy_variables(&mut self, place: SourceLine) {
        let (descriptors, others): (Vec<_>, Vec<_>) =
            modules::managed().into_iter().partition(|variable| variable.is_descriptor);
        for ManagedVariable { host, bytes, place: copy, .. } in others {
            transfer::bytes(copy, host, bytes, Mode::HostToDevice);
            let range = Range { start: host, bytes, kind: Kind::Managed, owner: Owner::Variable };
            self.0.insert(host, Mirror { range, copy, is_variable: true });
        }
        for variable in descriptors {
            let bytes = self.descriptor(variable.host, place);
            let count = bytes.len().min(variable.bytes);
            transfer::bytes(variable.place, bytes.as_ptr().addr(), count, Mode::HostToDevice);
        }
    }

    /// Returns the bytes of a descriptor at a host address, with the device's address of its array.
    fn descriptor(&mut self, address: usize, place: SourceLine) -> Vec<u8> {
        // SAFETY: the callers pass a descriptor's address, and it has so many bytes.
        let (descriptor, mut bytes) = unsafe {
            let descriptor = &*(address as *const Descriptor);
            (descriptor, std::slice::from_raw_parts(address as *const u8, descriptor.size()).to_vec())
        };
        // The base address is the first member.
        bytes[..size_of::<usize>()].copy_from_slice(&self.address(descriptor.base, place).to_ne_bytes());
        bytes
    }
}

/// Launches the kernel of `stub`. `values` has the size of each argument that is passed by value through an address,
/// else 0.
#[unsafe(no_mangle)]
extern "C" fn accord_cuf_launch(
    stub: usize,
    gx: i64,
    gy: i64,
    gz: i64,
    bx: i64,
    by: i64,
    bz: i64,
    stream: Option<&i64>,
    shared: i32,
    arguments: *const *const u8,
    values: *const i64,
    file: *const c_char,
    line: i32,
) {
    let place = SourceLine::new(file, line);
    let (device, has_type_of_gpus) = acc::device_and_type();
    let is_gpu = has_type_of_gpus && is_gpu(device);
    let chosen = if is_gpu { CHOSEN_GPU } else { CHOSEN };
    let grid = [gx, gy, gz].map(|count| if count == -1 { chosen } else { count });
    let block = [bx, by, bz];
    let Some(kernel) = modules::kernel(stub) else {
        end(
            place,
            "the launch of a kernel that no object of the program holds",
            "compile its source with accord cuf, and link it",
        );
    };
    let fits = |all: [i64; 3], most: [i64; 3]| all.iter().zip(most).all(|(count, most)| (1..=most).contains(count));
    if !fits(grid, GRID_AXES) || !fits(block, BLOCK_AXES) || block.iter().product::<i64>() > BLOCK {
        errors::keep(INVALID_CONFIGURATION);
        return;
    }
    let shared = match usize::try_from(shared) {
        Ok(shared) if fits_shared(shared + kernel.shared) => shared as u32,
        _ => {
            errors::keep(INVALID_VALUE);
            return;
        }
    };
    let stream = stream.copied().unwrap_or_else(streams::selected);
    if !streams::is_default(stream) && streams::device(stream) != Some(device) {
        errors::keep(INVALID_RESOURCE_HANDLE);
        return;
    }
    if let (true, GpuCode::None(why)) = (is_gpu, kernel.code) {
        no_code(place, &why.to_string_lossy());
    }
    let mut mirrors = Mirrors::default();
    mirrors.copy_variables(place);
    let count = kernel.parameters.len();
    // SAFETY: the compiler passes one address and one size for each of the kernel's parameters.
    let (addresses, values) =
        unsafe { (std::slice::from_raw_parts(arguments, count), std::slice::from_raw_parts(values, count)) };
    let arguments = kernel.parameters.iter().zip(addresses.iter().zip(values));
    let arguments = arguments
        .map(|(parameter, (address, value))| argument(*parameter, *address, *value, &mut mirrors, place))
        .collect();
    let axes = |all: [i64; 3]| all.map(|count| u32::try_from(count).unwrap_or(1));
    let launch = KernelLaunch {
        grid: axes(grid),
        block: axes(block),
        shared,
        waits: kernel.waits,
        slots: if is_gpu { Vec::new() } else { slots(&kernel) },
        arguments,
    };
    let queue = streams::begin(device, stream);
    let count = |axes: [u32; 3]| axes.into_iter().fold(1, u32::saturating_mul);
    // SAFETY: the compiler generated the region for such an entry.
    unsafe { acc::launch(kernel.region, &launch.encode(), queue, count(launch.grid), count(launch.block)) };
    if has_type_of_gpus {
        remember_kind(device, is_gpu);
    }
    if !mirrors.0.is_empty() {
        mirrors.copy_back();
    }
}

/// Devices whose kind is remembered.
const REMEMBERED: usize = 64;
/// `UNKNOWN`, or the kind of the device with this number among those that have the type of GPUs, as CPU devices can. A device's number stays after its first
/// use. A launch takes as long as a few queries of the runtime.
static KINDS: [AtomicU8; REMEMBERED] = [const { AtomicU8::new(UNKNOWN) }; REMEMBERED];
const UNKNOWN: u8 = 0;
const CPU: u8 = 1;
const GPU: u8 = 2;

fn remembered_kind(device: i32) -> Option<&'static AtomicU8> {
    KINDS.get(usize::try_from(device).ok()?)
}

/// Whether a device with the type of GPUs is one.
fn is_gpu(device: i32) -> bool {
    match remembered_kind(device).map_or(UNKNOWN, |kind| kind.load(Ordering::Relaxed)) {
        UNKNOWN => acc::is_gpu_device(device),
        kind => kind == GPU,
    }
}

fn remember_kind(device: i32, is_gpu: bool) {
    if let Some(kind) = remembered_kind(device)
        && kind.load(Ordering::Relaxed) == UNKNOWN
    {
        kind.store(if is_gpu { GPU } else { CPU }, Ordering::Relaxed);
    }
}

/// Whether the current device has so much shared memory for a block.
fn fits_shared(bytes: usize) -> bool {
    bytes <= SHARED || bytes <= attributes::shared_memory(acc::device())
}

/// Returns the variables that a CPU device sets for a kernel.
fn slots(kernel: &Kernel) -> Vec<(i64, u64)> {
    let distance = |slot: usize| (slot as i64).wrapping_sub(kernel.region as i64);
    modules::places().into_iter().map(|(slot, address)| (distance(slot), address as u64)).collect()
}

/// Ends the program at a launch on a GPU whose code the compiler could not make.
fn no_code(place: SourceLine, why: &str) -> ! {
    let why = if why.is_empty() { String::new() } else { format!(" ({why})") };
    end(
        place,
        &format!("a kernel without code for GPUs{why}"),
        "change its source, or run on CPU devices with ACC_DEVICE_TYPE=cpu",
    )
}

/// Returns a kernel's parameter for an argument at `address`.
fn argument(
    parameter: Parameter,
    address: *const u8,
    value: i64,
    mirrors: &mut Mirrors,
    place: SourceLine,
) -> KernelArgument {
    // SAFETY: the compiler passes the address of a variable of the parameter's size.
    let bytes = |address: *const u8, count: usize| unsafe { std::slice::from_raw_parts(address, count) }.to_vec();
    if let Parameter::Value(size) = parameter {
        return KernelArgument { bytes: bytes(address, size), by_address: false };
    }
    // SAFETY: the parameter is an address.
    let pointer = unsafe { address.cast::<usize>().read() };
    if let Ok(size @ 1..) = usize::try_from(value) {
        return KernelArgument { bytes: bytes(pointer as *const u8, size), by_address: true };
    }
    let is_descriptor =
        memory::find(pointer).is_some_and(|range| range.kind == Kind::Descriptor && range.start == pointer);
    if parameter == Parameter::Descriptor || is_descriptor {
        return KernelArgument { bytes: mirrors.descriptor(pointer, place), by_address: true };
    }
    KernelArgument { bytes: mirrors.address(pointer, place).to_ne_bytes().to_vec(), by_address: false }
}
