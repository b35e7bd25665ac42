//! Launches of CUDA kernels: with a grid of blocks and arguments of their own.

use super::block_upload::upload;
use super::driver::DriverError;
use super::function::{Function, KernelParameters};
use super::stream::{Stream, StreamProgress};
use accord_types::kernel_launch::EncodedLaunch;
use accord_types::{ArgBlock, Error, ErrorCode, Result, SpanKind};
use std::ffi::c_void;
use std::ptr::null_mut;

/// Most blocks of each axis of a grid, on every existing device.
const GRID_MAX: [u32; 3] = [i32::MAX as u32, 65535, 65535];
/// Keys of the driver's list of extra launch options: the parameter buffer and its size.
const BUFFER: usize = 1;
const BUFFER_BYTES: usize = 2;

/// A kernel's launch, with dimensions that the device supports.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KernelGrid<'a> {
    parameters: &'a KernelParameters,
    launch: EncodedLaunch<'a>,
    /// Offset of the launch in the argument block.
    at: usize,
}

impl<'a> KernelGrid<'a> {
    /// Reads a launch from its argument block, and compares it with the kernel's limits.
    ///
    /// # Errors
    /// Returns `acc_error_invalid_argument` if the device does not support the dimensions, or if the arguments are not those of the
    /// kernel's parameters.
    pub(super) fn new(function: &Function, parameters: &'a KernelParameters, block: &ArgBlock<'a>) -> Result<Self> {
        let Some((at, launch)) = EncodedLaunch::of_block(block) else { return Err(too_many_arguments(function)) };
        let fits = |(count, most): (u32, u32)| (1..=most).contains(&count);
        let threads = launch.block().into_iter().fold(1_u64, |threads, count| threads.saturating_mul(count.into()));
        if !launch.grid().into_iter().zip(GRID_MAX).all(fits)
            || !(1..=u64::from(function.threads_max)).contains(&threads)
        {
            return Err(dimensions(function, &launch));
        }
        if launch.shared() > parameters.shared_max {
            return Err(shared_memory(function, parameters, &launch));
        }
        if !parameters.entry.fit(&launch) {
            return Err(other_arguments(function));
        }
        Ok(Self { parameters, launch, at })
    }
}

/// Puts a launch into the driver's stream. The device's context is current, and `state` is the stream's.
pub(super) fn issue(
    stream: &Stream,
    state: &mut StreamProgress,
    function: &Function,
    grid: &KernelGrid<'_>,
    block: &ArgBlock<'_>,
) -> Result<(), DriverError> {
    let KernelGrid { parameters, launch, at } = grid;
    let base = if launch.arguments().any(|argument| argument.by_address) {
        upload(stream, block)?.wrapping_add(*at as u64)
    } else {
        0
    };
    let mut bytes = parameters.entry.bytes();
    let buffer = &mut state.parameter;
    if buffer.len() < bytes {
        buffer.resize(bytes, 0);
    }
    parameters.entry.pack(launch, base, &mut buffer[..bytes]);
    let mut extra: [*mut c_void; 5] = [
        std::ptr::without_provenance_mut(BUFFER),
        buffer.as_mut_ptr().cast(),
        std::ptr::without_provenance_mut(BUFFER_BYTES),
        (&raw mut bytes).cast(),
        null_mut(),
    ];
    let [gx, gy, gz] = launch.grid();
    let [bx, by, bz] = launch.block();
    let span = stream.shared.tracer.begin(stream.raw);
    let driver = stream.shared.context.driver;
    // SAFETY: the buffer has the layout and size of the kernel's parameters, and the driver copies it.
    unsafe {
        driver.cuLaunchKernel(
            function.raw,
            gx,
            gy,
            gz,
            bx,
            by,
            bz,
            launch.shared(),
            stream.raw,
            null_mut(),
            extra.as_mut_ptr(),
        )
    }?;
    stream.shared.tracer.end(span, (stream.raw, stream.queue), SpanKind::Launch, 0, || function.name.clone());
    Ok(())
}

