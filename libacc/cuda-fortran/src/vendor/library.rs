//! A library of NVIDIA: its file, its routines, and what it can work on.

use crate::errors::{SourceLine, end};
use crate::memory::{self, Kind};
use crate::{acc, modules, streams};
use accord_types::short_lock::ShortLock;
use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Folders of a toolkit's libraries that the loader does not search.
const FOLDERS: &[&str] = &["/usr/local/cuda/lib64", "/opt/cuda/lib64", "/usr/local/cuda/targets/x86_64-linux/lib"];
/// `RTLD_NOW`.
const NOW: c_int = 2;

unsafe extern "C" {
    fn dlopen(name: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
}

/// A library of NVIDIA.
pub(super) struct VendorLibrary {
    name: &'static str,
    /// The names of its files, the latest version first.
    files: &'static [&'static str],
    handle: OnceLock<usize>,
    /// The devices and streams of its handles, bounded by the program's own handles.
    handles: ShortLock<BTreeMap<usize, Binding>>,
    /// The routine that gives a handle a stream.
    stream_setter: (&'static CStr, AtomicUsize),
}

/// The device and the stream of a handle.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Binding {
    device: i32,
    pub(super) stream: i64,
}

impl VendorLibrary {
    pub(super) const fn new(name: &'static str, files: &'static [&'static str], stream_setter: &'static CStr) -> Self {
        let handles = ShortLock::new(BTreeMap::new());
        Self { name, files, handle: OnceLock::new(), handles, stream_setter: (stream_setter, AtomicUsize::new(0)) }
    }

    /// Loads the library; ends the program if there is none.
    fn load(&self, call: &CStr) -> usize {
        *self.handle.get_or_init(|| {
            let paths = |file: &&'static str| {
                let folders = FOLDERS.iter().map(move |folder| format!("{folder}/{file}"));
                std::iter::once((*file).to_owned()).chain(folders).collect::<Vec<_>>()
            };
            let open = |path: String| {
                let path = CString::new(path).ok()?;
                // SAFETY: the name is terminated; the library's constructors are NVIDIA's.
                Some(unsafe { dlopen(path.as_ptr(), NOW) }.addr()).filter(|handle| *handle != 0)
            };
            self.files.iter().flat_map(paths).find_map(open).unwrap_or_else(|| {
                end(
                    SourceLine::now(),
                    &format!(
                        "{} needs {}, and there is no {} on this machine",
                        call.to_string_lossy(),
                        self.name,
                        self.files[0]
                    ),
                    "install a CUDA toolkit, or name the folder of its libraries in LD_LIBRARY_PATH",
                )
            })
        })
    }

    /// Returns a routine of the library.
    pub(super) fn routine(&self, slot: &AtomicUsize, name: &CStr) -> usize {
        let known = slot.load(Ordering::Relaxed);
        if known != 0 {
            return known;
        }
        // SAFETY: the handle is a loaded library's, and the name is terminated.
        let address = unsafe { dlsym(self.load(name) as *mut c_void, name.as_ptr()) }.addr();
        if address == 0 {
            end(
                SourceLine::now(),
                &format!("the machine's {} has no {}", self.name, name.to_string_lossy()),
                "install a newer CUDA toolkit",
            );
        }
        slot.store(address, Ordering::Relaxed);
        address
    }

    /// Gives a new handle the device, which is current, and a stream.
    pub(super) fn bind(&self, handle: usize, stream: i64) -> i32 {
        let device = acc::device();
        self.handles.lock().insert(handle, Binding { device, stream });
        let raw = acc::cuda_stream(streams::begin(device, stream));
        let setter = self.routine(&self.stream_setter.1, self.stream_setter.0);
        // SAFETY: the routine takes a handle and a stream of the driver.
        let setter: unsafe extern "C" fn(usize, usize) -> i32 = unsafe { std::mem::transmute(setter) };
        // SAFETY: the handle is one that the library has just returned, or that the program passes.
        unsafe { setter(handle, raw) }
    }

