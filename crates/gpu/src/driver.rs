//! The CUDA driver, loaded at run time.
//!
//! Types and constants are cudarc's, but the functions are looked up here. cudarc's own table panics when a symbol is
//! missing, and prefers a developer's stub `libcuda.so` to the driver's `libcuda.so.1`. It returns errors as a Rust enum,
//! which a newer driver's numbers would break.

use accord_types::short_lock::assert_none_held;
use accord_types::{DeviceFault, Error, ErrorCode};
use cudarc::driver::sys::{
    CUDA_KERNEL_NODE_PARAMS_v2, CUDA_MEMCPY2D, CUcontext, CUdevice, CUdevice_attribute, CUdeviceptr, CUevent,
    CUfunction, CUfunction_attribute, CUgraph, CUgraphExec, CUgraphNode, CUipcMemHandle, CUjit_option, CUjitInputType,
    CUlinkState, CUmemAccessDesc, CUmemAllocationHandleType, CUmemAllocationProp, CUmemGenericAllocationHandle,
    CUmodule, CUpointer_attribute, CUstream, CUuuid,
};
use std::ffi::{CStr, c_char, c_int, c_uint, c_ulonglong, c_void};
use std::fmt;
use std::sync::OnceLock;

/// The reason why there is no usable driver.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum NoDriver {
    /// `libcuda.so.1` does not exist, or can't be loaded.
    Absent(String),
    /// The driver lacks this function.
    Old(&'static str),
}

/// A call of the driver that failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct DriverError {
    pub(crate) call: &'static str,
    pub(crate) code: i32,
}

/// The function that clears memory, and is called for nothing else.
const CLEAR: &str = "cuMemsetD32Async";

/// Functions that only query. All others may wait: for the device, for space in a stream, or for one of the driver's own locks.
const QUICK: &[&str] = &[
    "cuGetErrorName",
    "cuGetErrorString",
    "cuDeviceGetAttribute",
    "cuDeviceCanAccessPeer",
    "cuCtxGetCurrent",
    "cuCtxPushCurrent_v2",
    "cuCtxPopCurrent_v2",
    "cuCtxSetCurrent",
    "cuPointerGetAttributes",
    "cuStreamQuery",
    "cuStreamIsCapturing",
    "cuEventQuery",
    "cuEventElapsedTime",
];

/// Checks, in debug builds, that no lock is held over a function that may wait.
#[inline]
fn check_locks(call: &str) {
    if cfg!(debug_assertions) && !QUICK.contains(&call) {
        assert_none_held();
    }
}

macro_rules! driver {
    ($($name:ident($($arg:ident: $ty:ty),*);)* @ $($extra:ident($($extra_arg:ident: $extra_ty:ty),*);)*) => {
        /// The driver's functions that Accord uses.
        #[allow(non_snake_case)]
        pub(crate) struct Driver {
            $($name: unsafe extern "C" fn($($ty),*) -> c_int,)*
            $($extra: Option<unsafe extern "C" fn($($extra_ty),*) -> c_int>,)*
        }

        #[allow(non_snake_case, clippy::too_many_arguments)]
        #[allow(dead_code)] // Two are called by their addresses.
        impl Driver {
            fn load(library: *mut c_void) -> Result<Self, NoDriver> {
                Ok(Self {
                    $($name: {
                        let name = concat!(stringify!($name), "\0");
                        // SAFETY: the library is loaded and the name ends with a zero byte.
                        let symbol = unsafe { libc::dlsym(library, name.as_ptr().cast()) };
                        if symbol.is_null() {
                            return Err(NoDriver::Old(stringify!($name)));
                        }
                        // SAFETY: the driver's function of this name has this signature.
                        unsafe { std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($ty),*) -> c_int>(symbol) }
                    },)*
                    $($extra: {
                        let name = concat!(stringify!($extra), "\0");
                        // SAFETY: as above; a null pointer is `None`.
                        unsafe {
                            std::mem::transmute::<*mut c_void, Option<unsafe extern "C" fn($($extra_ty),*) -> c_int>>(
                                libc::dlsym(library, name.as_ptr().cast()),
                            )
                        }
                    },)*
                })
            }

            $(
                /// # Safety
                /// See the driver's manual.
                pub(crate) unsafe fn $name(&self, $($arg: $ty),*) -> Result<(), DriverError> {
                    check_locks(stringify!($name));
                    // SAFETY: the caller's promise.
                    match unsafe { (self.$name)($($arg),*) } {
                        0 => Ok(()),
                        code => Err(DriverError { call: stringify!($name), code }),
                    }
                }
            )*

            $(
                /// Calls the function. Returns [`DriverError::NOT_SUPPORTED`] if the driver lacks it.
                ///
                /// # Safety
                /// See the driver's manual.
                pub(crate) unsafe fn $extra(&self, $($extra_arg: $extra_ty),*) -> Result<(), DriverError> {
                    check_locks(stringify!($extra));
                    // SAFETY: the caller's promise.
                    match self.$extra.map_or(DriverError::NOT_SUPPORTED, |call| unsafe { call($($extra_arg),*) }) {
                        0 => Ok(()),
                        code => Err(DriverError { call: stringify!($extra), code }),
                    }
                }
            )*
        }
    };
}

