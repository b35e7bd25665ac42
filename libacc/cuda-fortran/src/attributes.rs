//! Attributes of devices by the CUDA driver's numbers, which are also CUDA Fortran's.

use crate::acc;

/// The numbers of attributes.
pub(crate) struct Attribute;

impl Attribute {
    pub(crate) const THREADS: i32 = 1;
    pub(crate) const BLOCK_X: i32 = 2;
    pub(crate) const BLOCK_Y: i32 = 3;
    pub(crate) const BLOCK_Z: i32 = 4;
    pub(crate) const GRID_X: i32 = 5;
    pub(crate) const GRID_Y: i32 = 6;
    pub(crate) const GRID_Z: i32 = 7;
    /// Bytes of shared memory of a block.
    pub(crate) const SHARED: i32 = 8;
    pub(crate) const CONSTANT_MEMORY: i32 = 9;
    pub(crate) const WARP: i32 = 10;
    pub(crate) const PITCH: i32 = 11;
    pub(crate) const REGISTERS: i32 = 12;
    pub(crate) const CLOCK: i32 = 13;
    pub(crate) const TEXTURE_ALIGNMENT: i32 = 14;
    pub(crate) const OVERLAP: i32 = 15;
    pub(crate) const PROCESSORS: i32 = 16;
    pub(crate) const TIMEOUT: i32 = 17;
    pub(crate) const INTEGRATED: i32 = 18;
    pub(crate) const MAPS_HOST_MEMORY: i32 = 19;
    pub(crate) const COMPUTE_MODE: i32 = 20;
    pub(crate) const CONCURRENT_KERNELS: i32 = 31;
    pub(crate) const ECC: i32 = 32;
    pub(crate) const PCI_BUS: i32 = 33;
    pub(crate) const PCI_DEVICE: i32 = 34;
    pub(crate) const MEMORY_CLOCK: i32 = 36;
    pub(crate) const MEMORY_BUS: i32 = 37;
    pub(crate) const L2_CACHE: i32 = 38;
    pub(crate) const PROCESSOR_THREADS: i32 = 39;
    pub(crate) const COPY_ENGINES: i32 = 40;
    pub(crate) const UNIFIED_ADDRESSING: i32 = 41;
    pub(crate) const PCI_DOMAIN: i32 = 50;
    pub(crate) const MAJOR: i32 = 75;
    pub(crate) const MINOR: i32 = 76;
    pub(crate) const STREAM_PRIORITIES: i32 = 78;
    pub(crate) const PROCESSOR_SHARED: i32 = 81;
    pub(crate) const PROCESSOR_REGISTERS: i32 = 82;
    pub(crate) const MANAGED_MEMORY: i32 = 83;
    pub(crate) const PAGEABLE_MEMORY: i32 = 88;
    pub(crate) const CONCURRENT_MANAGED: i32 = 89;
    pub(crate) const COOPERATIVE_LAUNCH: i32 = 95;
    /// Bytes of shared memory of a block whose kernel opts in, as all kernels do here.
    pub(crate) const SHARED_ON_REQUEST: i32 = 97;
    pub(crate) const PROCESSOR_BLOCKS: i32 = 106;
}

/// Attributes that follow from the runtime: memory is not mapped, streams have no priorities, no grid waits for itself.
const OF_RUNTIME: &[(i32, i32)] = &[
    (Attribute::MAPS_HOST_MEMORY, 0),
    (Attribute::UNIFIED_ADDRESSING, 1),
    (Attribute::STREAM_PRIORITIES, 0),
    (Attribute::MANAGED_MEMORY, 1),
    (Attribute::PAGEABLE_MEMORY, 0),
    (Attribute::CONCURRENT_MANAGED, 0),
    (Attribute::COOPERATIVE_LAUNCH, 0),
];

/// Attributes of CPU devices: the limits of launches, and the features of capability 7.0. A CPU device has as many processors as cores, each of
/// which runs one block at a time. Clocks, caches and the memory bus are unknown.
const OF_CPU: &[(i32, i32)] = &[
    (Attribute::THREADS, 1024),
    (Attribute::BLOCK_X, 1024),
    (Attribute::BLOCK_Y, 1024),
    (Attribute::BLOCK_Z, 64),
    (Attribute::GRID_X, i32::MAX),
    (Attribute::GRID_Y, 65535),
    (Attribute::GRID_Z, 65535),
    (Attribute::SHARED, 48 << 10),
    (Attribute::CONSTANT_MEMORY, 64 << 10),
    (Attribute::WARP, 32),
    (Attribute::PITCH, i32::MAX),
    (Attribute::REGISTERS, 64 << 10),
    (Attribute::OVERLAP, 1),
    (Attribute::CONCURRENT_KERNELS, 1),
    (Attribute::PROCESSOR_THREADS, 1024),
    (Attribute::COPY_ENGINES, 1),
    (Attribute::MAJOR, 7),
    (Attribute::PROCESSOR_SHARED, 227 << 10),
    (Attribute::PROCESSOR_REGISTERS, 64 << 10),
    (Attribute::SHARED_ON_REQUEST, 227 << 10),
    (Attribute::PROCESSOR_BLOCKS, 1),
];

/// Attributes that GPUs report, apart from those of [`OF_CPU`] and [`OF_RUNTIME`].
const OF_GPU: &[i32] = &[
    Attribute::CLOCK,
    Attribute::TEXTURE_ALIGNMENT,
    Attribute::PROCESSORS,
    Attribute::TIMEOUT,
    Attribute::INTEGRATED,
    Attribute::COMPUTE_MODE,
    Attribute::ECC,
    Attribute::PCI_BUS,
    Attribute::PCI_DEVICE,
    Attribute::MEMORY_CLOCK,
    Attribute::MEMORY_BUS,
    Attribute::L2_CACHE,
    Attribute::PCI_DOMAIN,
    Attribute::MINOR,
];

fn find(list: &[(i32, i32)], attribute: i32) -> Option<i32> {
    list.iter().find(|(number, _)| *number == attribute).map(|(_, value)| *value)
}

/// Whether the value of an attribute is known.
pub(crate) fn is_known(attribute: i32) -> bool {
    find(OF_RUNTIME, attribute).is_some() || find(OF_CPU, attribute).is_some() || OF_GPU.contains(&attribute)
}

/// Returns the value of an attribute of a device; 0 if it is unknown.
pub(crate) fn value(num: i32, attribute: i32) -> i32 {
    if let Some(value) = find(OF_RUNTIME, attribute) {
        return value;
    }
    if attribute != Attribute::PROCESSORS && !acc::is_gpu_device(num) {
        return find(OF_CPU, attribute).unwrap_or(0);
    }
    acc::attribute(num, attribute)
}

/// Returns the most bytes of shared memory, static and dynamic, of a block on a device.
pub(crate) fn shared_memory(num: i32) -> usize {
    usize::try_from(value(num, Attribute::SHARED_ON_REQUEST)).unwrap_or(0)
}