#[cold]
fn too_many_arguments(function: &Function) -> Error {
    let cause = format!("the arguments of kernel {} don't fit a launch's {} bytes", function.name, ArgBlock::BYTES_MAX);
    Error::new(ErrorCode::InvalidArgument, cause).remedy("pass large values in device memory")
}

#[cold]
fn dimensions(function: &Function, launch: &EncodedLaunch<'_>) -> Error {
    let (grid, block) = (launch.grid(), launch.block());
    let cause = format!(
        "kernel {} would have a grid of {grid:?} blocks of {block:?} threads, and the device takes {GRID_MAX:?} blocks of {} threads in \
         all for this kernel",
        function.name, function.threads_max
    );
    Error::new(ErrorCode::InvalidArgument, cause).remedy("launch smaller blocks")
}

#[cold]
fn shared_memory(function: &Function, parameters: &KernelParameters, launch: &EncodedLaunch<'_>) -> Error {
    let cause = format!(
        "kernel {} would have {} bytes of dynamic shared memory, and the device takes {} for this kernel",
        function.name,
        launch.shared(),
        parameters.shared_max
    );
    Error::new(ErrorCode::InvalidArgument, cause).remedy("launch with less shared memory")
}

#[cold]
fn other_arguments(function: &Function) -> Error {
    let cause = format!("the arguments of kernel {} are not those of its code for GPUs", function.name);
    Error::new(ErrorCode::InvalidArgument, cause).remedy("compile all sources by the same version of accord cuf")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::function::{Occupancy, Parameters};
    use crate::gangs::Gangs;
    use accord_image::{EntryParameters, GangCount};
    use accord_types::kernel_launch::{KernelArgument, KernelLaunch};

    /// `in_block`: whether the launch is in the argument block, and not in device memory.
    fn refusal(grid: [u32; 3], block: [u32; 3], shared: u32, argument: usize, in_block: bool) -> Option<String> {
        let entry = EntryParameters::read(".entry k(.param .u32 a)\n{", "k").unwrap();
        let parameters = KernelParameters { entry, shared_max: 1000 };
        let function = Function {
            name: "m::k".into(),
            place: (String::new(), 0),
            raw: null_mut(),
            parameters: Parameters::Kernel(parameters.clone()),
            dims: [0; 3],
            count: GangCount::AsGiven,
            threads_max: 640,
            occupancy: Occupancy { grid: 1, block: 1 },
            blocks: None,
            gangs: Gangs::few(),
        };
        let arguments = vec![KernelArgument { bytes: vec![0; argument], by_address: false }];
        let launch = KernelLaunch { grid, block, shared, arguments, ..KernelLaunch::default() };
        let mut bytes = [16u64, 0].map(u64::to_ne_bytes).concat();
        bytes.extend(launch.encode().iter().flat_map(|word| word.to_ne_bytes()));
        let block = ArgBlock { bytes: &bytes, slots: 1, relative: &[u64::from(in_block)] };
        KernelGrid::new(&function, &parameters, &block).err().map(|error| error.to_string())
    }

    #[test]
    fn a_launch_has_to_keep_to_the_kernels_limits() {
        assert_eq!(refusal([70_000, 65_535, 1], [32, 20, 1], 1000, 4, true), None);
        for (grid, block, shared, argument, printed) in [
            ([0, 1, 1], [1, 1, 1], 0, 4, "blocks"),
            ([1, 65_536, 1], [1, 1, 1], 0, 4, "blocks"),
            ([1, 1, 1], [641, 1, 1], 0, 4, "640 threads"),
            ([1, 1, 1], [u32::MAX, u32::MAX, 2], 0, 4, "640 threads"),
            ([1, 1, 1], [1, 1, 1], 1001, 4, "1001 bytes of dynamic shared memory"),
            ([1, 1, 1], [1, 1, 1], 0, 8, "arguments of kernel m::k"),
        ] {
            let refused = refusal(grid, block, shared, argument, true).unwrap();
            assert!(refused.contains("m::k") && refused.contains(printed), "{refused}");
        }
        let refused = refusal([1; 3], [1; 3], 0, 4, false).unwrap();
        assert!(refused.contains("don't fit a launch's 4096 bytes"), "{refused}");
    }
}
