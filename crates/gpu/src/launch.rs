//! Launches: dimensions, argument blocks, the driver's call.

use super::block_upload::upload;
use super::driver::DriverError;
use super::function::{Function, Occupancy, Parameters};
use super::gangs::LaunchVariant;
use super::kernel_launch::{self, KernelGrid};
use super::repeated::Kernel;
use super::stream::{Stream, StreamProgress};
use accord_image::{GangCount, Packed};
use accord_types::{ArgBlock, Error, ErrorCode, LaunchDims, Result, SpanKind};

/// Threads of a warp, on every existing device.
pub(super) const WARP: u32 = 32;
/// Most workers of a gang whose vectors are longer than a warp: each needs a barrier of its own.
const WORKERS_OF_LONG_VECTORS_MAX: u32 = 15;

/// The dimensions of one launch.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Shape<'a> {
    Region(Grid),
    Kernel(KernelGrid<'a>),
}

impl<'a> Shape<'a> {
    /// Chooses the dimensions of a region's launch, or reads those of a kernel's from its argument block.
    ///
    /// # Errors
    /// Returns `acc_error_invalid_argument` if the device does not support the dimensions, or if a kernel's arguments are not those
    /// of its parameters.
    #[inline]
    pub(crate) fn new(function: &'a Function, asked: LaunchDims, block: &ArgBlock<'a>) -> Result<Self> {
        match &function.parameters {
            Parameters::Kernel(parameters) => KernelGrid::new(function, parameters, block).map(Self::Kernel),
            _ => choose(function, asked).map(Self::Region),
        }
    }
}

/// Gangs, workers and vector length of one launch, all chosen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Grid {
    pub(crate) gangs: u32,
    pub(crate) workers: u32,
    pub(crate) vector: u32,
    /// Whether the gangs can share thread blocks.
    pub(crate) can_share: bool,
    /// The number of gangs that fit on the device at a time, if the number of gangs was open.
    pub(crate) open: Option<u32>,
}

/// Chooses open dimensions. The compiler's fixed ones come first, then the launch's, then those that fill the device several
/// times.
///
/// # Errors
/// Returns `acc_error_invalid_argument` if a gang would have more threads than the device supports. Also returns it if the
/// number of gangs that the code relies on is unknown.
#[inline]
pub(crate) fn choose(function: &Function, asked: LaunchDims) -> Result<Grid> {
    let pick = |fixed: u32, asked: u32| if fixed == 0 { asked } else { fixed };
    let [mut gangs, workers, vector] = function.dims;
    match function.count {
        GangCount::AsGiven => {}
        // A launch that brings a number is of code that was compiled for any.
        _ if gangs == 0 && asked.gangs > 0 => {}
        GangCount::Exactly(count) => gangs = count,
        GangCount::Lost => {
            return Err(lost(function));
        }
    }
    let mut grid = Grid {
        gangs: pick(gangs, asked.gangs),
        workers: pick(workers, asked.workers),
        vector: pick(vector, asked.vector),
        can_share: false,
        open: None,
    };
    if grid.vector == 0 || !grid.vector.is_multiple_of(WARP) {
        grid.vector = WARP;
    }
    let workers_max = if grid.vector > WARP { WORKERS_OF_LONG_VECTORS_MAX } else { u32::MAX };
    if grid.workers == 0 {
        grid.workers = (function.occupancy.block / grid.vector).clamp(1, workers_max);
    }
    // The driver's number of places holds for its preferred number of threads.
    let Occupancy { grid: places, block } = function.occupancy;
    let threads = (grid.workers * grid.vector).max(WARP);
    let places = (u64::from(places) * u64::from(block.max(WARP)) / u64::from(threads)).max(1);
    let places = u32::try_from(places).unwrap_or(u32::MAX);
    if grid.gangs == 0 {
        let places = function.blocks.map_or(places, |blocks| blocks.places);
        grid.gangs = function.gangs.usual(true, function.blocks.is_some()).gangs(places);
        grid.open = Some(places);
    }
    // Few gangs get blocks of their own, so that they are spread over all multiprocessors.
    let enough = grid.open.is_some() || grid.gangs > places;
    grid.can_share = enough && function.blocks.is_some_and(|blocks| blocks.of(grid.gangs) > 1);
    if grid.workers > workers_max || grid.workers.saturating_mul(grid.vector) > function.threads_max {
        return Err(too_large(function, grid));
    }
    Ok(grid)
}

#[cold]
fn lost(function: &Function) -> Error {
    Error::new(
        ErrorCode::InvalidArgument,
        format!(
            "{} was compiled for a constant number of gangs above 65535, of which GCC keeps 16 bits, and its code does \
             not show the number",
            function.describe()
        ),
    )
    .remedy("write a variable in num_gangs, or at most 65535")
}

#[cold]
fn too_large(function: &Function, grid: Grid) -> Error {
    Error::new(
        ErrorCode::InvalidArgument,
        format!(
            "region {} would have gangs of {} workers with vectors of {}, and the device takes {} threads a gang",
            function.name, grid.workers, grid.vector, function.threads_max
        ),
    )
    .remedy("lower num_workers or vector_length")
}

/// Puts a launch into the driver's stream. The device's context is current, and `state` is the stream's.
pub(crate) fn issue(
    stream: &Stream,
    state: &mut StreamProgress,
    index: u32,
    function: &Function,
    shape: Shape<'_>,
    block: &ArgBlock<'_>,
) -> Result<(), DriverError> {
    state.core.ran_kernel(index);
    match shape {
        Shape::Region(grid) => issue_region(stream, state, index, function, grid, block),
        Shape::Kernel(grid) => kernel_launch::issue(stream, state, function, &grid, block),
    }
}