driver! {
    cuInit(flags: c_uint);
    cuDriverGetVersion(version: *mut c_int);
    cuGetErrorName(code: c_int, text: *mut *const c_char);
    cuGetErrorString(code: c_int, text: *mut *const c_char);
    cuDeviceGet(device: *mut CUdevice, ordinal: c_int);
    cuDeviceGetCount(count: *mut c_int);
    cuDeviceGetName(name: *mut c_char, len: c_int, device: CUdevice);
    cuDeviceGetAttribute(value: *mut c_int, attribute: CUdevice_attribute, device: CUdevice);
    cuDeviceTotalMem_v2(bytes: *mut usize, device: CUdevice);
    cuDeviceGetUuid_v2(uuid: *mut CUuuid, device: CUdevice);
    cuDeviceGetPCIBusId(text: *mut c_char, len: c_int, device: CUdevice);
    cuDeviceCanAccessPeer(can: *mut c_int, device: CUdevice, peer: CUdevice);
    cuDevicePrimaryCtxRetain(context: *mut CUcontext, device: CUdevice);
    cuDevicePrimaryCtxRelease_v2(device: CUdevice);
    cuCtxGetCurrent(context: *mut CUcontext);
    cuCtxPushCurrent_v2(context: CUcontext);
    cuCtxPopCurrent_v2(context: *mut CUcontext);
    cuCtxSetCurrent(context: CUcontext);
    cuCtxCreate_v2(context: *mut CUcontext, flags: c_uint, device: CUdevice);
    cuCtxDestroy_v2(context: CUcontext);
    cuMemGetInfo_v2(free: *mut usize, total: *mut usize);
    cuMemAddressReserve(start: *mut CUdeviceptr, size: usize, alignment: usize, at: CUdeviceptr, flags: c_ulonglong);
    cuMemAddressFree(start: CUdeviceptr, size: usize);
    cuMemCreate(handle: *mut CUmemGenericAllocationHandle, size: usize, properties: *const CUmemAllocationProp, flags: c_ulonglong);
    cuMemRelease(handle: CUmemGenericAllocationHandle);
    cuMemMap(start: CUdeviceptr, size: usize, offset: usize, handle: CUmemGenericAllocationHandle, flags: c_ulonglong);
    cuMemUnmap(start: CUdeviceptr, size: usize);
    cuMemSetAccess(start: CUdeviceptr, size: usize, access: *const CUmemAccessDesc, count: usize);
    cuMemHostAlloc(memory: *mut *mut c_void, size: usize, flags: c_uint);
    cuMemFreeHost(memory: *mut c_void);
    cuMemHostRegister_v2(memory: *mut c_void, size: usize, flags: c_uint);
    cuMemHostUnregister(memory: *mut c_void);
    cuMemsetD32Async(to: CUdeviceptr, value: c_uint, count: usize, stream: CUstream);
    cuMemcpyHtoDAsync_v2(to: CUdeviceptr, from: *const c_void, bytes: usize, stream: CUstream);
    cuMemcpyDtoHAsync_v2(to: *mut c_void, from: CUdeviceptr, bytes: usize, stream: CUstream);
    cuMemcpyDtoDAsync_v2(to: CUdeviceptr, from: CUdeviceptr, bytes: usize, stream: CUstream);
    cuMemcpy2DAsync_v2(copy: *const CUDA_MEMCPY2D, stream: CUstream);
    cuMemcpyPeerAsync(to: CUdeviceptr, to_context: CUcontext, from: CUdeviceptr, from_context: CUcontext, bytes: usize, stream: CUstream);
    cuMemAlloc_v2(start: *mut CUdeviceptr, bytes: usize);
    cuMemFree_v2(start: CUdeviceptr);
    cuPointerGetAttributes(count: c_uint, attributes: *mut CUpointer_attribute, values: *mut *mut c_void, address: CUdeviceptr);
    cuStreamCreate(stream: *mut CUstream, flags: c_uint);
    cuStreamDestroy_v2(stream: CUstream);
    cuStreamQuery(stream: CUstream);
    cuStreamSynchronize(stream: CUstream);
    cuStreamWaitEvent(stream: CUstream, event: CUevent, flags: c_uint);
    cuEventCreate(event: *mut CUevent, flags: c_uint);
    cuEventDestroy_v2(event: CUevent);
    cuEventRecord(event: CUevent, stream: CUstream);
    cuEventQuery(event: CUevent);
    cuEventSynchronize(event: CUevent);
    cuEventElapsedTime(milliseconds: *mut f32, start: CUevent, end: CUevent);
    cuLinkCreate_v2(count: c_uint, options: *mut CUjit_option, values: *mut *mut c_void, state: *mut CUlinkState);
    cuLinkAddData_v2(state: CUlinkState, kind: CUjitInputType, data: *mut c_void, size: usize, name: *const c_char, count: c_uint, options: *mut CUjit_option, values: *mut *mut c_void);
    cuLinkComplete(state: CUlinkState, code: *mut *mut c_void, size: *mut usize);
    cuLinkDestroy(state: CUlinkState);
    cuModuleLoadData(module: *mut CUmodule, code: *const c_void);
    cuModuleUnload(module: CUmodule);
    cuModuleGetFunction(function: *mut CUfunction, module: CUmodule, name: *const c_char);
    cuModuleGetGlobal_v2(start: *mut CUdeviceptr, bytes: *mut usize, module: CUmodule, name: *const c_char);
    cuFuncGetAttribute(value: *mut c_int, attribute: CUfunction_attribute, function: CUfunction);
    cuFuncSetAttribute(function: CUfunction, attribute: CUfunction_attribute, value: c_int);
    cuOccupancyMaxActiveBlocksPerMultiprocessor(blocks: *mut c_int, function: CUfunction, threads: c_int, dynamic: usize);
    cuOccupancyMaxPotentialBlockSize(grid: *mut c_int, block: *mut c_int, function: CUfunction, shared: *const c_void, dynamic: usize, limit: c_int);
    cuLaunchKernel(function: CUfunction, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint, block_x: c_uint, block_y: c_uint, block_z: c_uint, shared: c_uint, stream: CUstream, parameters: *mut *mut c_void, extra: *mut *mut c_void);
    @
    cuStreamIsCapturing(stream: CUstream, status: *mut c_int);
    cuCtxEnablePeerAccess(context: CUcontext, flags: c_uint);
    cuIpcGetMemHandle(handle: *mut CUipcMemHandle, start: CUdeviceptr);
    cuIpcOpenMemHandle_v2(start: *mut CUdeviceptr, handle: CUipcMemHandle, flags: c_uint);
    cuIpcCloseMemHandle(start: CUdeviceptr);
    cuMemExportToShareableHandle(shareable: *mut c_void, handle: CUmemGenericAllocationHandle, kind: CUmemAllocationHandleType, flags: c_ulonglong);
    cuGraphCreate(graph: *mut CUgraph, flags: c_uint);
    cuGraphDestroy(graph: CUgraph);
    cuGraphAddKernelNode_v2(node: *mut CUgraphNode, graph: CUgraph, after: *const CUgraphNode, count: usize, kernel: *const CUDA_KERNEL_NODE_PARAMS_v2);
    cuGraphInstantiateWithFlags(exec: *mut CUgraphExec, graph: CUgraph, flags: c_ulonglong);
    cuGraphExecKernelNodeSetParams_v2(exec: CUgraphExec, node: CUgraphNode, kernel: *const CUDA_KERNEL_NODE_PARAMS_v2);
    cuGraphExecDestroy(exec: CUgraphExec);
    cuGraphLaunch(exec: CUgraphExec, stream: CUstream);
    cuMemImportFromShareableHandle(handle: *mut CUmemGenericAllocationHandle, shareable: *mut c_void, kind: CUmemAllocationHandleType);
}

