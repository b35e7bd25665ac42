//! Registrations of a program's objects: kernels, and variables of modules that devices have copies of.

use crate::descriptor::Descriptor;
use crate::errors::{SourceLine, end};
use crate::memory::Kind;
use crate::publication::{PublishedKernel, PublishedVariable, publish};
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
    /// Bytes of static shared memory.
    pub(crate) shared: usize,
    /// The symbol, which is the name in the PTX.
    pub(crate) symbol: &'static CStr,
    pub(crate) code: GpuCode,
}

/// The code of an object for GPUs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum GpuCode {
    /// The object has PTX.
    Ptx,
    /// The object has none, for this reason.
    None(&'static CStr),
}

/// A variable of a module.
struct Variable {
    bytes: usize,
    /// The symbol, which is the name in the PTX.
    symbol: &'static CStr,
    /// Whether a source that defines it has code for GPUs.
    is_in_ptx: bool,
    /// The variables that hold its device address, one in each object.
    slots: Vec<usize>,
    /// Its address on each device with a copy.
    places: BTreeMap<i32, usize>,
    /// The host's variable, if this is the device's part of a managed one.
    managed: Option<ManagedHost>,
}

/// The host's part of a managed variable.
#[derive(Clone, Copy)]
struct ManagedHost {
    address: usize,
    /// Whether the variable is the descriptor of an array in managed memory.
    is_descriptor: bool,
}

/// A managed variable, with its place on the current device.
#[derive(Clone, Copy)]
pub(crate) struct ManagedVariable {
    pub(crate) host: usize,
    pub(crate) bytes: usize,
    pub(crate) place: usize,
    pub(crate) is_descriptor: bool,
}

struct Registry {
    /// The objects' code for GPUs, by the addresses that identify the objects.
    modules: BTreeMap<usize, GpuCode>,
    texts: Vec<&'static CStr>,
    kernels: BTreeMap<usize, Kernel>,
    variables: BTreeMap<usize, Variable>,
    is_published: bool,
}

/// The registrations of constructors, bounded by the program's text.
static REGISTRY: ShortLock<Registry> = ShortLock::new(Registry {
    modules: BTreeMap::new(),
    texts: Vec::new(),
    kernels: BTreeMap::new(),
    variables: BTreeMap::new(),
    is_published: false,
});

/// Returns the registrations. After the constructors, the first call registers the code for GPUs with OpenACC's runtime.
fn registry() -> ShortGuard<'static, Registry> {
    let mut registry = REGISTRY.lock();
    if !registry.is_published {
        registry.is_published = true;
        registry.publish();
    }
    registry
}

impl Registry {
    fn publish(&self) {
        let has_code = |kernel: &&Kernel| kernel.code == GpuCode::Ptx;
        let kernels = self.kernels.values().filter(has_code);
        let kernels: Vec<_> =
            kernels.map(|kernel| PublishedKernel { region: kernel.region, name: kernel.symbol }).collect();
        let variables = self.variables.iter().filter_map(|(host, variable)| {
            let published = PublishedVariable { host: *host, bytes: variable.bytes, name: variable.symbol };
            variable.is_in_ptx.then_some(published)
        });
        publish(&self.texts, &kernels, &variables.collect::<Vec<_>>());
        for variable in self.variables.values() {
            if let Some(host) = variable.managed.filter(|host| !host.is_descriptor) {
                memory::adopt(host.address, variable.bytes, Kind::Managed);
            }
        }
    }
}

/// Registers the code for GPUs with OpenACC's runtime, at the start of a Fortran main program.
#[unsafe(no_mangle)]
extern "C" fn _FortranACUFInit() {
    drop(registry());
}

/// Returns the kernel of a host stub.
pub(crate) fn kernel(stub: usize) -> Option<Kernel> {
    registry().kernels.get(&stub).cloned()
}

