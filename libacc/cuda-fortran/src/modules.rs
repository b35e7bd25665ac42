//! Registrations of a program's objects: kernels, and variables of modules that devices have copies of.

use crate::descriptor::Descriptor;
use crate::errors::{SourceLine, end};
use crate::transfer::{self, Mode};
use crate::{acc, memory};
use accord_types::short_lock::{ShortGuard, ShortLock};
use std::collections::BTreeMap;
use std::ffi::{CStr, c_char};

/// A parameter of a kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Parameter {
    /// An address.
    Address,
    /// The address of a descriptor.
    Descriptor,
    /// A value of this size.
    Value(usize),
}

/// A kernel.
#[derive(Clone, Debug)]
pub(crate) struct Kernel {
    pub(crate) parameters: Vec<Parameter>,
    /// The function that a CPU device starts.
    pub(crate) region: usize,
    /// Whether threads of a block wait for each other.
    pub(crate) waits: bool,
}

/// A variable of a module.
struct Variable {
    bytes: usize,
    /// The variables that hold its device address, one in each object.
    slots: Vec<usize>,
    /// Its address on each device with a copy.
    places: BTreeMap<i32, usize>,
}

struct Registry {
    kernels: BTreeMap<usize, Kernel>,
    variables: BTreeMap<usize, Variable>,
}

/// The registrations of constructors, bounded by the program's text.
static REGISTRY: ShortLock<Registry> =
    ShortLock::new(Registry { kernels: BTreeMap::new(), variables: BTreeMap::new() });

fn registry() -> ShortGuard<'static, Registry> {
    REGISTRY.lock()
}

/// Returns the kernel of a host stub.
pub(crate) fn kernel(stub: usize) -> Option<Kernel> {
    registry().kernels.get(&stub).cloned()
}

/// Registers an object's code for GPUs. Kernels are launched on CPU devices only; `ptx` identifies the object.
#[unsafe(no_mangle)]
extern "C" fn accord_cuf_register_module(ptx: usize, _bytes: i64) -> usize {
    ptx
}

/// Registers a kernel.
#[unsafe(no_mangle)]
extern "C" fn accord_cuf_register_kernel(
    _module: usize,
    stub: usize,
    _name: *const c_char,
    parameters: *const c_char,
    region: usize,
    flags: i32,
) {
    // SAFETY: the compiler's text is terminated.
    let text = unsafe { CStr::from_ptr(parameters) }.to_string_lossy();
    let parameters = text
        .split_ascii_whitespace()
        .map(|word| match word {
            "a" => Parameter::Address,
            "d" => Parameter::Descriptor,
            size => Parameter::Value(size.parse().unwrap_or(8)),
        })
        .collect();
    registry().kernels.insert(stub, Kernel { parameters, region, waits: flags & 1 != 0 });
}

fn variable(registry: &mut Registry, host: usize) -> &mut Variable {
    registry.variables.entry(host).or_insert_with(|| Variable { bytes: 0, slots: Vec::new(), places: BTreeMap::new() })
}

#[unsafe(no_mangle)]
extern "C" fn accord_cuf_register_slot(host: usize, slot: usize) {
    let mut registry = registry();
    let slots = &mut variable(&mut registry, host).slots;
    if !slots.contains(&slot) {
        slots.push(slot);
    }
}

#[unsafe(no_mangle)]
extern "C" fn _FortranACUFRegisterVariable(_module: usize, host: usize, _name: *const c_char, bytes: i64) {
    let mut registry = registry();
    let variable = variable(&mut registry, host);
    variable.bytes = variable.bytes.max(usize::try_from(bytes).unwrap_or(0));
}

/// Returns a variable's address on the current device, where it is initialised with the host's value.
fn place(host: usize, bytes: usize) -> usize {
    let device = acc::device();
    let known =
        |registry: &Registry| registry.variables.get(&host).and_then(|variable| variable.places.get(&device).copied());
    let found = known(&registry());
    if let Some(place) = found {
        return place;
    }
    let new = memory::device_memory(bytes);
    if new == 0 {
        end(
            SourceLine::new(std::ptr::null(), 0),
            "no memory for a module's variable on a device",
            "let the program use less of it",
        );
    }
    transfer::bytes(new, host, bytes, Mode::HostToDevice);
    let mut registry = registry();
    let raced = known(&registry);
    if raced.is_none()
        && let Some(variable) = registry.variables.get_mut(&host)
    {
        variable.places.insert(device, new);
    }
    drop(registry);
    match raced {
        Some(first) => {
            memory::release(new);
            first
        }
        None => new,
    }
}

/// Returns the current device's slots and addresses of the variables.
pub(crate) fn places() -> Vec<(usize, usize)> {
    let all: Vec<(usize, usize, Vec<usize>)> = registry()
        .variables
        .iter()
        .filter(|(_, variable)| variable.bytes > 0)
        .map(|(host, variable)| (*host, variable.bytes, variable.slots.clone()))
        .collect();
    let mut places = Vec::new();
    for (host, bytes, slots) in all {
        let place = place(host, bytes);
        places.extend(slots.into_iter().map(|slot| (slot, place)));
    }
    places
}

/// Returns the address on the current device for a host address in a variable of a module.
#[unsafe(no_mangle)]
extern "C" fn _FortranACUFGetDeviceAddress(host: usize, file: *const c_char, line: i32) -> usize {
    let found = registry()
        .variables
        .range(..=host)
        .next_back()
        .filter(|(start, variable)| host - **start < variable.bytes)
        .map(|(start, variable)| (*start, variable.bytes));
    let Some((start, bytes)) = found else {
        end(
            SourceLine::new(file, line),
            "no device has this variable",
            "give it attribute device or constant in a module",
        );
    };
    place(start, bytes) + (host - start)
}

/// Copies a module array's descriptor to the current device.
pub(crate) fn synchronize(descriptor: &Descriptor, at: SourceLine) {
    let host = std::ptr::from_ref(descriptor).addr();
    let bytes = registry().variables.get(&host).map(|variable| variable.bytes);
    let Some(bytes) = bytes.filter(|bytes| *bytes > 0) else {
        end(at, "no device has this array", "give it attribute device in a module");
    };
    let place = place(host, bytes);
    transfer::bytes(place, host, descriptor.size().min(bytes), Mode::HostToDevice);
}

#[unsafe(no_mangle)]
extern "C" fn _FortranACUFSyncGlobalDescriptor(host: &Descriptor, file: *const c_char, line: i32) {
    synchronize(host, SourceLine::new(file, line));
}

#[unsafe(no_mangle)]
extern "C" fn _FortranACUFDescriptorSync(to: usize, from: &Descriptor, _file: *const c_char, _line: i32) {
    transfer::bytes(to, std::ptr::from_ref(from).addr(), from.size(), Mode::HostToDevice);
}

/// Assigns to an array of a module, whose descriptor the device has, too.
#[unsafe(no_mangle)]
extern "C" fn _FortranACUFDataTransferGlobalDescDesc(
    to: &mut Descriptor,
    from: &Descriptor,
    mode: u32,
    file: *const c_char,
    line: i32,
) {
    let (mode, place) = (Mode::new(mode), SourceLine::new(file, line));
    transfer::arrays(to, from, mode, place);
    if mode != Mode::DeviceToHost {
        synchronize(to, place);
    }
}