#[inline]
fn issue_region(
    stream: &Stream,
    state: &mut StreamProgress,
    index: u32,
    function: &Function,
    grid: Grid,
    block: &ArgBlock<'_>,
) -> Result<(), DriverError> {
    let StreamProgress { parameter, repeated, .. } = state;
    let address;
    let parameter = match &function.parameters {
        Parameters::Block(layout) => {
            let bytes = layout.bytes as usize;
            if parameter.len() < bytes {
                parameter.resize(bytes, 0);
            }
            if layout.pack(block, None, parameter) == Packed::BlockApart {
                let at = upload(stream, block)?;
                layout.pack(block, Some(at), parameter);
            }
            &parameter[..bytes]
        }
        _ => {
            address = if block.slots > 0 { upload(stream, block)? } else { 0 }.to_ne_bytes();
            &address
        }
    };
    let span = stream.shared.tracer.begin(stream.raw);
    let context = &stream.shared.context;
    let graphs = context.graphs && !stream.is_exposed();
    let Grid { gangs, workers, vector, can_share, open } = grid;
    let mut launch = |way: Option<LaunchVariant>| {
        let gangs = match (open, way) {
            (Some(places), Some(way)) => way.gangs(places),
            _ => gangs,
        };
        let together = function.blocks.filter(|_| way.is_some_and(|way| way.together));
        let each = together.map_or(1, |blocks| blocks.of(gangs));
        let kernel =
            Kernel { function: function.raw, blocks: gangs / each, threads: [vector, workers, each], parameter };
        if graphs && repeated.launch(context.driver, stream.raw, index, &kernel)? {
            return Ok(());
        }
        kernel.launch(context.driver, stream.raw)
    };
    if open.is_none() && !can_share {
        launch(None)?;
    } else {
        let (way, measurement) = function.gangs.begin(stream.raw, open.is_some(), can_share);
        launch(Some(way))?;
        if let Some(measurement) = measurement {
            measurement.end(stream.raw);
        }
    }
    stream.shared.tracer.end(span, (stream.raw, stream.queue), SpanKind::Launch, 0, || function.name.clone());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gangs::Gangs;
    use std::ptr::null_mut;

    fn function(dims: [u32; 3]) -> Function {
        let fixed = dims[1] * dims[2];
        let block = if fixed == 0 { 256 } else { fixed };
        let occupancy = Occupancy { grid: 264 * 256 / block, block };
        Function {
            name: "main._omp_fn.0".into(),
            place: (String::new(), 0),
            raw: null_mut(),
            parameters: Parameters::BlockAddress,
            dims,
            count: GangCount::AsGiven,
            threads_max: 1024,
            occupancy,
            blocks: None,
            gangs: Gangs::few(),
        }
    }

    fn chosen(dims: [u32; 3], asked: [u32; 3]) -> Result<[u32; 3]> {
        let [gangs, workers, vector] = asked;
        choose(&function(dims), LaunchDims { gangs, workers, vector })
            .map(|grid| [grid.gangs, grid.workers, grid.vector])
    }

    #[test]
    fn compiler_fixed_dimensions_precede_requested_ones() {
        assert_eq!(chosen([10, 4, 64], [7, 7, 32]), Ok([10, 4, 64]));
        assert_eq!(chosen([0, 1, 32], [7, 3, 128]), Ok([7, 1, 32]));
        assert_eq!(chosen([1, 1, 32], [0, 0, 0]), Ok([1, 1, 32]));
    }

    #[test]
    fn open_gang_count_fills_the_device_twice() {
        assert_eq!(chosen([0, 0, 32], [0, 0, 0]), Ok([2 * 264, 8, 32]));
        assert_eq!(chosen([0, 1, 32], [0, 0, 0]), Ok([2 * 264 * 8, 1, 32]));
        assert_eq!(chosen([0, 0, 32], [0, 4, 0]), Ok([2 * 264 * 2, 4, 32]));
        assert_eq!(chosen([0, 0, 128], [5, 0, 0]), Ok([5, 2, 128]));
        assert_eq!(chosen([0, 0, 0], [1, 1, 1]), Ok([1, 1, 32]));
    }

    #[test]
    fn gang_count_required_by_the_code_is_used() {
        let chosen = |dims, count, asked| {
            let function = Function { count, ..function(dims) };
            choose(&function, LaunchDims { gangs: asked, ..LaunchDims::default() })
                .map(|grid| (grid.gangs, grid.open.is_some()))
        };
        assert_eq!(chosen([34_464, 1, 32], GangCount::Exactly(100_000), 0), Ok((100_000, false)));
        assert_eq!(chosen([0, 1, 32], GangCount::Exactly(65_536), 0), Ok((65_536, false)));
        assert_eq!(chosen([0, 1, 32], GangCount::Lost, 7), Ok((7, false)));
        assert_eq!(chosen([0, 1, 32], GangCount::Exactly(65_536), 7), Ok((7, false)));
        let refused = chosen([0, 1, 32], GangCount::Lost, 0).unwrap_err().to_string();
        assert!(refused.contains("main._omp_fn.0") && refused.contains("num_gangs"), "{refused}");
    }

    #[test]
    fn too_many_threads_are_refused() {
        assert!(chosen([0, 33, 32], [1, 0, 0]).is_err());
        assert!(chosen([0, 0, 64], [1, 16, 0]).is_err());
        assert!(chosen([0, 32, 32], [1, 0, 0]).is_ok());
    }
}
