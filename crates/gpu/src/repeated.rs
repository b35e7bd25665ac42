//! Launches regions that a stream launches repeatedly as graphs of one kernel.
//!
//! The driver (13.0, H200) launches a kernel in 3.4 to 3.7 us, but a graph of it in 1.6 to 1.9 us, even with new dimensions and parameter. So a region
//! that a stream has launched often gets such a graph. The graph is ordered in the stream as a kernel is. Launches in progress keep their parameters.
//!
//! Creating a graph takes 5 to 30 us, and the process's first one 0.6 ms, which pays off after some hundred launches. Streams that the program has
//! requested get none, because the program may capture them itself.

use super::driver::{Driver, DriverError};
use cudarc::driver::sys::{CUDA_KERNEL_NODE_PARAMS_v2, CUfunction, CUgraph, CUgraphExec, CUgraphNode, CUstream};
use std::ffi::c_void;
use std::ptr::null_mut;

/// Oldest driver with which graphs were measured.
pub(crate) const DRIVER_MIN: i32 = 13_000;
/// The number of a region's launches in a stream before it gets a graph.
const LAUNCHES: u32 = 100;
/// Most graphs of a stream.
const GRAPHS_MAX: usize = 64;
/// Most regions of a stream that may have one.
const REGIONS_MAX: usize = 1024;

/// A launch of a kernel, as the driver describes it.
#[derive(Clone, Copy)]
pub(crate) struct Kernel<'a> {
    pub(crate) function: CUfunction,
    pub(crate) blocks: u32,
    pub(crate) threads: [u32; 3],
    /// The function's one parameter.
    pub(crate) parameter: &'a [u8],
}

/// The regions of one stream, by their numbers.
#[derive(Default)]
pub(crate) struct Repeated {
    regions: Vec<Region>,
    graphs: usize,
}

enum Region {
    /// The number of launches so far.
    Seen(u32),
    Graph(Box<Graph>),
    Never,
}

struct Graph {
    raw: CUgraph,
    node: CUgraphNode,
    exec: CUgraphExec,
    /// The dimensions that the next launch has by default.
    blocks: u32,
    threads: [u32; 3],
    parameter: Vec<u8>,
}

// SAFETY: graphs may be used from any thread, but only by one at a time.
unsafe impl Send for Graph {}

impl Kernel<'_> {
    /// Passes the driver's description of the kernel to `to`.
    fn describe<T>(&self, to: impl FnOnce(&CUDA_KERNEL_NODE_PARAMS_v2) -> T) -> T {
        let mut parameters: [*mut c_void; 1] = [self.parameter.as_ptr().cast_mut().cast()];
        let [x, y, z] = self.threads;
        to(&CUDA_KERNEL_NODE_PARAMS_v2 {
            func: self.function,
            gridDimX: self.blocks,
            gridDimY: 1,
            gridDimZ: 1,
            blockDimX: x,
            blockDimY: y,
            blockDimZ: z,
            sharedMemBytes: 0,
            kernelParams: parameters.as_mut_ptr(),
            extra: null_mut(),
            kern: null_mut(),
            ctx: null_mut(),
        })
    }

    /// Launches the kernel in a stream. The context is current.
    pub(crate) fn launch(&self, driver: &Driver, stream: CUstream) -> Result<(), DriverError> {
        let mut parameters: [*mut c_void; 1] = [self.parameter.as_ptr().cast_mut().cast()];
        let ([x, y, z], parameters) = (self.threads, parameters.as_mut_ptr());
        // SAFETY: the function's parameter has as many bytes, which the driver copies.
        unsafe { driver.cuLaunchKernel(self.function, self.blocks, 1, 1, x, y, z, 0, stream, parameters, null_mut()) }
    }
}

impl Repeated {
    /// Launches a region's graph, if it has one by now. Returns whether it did. The context is current.
    pub(crate) fn launch(
        &mut self,
        driver: &Driver,
        stream: CUstream,
        region: u32,
        kernel: &Kernel<'_>,
    ) -> Result<bool, DriverError> {
        let at = region as usize;
        if self.regions.len() <= at {
            if at >= REGIONS_MAX {
                return Ok(false);
            }
            self.regions.resize_with(at + 1, || Region::Seen(0));
        }
        let region = &mut self.regions[at];
        match region {
            Region::Graph(_) => {}
            Region::Never => return Ok(false),
            Region::Seen(launches) if *launches < LAUNCHES => {
                *launches += 1;
                return Ok(false);
            }
            Region::Seen(_) => {
                let graph = if self.graphs < GRAPHS_MAX { Graph::new(driver, kernel).ok() } else { None };
                self.graphs += usize::from(graph.is_some());
                *region = graph.map_or(Region::Never, |graph| Region::Graph(Box::new(graph)));
            }
        }
        let Region::Graph(graph) = region else { return Ok(false) };
        match graph.launch(driver, stream, kernel) {
            Ok(()) => Ok(true),
            Err(error) if error.is_sticky() => Err(error),
            // If the graph is not at fault, a normal launch reports the error.
            Err(_) => {
                graph.end(driver);
                *region = Region::Never;
                Ok(false)
            }
        }
    }

    /// The stream's end. The context is current.
    pub(crate) fn end(&mut self, driver: &Driver) {
        for region in self.regions.drain(..) {
            if let Region::Graph(graph) = region {
                graph.end(driver);
            }
        }
    }
}

impl Graph {
    fn new(driver: &Driver, kernel: &Kernel<'_>) -> Result<Self, DriverError> {
        let mut graph = Self {
            raw: null_mut(),
            node: null_mut(),
            exec: null_mut(),
            blocks: kernel.blocks,
            threads: kernel.threads,
            parameter: kernel.parameter.to_vec(),
        };
        // SAFETY: all are valid for writing; the driver copies the description and the parameter.
        let made = unsafe {
            driver
                .cuGraphCreate(&raw mut graph.raw, 0)
                .and_then(|()| {
                    kernel.describe(|node| {
                        driver.cuGraphAddKernelNode_v2(&raw mut graph.node, graph.raw, std::ptr::null(), 0, node)
                    })
                })
                .and_then(|()| driver.cuGraphInstantiateWithFlags(&raw mut graph.exec, graph.raw, 0))
        };
        if let Err(error) = made {
            graph.end(driver);
            return Err(error);
        }
        Ok(graph)
    }

    fn launch(&mut self, driver: &Driver, stream: CUstream, kernel: &Kernel<'_>) -> Result<(), DriverError> {
        if (self.blocks, self.threads, &*self.parameter) != (kernel.blocks, kernel.threads, kernel.parameter) {
            // SAFETY: graph and node belong together; the driver copies the description and the parameter.
            kernel.describe(|node| unsafe { driver.cuGraphExecKernelNodeSetParams_v2(self.exec, self.node, node) })?;
            (self.blocks, self.threads) = (kernel.blocks, kernel.threads);
            self.parameter.clear();
            self.parameter.extend_from_slice(kernel.parameter);
        }
        // SAFETY: the graph is alive, and of the stream's context.
        unsafe { driver.cuGraphLaunch(self.exec, stream) }
    }

    fn end(&self, driver: &Driver) {
        // SAFETY: both were created in this file and are not used any more. The driver lets launches in progress end.
        unsafe {
            if !self.exec.is_null() {
                let _ = driver.cuGraphExecDestroy(self.exec);
            }
            if !self.raw.is_null() {
                let _ = driver.cuGraphDestroy(self.raw);
            }
        }
    }
}