impl Driver {
    /// The driver of this process, loaded at the first call.
    pub(crate) fn get() -> Result<&'static Self, NoDriver> {
        static DRIVER: OnceLock<Driver> = OnceLock::new();
        if let Some(driver) = DRIVER.get() {
            return Ok(driver);
        }
        // Descriptors or memory for loading may be missing now and available later.
        let driver = Self::open()?;
        Ok(DRIVER.get_or_init(|| driver))
    }

    fn open() -> Result<Self, NoDriver> {
        // SAFETY: the name ends with a zero byte. Loading the driver runs its constructors, as in every CUDA program.
        let library = unsafe { libc::dlopen(c"libcuda.so.1".as_ptr(), libc::RTLD_NOW) };
        if library.is_null() {
            // SAFETY: no preconditions.
            let why = unsafe { libc::dlerror() };
            if why.is_null() {
                return Err(NoDriver::Absent(String::new()));
            }
            // SAFETY: dlerror returns a string that holds until this thread's next call.
            let why = unsafe { CStr::from_ptr(why) };
            return Err(NoDriver::Absent(why.to_string_lossy().into_owned()));
        }
        // The library stays loaded, because the table above lives as long as the process.
        Self::load(library)
    }

    fn text(call: unsafe extern "C" fn(c_int, *mut *const c_char) -> c_int, code: i32) -> Option<String> {
        let mut text = std::ptr::null();
        // SAFETY: the driver writes a pointer to a constant string.
        if unsafe { call(code, &raw mut text) } != 0 || text.is_null() {
            return None;
        }
        // SAFETY: as above.
        Some(unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
    }
}

