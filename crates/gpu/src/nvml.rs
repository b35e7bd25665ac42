//! The driver's management library, which knows how busy a GPU is, whichever program uses it. It is loaded at run time,
//! in a process of its own: it keeps the driver open, and may hang with it.

use accord_types::DeviceLoad;
use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_ulonglong, c_void};
use std::ptr::{null_mut, without_provenance_mut};

const LIBRARY: &CStr = c"libnvidia-ml.so.1";
/// `nvmlMemory_v2_t`'s version word: its size, and 2 in the upper byte.
const MEMORY_VERSION: c_uint = size_of::<Memory>() as c_uint | 2 << 24;
/// `NVML_VALUE_NOT_AVAILABLE`, which a successful call may report.
const UNAVAILABLE: c_ulonglong = c_ulonglong::MAX;
/// Highest utilization; a greater number is none.
const PERCENT_MAX: c_uint = 100;

/// `nvmlUtilization_t`: percent of the last sample period, of 1/6 s to 1 s, in which a kernel ran, or memory was read or written.
#[repr(C)]
#[derive(Default)]
struct Utilization {
    gpu: c_uint,
    memory: c_uint,
}

/// `nvmlMemory_v2_t`. Unlike version 1, `used` does not contain what the driver reserves for itself.
#[repr(C)]
#[derive(Default)]
struct Memory {
    version: c_uint,
    total: c_ulonglong,
    reserved: c_ulonglong,
    free: c_ulonglong,
    used: c_ulonglong,
}

/// A device of the library.
type Handle = *mut c_void;
type Init = unsafe extern "C" fn() -> c_int;
type HandleByUuid = unsafe extern "C" fn(*const c_char, *mut Handle) -> c_int;
type UtilizationRates = unsafe extern "C" fn(Handle, *mut Utilization) -> c_int;
type MemoryInfo = unsafe extern "C" fn(Handle, *mut Memory) -> c_int;

/// The library, loaded and initialised for the rest of the process's life.
pub struct Nvml {
    handle_by_uuid: HandleByUuid,
    utilization_rates: UtilizationRates,
    /// `None` in drivers before 510.
    memory_info: Option<MemoryInfo>,
}

/// A GPU of the library.
#[derive(Clone, Copy)]
pub struct ManagedGpu(usize);

impl Nvml {
    /// Loads the library. Returns `None` if there is none, it lacks a function, or it finds no driver.
    pub fn load() -> Option<Self> {
        // SAFETY: the name ends with a zero byte. Loading the library runs its constructors, as in the driver's own tools.
        let library = unsafe { libc::dlopen(LIBRARY.as_ptr(), libc::RTLD_NOW) };
        if library.is_null() {
            return None;
        }
        let symbol = |name: &CStr| {
            // SAFETY: the library is loaded, and the name ends with a zero byte.
            let symbol = unsafe { libc::dlsym(library, name.as_ptr()) };
            (!symbol.is_null()).then_some(symbol)
        };
        // SAFETY: the library's function of this name has this signature; so have those below.
        let init = unsafe { std::mem::transmute::<*mut c_void, Init>(symbol(c"nvmlInit_v2")?) };
        let loaded = Self {
            // SAFETY: as above.
            handle_by_uuid: unsafe {
                std::mem::transmute::<*mut c_void, HandleByUuid>(symbol(c"nvmlDeviceGetHandleByUUID")?)
            },
            // SAFETY: as above.
            utilization_rates: unsafe {
                std::mem::transmute::<*mut c_void, UtilizationRates>(symbol(c"nvmlDeviceGetUtilizationRates")?)
            },
            memory_info: symbol(c"nvmlDeviceGetMemoryInfo_v2").map(|symbol| {
                // SAFETY: as above.
                unsafe { std::mem::transmute::<*mut c_void, MemoryInfo>(symbol) }
            }),
        };
        // SAFETY: no preconditions.
        (unsafe { init() } == 0).then_some(loaded)
    }

    /// Returns the GPU with the driver's UUID (`GPU-...`), if the library knows it.
    pub fn gpu(&self, uuid: &str) -> Option<ManagedGpu> {
        let uuid = CString::new(uuid).ok()?;
        let mut handle = null_mut();
        // SAFETY: the text ends with a zero byte, and the library writes one handle.
        let code = unsafe { (self.handle_by_uuid)(uuid.as_ptr(), &raw mut handle) };
        (code == 0).then_some(ManagedGpu(handle.addr()))
    }

    /// Returns the present load of a GPU. What the library does not report is unknown, such as the utilization of a GPU
    /// in MIG mode.
    pub fn load_of(&self, gpu: ManagedGpu) -> DeviceLoad {
        let handle: Handle = without_provenance_mut(gpu.0);
        let mut rates = Utilization::default();
        // SAFETY: the handle is the library's, which writes one structure of this layout.
        let reported = unsafe { (self.utilization_rates)(handle, &raw mut rates) } == 0;
        let busy_percent = (reported && rates.gpu <= PERCENT_MAX).then_some(rates.gpu);
        let memory_used = self.memory_info.and_then(|call| {
            let mut memory = Memory { version: MEMORY_VERSION, ..Memory::default() };
            // SAFETY: as above; the version tells the library the layout.
            let reported = unsafe { call(handle, &raw mut memory) } == 0;
            (reported && memory.used != UNAVAILABLE).then_some(memory.used)
        });
        DeviceLoad { busy_percent, memory_used }
    }
}
