//! OpenACC as in a program that GCC compiled: libacc.so's functions by name, and a region of its own.
//!
//! Nothing of Accord's is linked, so measurements through this show what such a program gets. libacc ends the process
//! with a message if a call fails, as in any program.

mod region;

use libloading::os::unix::Library;
use region::Region;
use std::ffi::{CStr, c_int, c_void};
use std::sync::OnceLock;

type NumDevices = unsafe extern "C" fn(c_int) -> c_int;
type DeviceType = unsafe extern "C" fn() -> c_int;
type SetDeviceNum = unsafe extern "C" fn(c_int, c_int);
type ByHostAddress = unsafe extern "C" fn(*mut c_void, usize);
type Create = unsafe extern "C" fn(*mut c_void, usize) -> *mut c_void;
type Between = unsafe extern "C" fn(*mut c_void, *mut c_void, usize, c_int, c_int);

/// Whether the system finds a library by this name, and loads it.
pub fn loads(library: &str) -> bool {
    // SAFETY: its constructors run as in each program that is linked with it. It stays loaded no longer than this call.
    unsafe { Library::new(library) }.is_ok()
}

/// The functions of this process's libacc.so.
#[derive(Debug)]
pub struct OpenAcc {
    num_devices: NumDevices,
    device_type: DeviceType,
    set_device_num: SetDeviceNum,
    create: Create,
    delete: ByHostAddress,
    update_device: ByHostAddress,
    update_self: ByHostAddress,
    memcpy_d2d: Between,
    region: Region,
    kind: OnceLock<c_int>,
}

impl OpenAcc {
    /// Finds libacc.so in this process; `None` if it is not loaded. Starts nothing.
    pub fn here() -> Option<Self> {
        let process = Library::this();
        // Only libacc.so has this function; libgomp has the others, too.
        symbol::<unsafe extern "C" fn(c_int)>(&process, c"acc_init_device")?;
        Some(Self {
            num_devices: symbol(&process, c"acc_get_num_devices")?,
            device_type: symbol(&process, c"acc_get_device_type")?,
            set_device_num: symbol(&process, c"acc_set_device_num")?,
            create: symbol(&process, c"acc_create")?,
            delete: symbol(&process, c"acc_delete")?,
            update_device: symbol(&process, c"acc_update_device")?,
            update_self: symbol(&process, c"acc_update_self")?,
            memcpy_d2d: symbol(&process, c"acc_memcpy_d2d")?,
            region: Region::register(
                symbol(&process, c"GOMP_offload_register_ver")?,
                symbol(&process, c"GOACC_parallel_keyed")?,
            ),
            kind: OnceLock::new(),
        })
    }

    /// Returns OpenACC's number of this process's device type.
    pub fn kind(&self) -> i32 {
        // SAFETY: it has no arguments.
        *self.kind.get_or_init(|| unsafe { (self.device_type)() })
    }

    /// Returns the number of devices of that type.
    pub fn devices(&self) -> u32 {
        // SAFETY: any number is a valid argument.
        u32::try_from(unsafe { (self.num_devices)(self.kind()) }).unwrap_or(0)
    }

    /// Makes memory present on all devices until the value is dropped.
    pub fn present(&self, bytes: usize) -> Present<'_> {
        let mut host: Box<[u64]> = vec![0; bytes.div_ceil(8).max(1)].into();
        for device in 0..self.devices() {
            self.take(device);
            // SAFETY: the memory belongs to the program, has this length, and lives until it is deleted.
            unsafe { (self.create)(host.as_mut_ptr().cast(), host.len() * 8) };
        }
        Present { openacc: self, host }
    }

    /// Runs an empty region, and waits for it.
    pub fn launch(&self, device: u32) {
        self.take(device);
        self.region.launch();
    }

    fn take(&self, device: u32) {
        // SAFETY: libacc checks the number.
        unsafe { (self.set_device_num)(c_int::try_from(device).unwrap_or(c_int::MAX), self.kind()) };
    }
}

/// Memory of the program that is present on all devices.
#[derive(Debug)]
pub struct Present<'a> {
    openacc: &'a OpenAcc,
    host: Box<[u64]>,
}

impl Present<'_> {
    /// Returns the program's copy.
    pub fn host(&mut self) -> &mut [u64] {
        &mut self.host
    }

    /// Copies the first bytes to a device.
    pub fn to_device(&mut self, device: u32, bytes: usize) {
        let bytes = self.within(bytes);
        self.openacc.take(device);
        // SAFETY: at least this many bytes of the memory are present there.
        unsafe { (self.openacc.update_device)(self.host.as_mut_ptr().cast(), bytes) };
    }

    /// Copies the first bytes from a device.
    pub fn from_device(&mut self, device: u32, bytes: usize) {
        let bytes = self.within(bytes);
        self.openacc.take(device);
        // SAFETY: at least this many bytes of the memory are present there, and no other code uses it.
        unsafe { (self.openacc.update_self)(self.host.as_mut_ptr().cast(), bytes) };
    }

    /// Copies the first bytes from one device to another.
    pub fn between(&mut self, from: u32, to: u32, bytes: usize) {
        let bytes = self.within(bytes);
        let number = |device| c_int::try_from(device).unwrap_or(c_int::MAX);
        let host = self.host.as_mut_ptr().cast();
        // SAFETY: at least this many bytes of the memory are present on both.
        unsafe { (self.openacc.memcpy_d2d)(host, host, bytes, number(to), number(from)) };
    }

    fn within(&self, bytes: usize) -> usize {
        bytes.min(self.host.len() * 8)
    }
}

impl Drop for Present<'_> {
    fn drop(&mut self) {
        for device in 0..self.openacc.devices() {
            self.openacc.take(device);
            // SAFETY: it was created with this address and length.
            unsafe { (self.openacc.delete)(self.host.as_mut_ptr().cast(), self.host.len() * 8) };
        }
    }
}

/// Returns a function of this process. Only this crate calls it, with types from the function's header.
fn symbol<T: Copy>(process: &Library, name: &CStr) -> Option<T> {
    // SAFETY: all callers name functions with the types of openacc.h and of GCC's calls.
    unsafe { process.get::<T>(name.to_bytes_with_nul()) }.ok().map(|symbol| *symbol)
}
