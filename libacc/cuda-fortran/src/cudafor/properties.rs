//! The properties of a device: `cudaGetDeviceProperties` and `cudaDeviceGetAttribute`.

use crate::acc::{self, Number};
use crate::attributes::{self, Attribute};
use crate::errors::{INVALID_DEVICE, INVALID_VALUE, SUCCESS, keep};

/// `cudaDeviceProp`, as the module declares it.
#[repr(C)]
struct Properties {
    name: [u8; 256],
    total_memory: usize,
    shared_memory: usize,
    numbers: [i32; NUMBERS.len()],
    sizes: [usize; SIZES.len()],
}

/// The attributes that are default integers of `cudaDeviceProp`, in its order: dimensions of a block and of a grid have three each.
const NUMBERS: [i32; 36] = [
    Attribute::REGISTERS,
    Attribute::WARP,
    Attribute::THREADS,
    Attribute::BLOCK_X,
    Attribute::BLOCK_Y,
    Attribute::BLOCK_Z,
    Attribute::GRID_X,
    Attribute::GRID_Y,
    Attribute::GRID_Z,
    Attribute::CLOCK,
    Attribute::MAJOR,
    Attribute::MINOR,
    Attribute::PROCESSORS,
    Attribute::PROCESSOR_THREADS,
    Attribute::MEMORY_CLOCK,
    Attribute::MEMORY_BUS,
    Attribute::COMPUTE_MODE,
    Attribute::OVERLAP,
    Attribute::INTEGRATED,
    Attribute::MAPS_HOST_MEMORY,
    Attribute::TIMEOUT,
    Attribute::CONCURRENT_KERNELS,
    Attribute::ECC,
    Attribute::PCI_BUS,
    Attribute::PCI_DEVICE,
    Attribute::MANAGED_MEMORY,
    Attribute::CONCURRENT_MANAGED,
    Attribute::COOPERATIVE_LAUNCH,
    Attribute::L2_CACHE,
    Attribute::COPY_ENGINES,
    Attribute::PCI_DOMAIN,
    Attribute::UNIFIED_ADDRESSING,
    Attribute::STREAM_PRIORITIES,
    Attribute::PROCESSOR_REGISTERS,
    Attribute::PROCESSOR_BLOCKS,
    Attribute::PAGEABLE_MEMORY,
];

/// The attributes that are sizes at the end of `cudaDeviceProp`.
const SIZES: [i32; 5] = [
    Attribute::CONSTANT_MEMORY,
    Attribute::TEXTURE_ALIGNMENT,
    Attribute::PITCH,
    Attribute::PROCESSOR_SHARED,
    Attribute::SHARED_ON_REQUEST,
];

#[unsafe(no_mangle)]
extern "C" fn accord_cuf_get_properties(properties: &mut Properties, num: i32) -> i32 {
    if !acc::is_device(num) {
        return keep(INVALID_DEVICE);
    }
    let size = |attribute| usize::try_from(attributes::value(num, attribute)).unwrap_or(0);
    *properties = Properties {
        name: [b' '; 256],
        total_memory: acc::number(num, Number::Memory),
        shared_memory: size(Attribute::SHARED),
        numbers: NUMBERS.map(|attribute| attributes::value(num, attribute)),
        sizes: SIZES.map(size),
    };
    let name = acc::name(num);
    let count = name.len().min(properties.name.len());
    properties.name[..count].copy_from_slice(&name[..count]);
    SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn accord_cuf_get_attribute(value: &mut i32, attribute: i32, num: i32) -> i32 {
    if !acc::is_device(num) {
        return keep(INVALID_DEVICE);
    }
    if !attributes::is_known(attribute) {
        return keep(INVALID_VALUE);
    }
    *value = attributes::value(num, attribute);
    SUCCESS
}

/// Returns the first device with at least the capability, the memory and the multiprocessors that are wanted; the current one without such a device.
#[unsafe(no_mangle)]
extern "C" fn accord_cuf_choose_device(num: &mut i32, wanted: &Properties) -> i32 {
    let number = |attribute| NUMBERS.iter().position(|known| *known == attribute).map_or(0, |at| wanted.numbers[at]);
    let capability = (number(Attribute::MAJOR), number(Attribute::MINOR));
    let fits = |device: &i32| {
        (attributes::value(*device, Attribute::MAJOR), attributes::value(*device, Attribute::MINOR)) >= capability
            && attributes::value(*device, Attribute::PROCESSORS) >= number(Attribute::PROCESSORS)
            && acc::number(*device, Number::Memory) >= wanted.total_memory
    };
    *num = (0..acc::devices()).find(fits).unwrap_or_else(acc::device);
    SUCCESS
}