    /// Gives a handle a stream of the driver, which the program orders itself.
    pub(super) fn bind_raw(&self, handle: usize, raw: usize) -> i32 {
        self.forget(handle);
        let setter = self.routine(&self.stream_setter.1, self.stream_setter.0);
        // SAFETY: the routine takes a handle and a stream of the driver.
        let setter: unsafe extern "C" fn(usize, usize) -> i32 = unsafe { std::mem::transmute(setter) };
        // SAFETY: both are the program's own.
        unsafe { setter(handle, raw) }
    }

    /// Returns the device and the stream of a handle; `None` for one that is not from here.
    pub(super) fn binding(&self, handle: usize) -> Option<Binding> {
        self.handles.lock().get(&handle).copied()
    }

    pub(super) fn forget(&self, handle: usize) {
        self.handles.lock().remove(&handle);
    }

    /// Orders the handle's next work after copies from the host, and after that of the streams that its stream waits for.
    pub(super) fn begin(&self, call: &CStr, handle: usize) {
        let Some(Binding { device, stream }) = self.binding(handle) else { return };
        if device != acc::device() {
            end(
                SourceLine::now(),
                &format!(
                    "{} with a handle of device {device}, while device {} is current",
                    call.to_string_lossy(),
                    acc::device()
                ),
                &format!("call cudaSetDevice({device}) before, or create a handle for each device"),
            );
        }
        acc::follow_copies(streams::begin(device, stream));
    }
}

/// Ends the program unless the current device is a GPU of this process.
pub(super) fn check_device(call: &CStr) {
    if acc::has_cuda_context() {
        return;
    }
    let (call, device) = (call.to_string_lossy(), acc::device());
    let name = acc::name(device);
    let name = String::from_utf8_lossy(&name);
    let (cause, remedy) = if acc::is_gpu() {
        (
            format!("{call} on device {device} ({name}), which is of another node"),
            "run the program on that node, or select a GPU of its own node by cudaSetDevice",
        )
    } else {
        (
            format!("{call} on device {device} ({name}), which is no GPU"),
            "select a GPU of the program's own node by cudaSetDevice, or call a library for CPUs on host arrays",
        )
    };
    end(SourceLine::now(), &cause, remedy)
}

/// Returns an argument for the library. Arrays have names with `p_`.
pub(super) fn argument(call: &CStr, name: &str, value: usize) -> usize {
    if name.starts_with("p_") { array(call, value) } else { value }
}

/// Returns the device address of an array argument.
fn array(call: &CStr, address: usize) -> usize {
    let address = modules::device_address(address).unwrap_or(address);
    let Some(range) = memory::find(address) else { return address };
    let refuse =
        |what: &str, remedy: &str| end(SourceLine::now(), &format!("{} gets {what}", call.to_string_lossy()), remedy);
    match range.kind {
        Kind::Device(device) if device == acc::device() => address,
        Kind::Device(device) => refuse(
            &format!("an array of device {device}, while device {} is current", acc::device()),
            "copy the array to the current device, or call cudaSetDevice before",
        ),
        Kind::Managed => {
            refuse("managed memory, which GPUs have no copy of outside of launches", "pass a device array")
        }
        Kind::Pinned | Kind::Descriptor => refuse("host memory as an array", "pass a device array"),
    }
}

/// Defines routines that call those of the library after the work that their stream waits for. Arrays have names with `p_`. Handles are addresses, or
/// integers without a sign. Numbers with fractions come last, with their types.
macro_rules! forwarded {
    ($library:ident, $handle:ty; $($name:ident($($argument:ident)* $(; $($number:ident: $kind:ty),+)?);)*) => {$(
        #[unsafe(no_mangle)]
        pub(super) extern "C" fn $name(handle: $handle, $($argument: usize,)* $($($number: $kind),+)?) -> i32 {
            static SLOT: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
            let name = $crate::vendor::library::c_name!($name);
            $crate::vendor::library::check_device(name);
            let routine = $library.routine(&SLOT, name);
            $(let $argument = $crate::vendor::library::argument(name, stringify!($argument), $argument);)*
            $library.begin(name, handle as usize);
            let routine: unsafe extern "C" fn($handle, $($crate::vendor::library::word!($argument),)* $($($kind),+)?) -> i32 =
                // SAFETY: the library's routine of this name has as many arguments, all of them integers or addresses but the numbers.
                unsafe { std::mem::transmute(routine) };
            // SAFETY: the arguments are the program's own.
            unsafe { routine(handle, $($argument,)* $($($number),+)?) }
        }
    )*};
}
pub(super) use forwarded;