impl DriverError {
    pub(crate) const INVALID_VALUE: i32 = 1;
    pub(crate) const OUT_OF_MEMORY: i32 = 2;
    pub(crate) const NO_DEVICE: i32 = 100;
    pub(crate) const NOT_READY: i32 = 600;
    pub(crate) const PEER_ACCESS_ALREADY_ENABLED: i32 = 704;
    pub(crate) const ALREADY_REGISTERED: i32 = 712;
    pub(crate) const NOT_SUPPORTED: i32 = 801;

    /// Whether the context is lost, so that every later call fails in the same way.
    pub(crate) fn is_sticky(self) -> bool {
        matches!(self.code, 4 | 214 | 220 | 226 | 700 | 702 | 709 | 710 | 714..=719 | 999)
    }

    /// Returns the fault of the device, or of a region, that the driver has reported.
    pub(crate) fn fault(self) -> Option<DeviceFault> {
        let is_clearing = self.call == CLEAR && self.code != Self::OUT_OF_MEMORY && !self.is_sticky();
        DeviceFault::cuda(self.code).or(is_clearing.then(|| DeviceFault::clearing(self.code)))
    }

    /// Converts the error to one with a condition of the specification.
    pub(crate) fn into_error(self, code: ErrorCode) -> Error {
        let code = if self.code == Self::OUT_OF_MEMORY { ErrorCode::OutOfMemory } else { code };
        let error = Error::new(code, self.to_string()).device_fault(self.fault());
        match self.code {
            36 | 222 => error.remedy("update the NVIDIA driver"),
            46 => error.remedy(
                "another process holds the device, which is in exclusive-process mode: end it, or use nvidia-smi -c DEFAULT",
            ),
            101 | 100 => error.remedy("check CUDA_VISIBLE_DEVICES"),
            803 | 804 => error.remedy("restart the machine after a driver update"),
            _ => error,
        }
    }
}

impl fmt::Display for DriverError {
    /// Formats `cuMemcpyDtoHAsync_v2: CUDA_ERROR_ILLEGAL_ADDRESS (700), an illegal memory access was encountered`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let driver = Driver::get().ok();
        let name = driver.and_then(|driver| Driver::text(driver.cuGetErrorName, self.code));
        let text = driver.and_then(|driver| Driver::text(driver.cuGetErrorString, self.code));
        write!(f, "{}: {} ({})", self.call, name.as_deref().unwrap_or("an error without a name"), self.code)?;
        text.map_or(Ok(()), |text| write!(f, ", {text}"))
    }
}

impl From<DriverError> for Error {
    fn from(error: DriverError) -> Self {
        error.into_error(ErrorCode::System)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_cannot_be_cleared_is_the_device_s_fault_unless_there_is_none_left() {
        let fault = |call, code| DriverError { call, code }.fault();
        assert_eq!(fault(CLEAR, 1), Some(DeviceFault::clearing(1)));
        assert_eq!(fault(CLEAR, DriverError::OUT_OF_MEMORY), None);
        // A region that ran before has done this.
        assert_eq!(fault(CLEAR, 700), DeviceFault::cuda(700));
        assert_eq!((fault("cuMemMap", 1), fault("cuMemMap", 214)), (None, DeviceFault::cuda(214)));
        let error = DriverError { call: "cuMemMap", code: 214 }.into_error(ErrorCode::System);
        assert_eq!(error.fault(), DeviceFault::cuda(214));
    }
}