/// Registers an object's code for GPUs: `bytes` bytes of PTX texts, each with a final zero byte. Without code `text` is the reason.
/// Returns the object's identity.
#[unsafe(no_mangle)]
extern "C" fn accord_cuf_register_module_2(text: *const c_char, bytes: i64) -> usize {
    // SAFETY: the compiler's text is terminated, and lives as long as the program.
    let first: &'static CStr = unsafe { CStr::from_ptr(text) };
    let mut registry = REGISTRY.lock();
    let code = match usize::try_from(bytes) {
        Ok(bytes @ 1..) => {
            // SAFETY: the compiler's texts have so many bytes with the last one's final zero byte.
            let all: &'static [u8] = unsafe { std::slice::from_raw_parts(text.cast(), bytes) };
            let texts = all.split_inclusive(|byte| *byte == 0).filter_map(|text| CStr::from_bytes_with_nul(text).ok());
            registry.texts.extend(texts);
            GpuCode::Ptx
        }
        _ => GpuCode::None(first),
    };
    registry.modules.insert(text.addr(), code);
    text.addr()
}

/// Registers a kernel. `shared` is the size of its static shared memory.
#[unsafe(no_mangle)]
extern "C" fn accord_cuf_register_kernel(
    module: usize,
    stub: usize,
    name: *const c_char,
    parameters: *const c_char,
    region: usize,
    waits: i32,
    shared: i64,
) {
    // SAFETY: the compiler's texts are terminated, and live as long as the program.
    let (symbol, text): (&'static CStr, _) =
        unsafe { (CStr::from_ptr(name), CStr::from_ptr(parameters).to_string_lossy()) };
    let parameters = text
        .split_ascii_whitespace()
        .map(|word| match word {
            "a" => Parameter::Address,
            "d" => Parameter::Descriptor,
            size => Parameter::Value(size.parse().unwrap_or(8)),
        })
        .collect();
    let mut registry = REGISTRY.lock();
    let code = registry.modules.get(&module).copied().unwrap_or(GpuCode::None(c""));
    let shared = usize::try_from(shared).unwrap_or(0);
    registry.kernels.insert(stub, Kernel { parameters, region, waits: waits != 0, shared, symbol, code });
}

fn variable(registry: &mut Registry, host: usize) -> &mut Variable {
    registry.variables.entry(host).or_insert_with(|| Variable {
        bytes: 0,
        symbol: c"",
        is_in_ptx: false,
        slots: Vec::new(),
        places: BTreeMap::new(),
        managed: None,
    })
}

#[unsafe(no_mangle)]
extern "C" fn accord_cuf_register_slot(host: usize, slot: usize) {
    let mut registry = REGISTRY.lock();
    let slots = &mut variable(&mut registry, host).slots;
    if !slots.contains(&slot) {
        slots.push(slot);
    }
}

/// Registers the host's part of a managed variable, whose device part is registered as a variable of its own.
#[unsafe(no_mangle)]
extern "C" fn accord_cuf_register_managed(device: usize, host: usize, is_descriptor: i32) {
    let mut registry = REGISTRY.lock();
    let host = ManagedHost { address: host, is_descriptor: is_descriptor != 0 };
    variable(&mut registry, device).managed = Some(host);
}

/// Returns the managed variables, with their places on the current device.
pub(crate) fn managed() -> Vec<ManagedVariable> {
    let all: Vec<(usize, usize, ManagedHost)> = registry()
        .variables
        .iter()
        .filter_map(|(device, variable)| Some((*device, variable.bytes, variable.managed?)))
        .filter(|(_, bytes, _)| *bytes > 0)
        .collect();
    let found = all.into_iter().map(|(device, bytes, host)| ManagedVariable {
        host: host.address,
        bytes,
        place: place(device, bytes),
        is_descriptor: host.is_descriptor,
    });
    found.collect()
}

#[unsafe(no_mangle)]
extern "C" fn _FortranACUFRegisterVariable(module: usize, host: usize, name: *const c_char, bytes: i64) {
    let mut registry = REGISTRY.lock();
    let has_code = registry.modules.get(&module) == Some(&GpuCode::Ptx);
    let variable = variable(&mut registry, host);
    variable.bytes = variable.bytes.max(usize::try_from(bytes).unwrap_or(0));
    // SAFETY: the compiler's text is terminated, and lives as long as the program.
    variable.symbol = unsafe { CStr::from_ptr(name) };
    variable.is_in_ptx |= has_code;
}

/// Returns a variable's address on the current device. A GPU's code has the variable with its initial value. Elsewhere it is
/// allocated, and initialised with the host's value.
fn place(host: usize, bytes: usize) -> usize {
    let device = acc::device();
    if acc::is_gpu() {
        return twin(host, bytes, device);
    }
    let known =
        |registry: &Registry| registry.variables.get(&host).and_then(|variable| variable.places.get(&device).copied());
    let found = known(&registry());
    if let Some(place) = found {
        return place;
    }
    let new = memory::device_memory(bytes);
    if new == 0 {
        end(SourceLine::now(), "no memory for a module's variable on a device", "let the program use less of it");
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
        None => {
            // A kernel launched later uses it, so that the program can't free it.
            memory::adopt(new, bytes, Kind::Device(device));
            new
        }
    }
}

/// Returns the address of a variable in the code of a GPU, which is the current device.
fn twin(host: usize, bytes: usize, device: i32) -> usize {
    let address = acc::address_of(host);
    if address == 0 {
        end(
            SourceLine::now(),
            "a module's variable is not on the GPU, as its source has no code for GPUs",
            "compile the source again, and see the note of accord cuf",
        );
    }
    memory::adopt(address, bytes, Kind::Device(device));
    address
}

/// Returns the slots and addresses of the variables on the current device, which is a CPU device.
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

/// Returns the host address and the bytes of the variable of a module that holds a host address.
pub(crate) fn variable_at(host: usize) -> Option<(usize, usize)> {
    registry()
        .variables
        .range(..=host)
        .next_back()
        .filter(|(start, variable)| host - **start < variable.bytes)
        .map(|(start, variable)| (*start, variable.bytes))
}

/// Returns the host address and the bytes of the variable with this symbol, or the only one with this name in any module.
pub(crate) fn variable_named(name: &[u8]) -> Option<(usize, usize)> {
    let registry = registry();
    let with = |is_it: &dyn Fn(&[u8]) -> bool| {
        let mut found = registry.variables.iter().filter(|(_, one)| one.bytes > 0 && one.managed.is_none());
        let mut found = found.by_ref().filter(|(_, one)| is_it(one.symbol.to_bytes()));
        let first = found.next().map(|(host, one)| (*host, one.bytes));
        first.filter(|_| found.next().is_none())
    };
    with(&|symbol| symbol == name).or_else(|| with(&|symbol| fortran_name(symbol).eq_ignore_ascii_case(name)))
}

/// Returns the name of a variable of a module by flang's symbol: `_QM`, the module's name, `E`, the variable's.
fn fortran_name(symbol: &[u8]) -> &[u8] {
    match symbol
        .strip_prefix(b"_QM")
        .and_then(|rest| rest.iter().rposition(|byte| *byte == b'E').map(|at| &rest[at + 1..]))
    {
        Some(name) => name,
        None => symbol,
    }
}

/// Returns the address on the current device for a host address in a variable of a module; `None` for other addresses.
pub(crate) fn device_address(host: usize) -> Option<usize> {
    variable_at(host).map(|(start, bytes)| place(start, bytes) + (host - start))
}

/// Returns the address on the current device for a host address in a variable of a module.
#[unsafe(no_mangle)]
extern "C" fn _FortranACUFGetDeviceAddress(host: usize, file: *const c_char, line: i32) -> usize {
    device_address(host).unwrap_or_else(|| {
        end(
            SourceLine::new(file, line),
            "no device has this variable",
            "give it attribute device or constant in a module",
        )
    })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symbols_of_flang_end_with_the_variables_name() {
        assert_eq!(fortran_name(b"_QMmEda"), b"da");
        assert_eq!(fortran_name(b"vx"), b"vx");
    }
}