/// Defines routines without a handle, such as those that describe an array. Arrays have names with `p_`.
macro_rules! without_handle {
    ($library:ident; $($name:ident($($argument:ident)*);)*) => {$(
        #[unsafe(no_mangle)]
        extern "C" fn $name($($argument: usize),*) -> i32 {
            static SLOT: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
            let name = $crate::vendor::library::c_name!($name);
            $crate::vendor::library::check_device(name);
            let routine = $library.routine(&SLOT, name);
            $(let $argument = $crate::vendor::library::argument(name, stringify!($argument), $argument);)*
            let routine: unsafe extern "C" fn($($crate::vendor::library::word!($argument)),*) -> i32 =
                // SAFETY: the library's routine of this name has as many arguments, all of them integers or addresses.
                unsafe { std::mem::transmute(routine) };
            // SAFETY: the arguments are the program's own.
            unsafe { routine($($argument),*) }
        }
    )*};
}
pub(super) use without_handle;

/// Defines the routines that create a handle, destroy it, give it a stream, and return the stream. `$invalid` is the status for an unknown stream.
macro_rules! handles {
    ($library:ident, $invalid:expr; $create:ident($($argument:ident)*), $destroy:ident, $set_stream:ident $(, $get_stream:ident)?) => {
        #[unsafe(no_mangle)]
        pub(super) extern "C" fn $create(handle: &mut usize, $($argument: usize),*) -> i32 {
            static SLOT: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
            let name = $crate::vendor::library::c_name!($create);
            $crate::vendor::library::check_device(name);
            let routine = $library.routine(&SLOT, name);
            let routine: unsafe extern "C" fn(*mut usize, $($crate::vendor::library::word!($argument)),*) -> i32 =
                // SAFETY: the routine stores a handle.
                unsafe { std::mem::transmute(routine) };
            // SAFETY: the handle is the program's variable.
            match unsafe { routine(handle, $($argument),*) } {
                0 => $library.bind(*handle, $crate::streams::selected()),
                status => status,
            }
        }

        #[unsafe(no_mangle)]
        extern "C" fn $destroy(handle: usize) -> i32 {
            static SLOT: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
            let routine = $library.routine(&SLOT, $crate::vendor::library::c_name!($destroy));
            $library.forget(handle);
            // SAFETY: the routine takes a handle.
            let routine: unsafe extern "C" fn(usize) -> i32 = unsafe { std::mem::transmute(routine) };
            // SAFETY: the handle is the program's own.
            unsafe { routine(handle) }
        }

        /// Gives a handle a stream of CUDA Fortran, whose numbers are small, or one of the driver, as OpenACC and C have them.
        #[unsafe(no_mangle)]
        pub(super) extern "C" fn $set_stream(handle: usize, stream: i64) -> i32 {
            $crate::vendor::library::check_device($crate::vendor::library::c_name!($set_stream));
            if i32::try_from(stream).is_err() {
                return $library.bind_raw(handle, stream as usize);
            }
            if $crate::streams::device(stream).is_none() { $invalid } else { $library.bind(handle, stream) }
        }

        $(
            /// Returns the handle's stream of CUDA Fortran.
            #[unsafe(no_mangle)]
            extern "C" fn $get_stream(handle: usize, stream: &mut i64) -> i32 {
                let Some(binding) = $library.binding(handle) else { return $invalid };
                *stream = binding.stream;
                0
            }
        )?
    };
}
pub(super) use handles;

/// The type of an argument that is an integer or an address.
macro_rules! word {
    ($argument:ident) => {
        usize
    };
}
pub(super) use word;

/// Returns a name with its final zero byte.
macro_rules! c_name {
    ($name:ident) => {
        const {
            match std::ffi::CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                Ok(name) => name,
                Err(_) => c"",
            }
        }
    };
}
pub(super) use c_name;
