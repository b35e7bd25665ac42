//! libhwloc 2, loaded when a topology is first read. Programs so start on machines without it, such as users' laptops.
//!
//! The functions have the library's names, so the linker finds them for the hwloc crate, too, and needs no library.

use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};
use std::ffi::{c_int, c_uint, c_void};
use std::ptr::{null, null_mut};
use std::sync::OnceLock;

/// The library's file. Its number stays the same in all of hwloc 2.
pub(super) const NAME: &str = "libhwloc.so.15";

/// Whether the library is loaded, or can be.
pub(super) fn is_there() -> bool {
    functions().is_some()
}

fn functions() -> Option<&'static Functions> {
    static FUNCTIONS: OnceLock<Option<Functions>> = OnceLock::new();
    FUNCTIONS.get_or_init(Functions::load).as_ref()
}

/// Defines the library's functions, which call those of the loaded library. Without the library they return the value
/// behind `or`; as no topology can be created then, only that of `hwloc_topology_init` is ever seen.
macro_rules! forward {
    ($(fn $name:ident($($argument:ident: $kind:ty),*) -> $result:ty, or $absent:expr;)*) => {
        /// The functions of the loaded library.
        struct Functions {
            $($name: unsafe extern "C" fn($($kind),*) -> $result,)*
            /// Keeps the library loaded.
            _library: Library,
        }

        impl Functions {
            fn load() -> Option<Self> {
                // Its plugins, such as the one that reads files, look for its functions in the process.
                // SAFETY: the library's constructors run as in each program that is linked with it.
                let library = unsafe { Library::open(Some(NAME), RTLD_NOW | RTLD_GLOBAL) }.ok()?;
                Some(Self {
                    // SAFETY: the library's function of this name has this signature.
                    $($name: *unsafe { library.get(concat!(stringify!($name), "\0").as_bytes()) }.ok()?,)*
                    _library: library,
                })
            }
        }

        $(
            /// # Safety
            /// As the library's function of this name.
            #[unsafe(no_mangle)]
            pub(super) unsafe extern "C" fn $name($($argument: $kind),*) -> $result {
                match functions() {
                    // SAFETY: the caller's promise.
                    Some(functions) => unsafe { (functions.$name)($($argument),*) },
                    None => $absent,
                }
            }
        )*
    };
}

forward! {
    fn hwloc_topology_init(topology: *mut *mut c_void) -> c_int, or -1;
    fn hwloc_topology_set_io_types_filter(topology: *mut c_void, filter: c_int) -> c_int, or -1;
    fn hwloc_topology_load(topology: *mut c_void) -> c_int, or -1;
    fn hwloc_topology_destroy(topology: *mut c_void) -> (), or ();
    fn hwloc_topology_get_support(topology: *mut c_void) -> *const c_void, or null();
    fn hwloc_topology_get_depth(topology: *mut c_void) -> c_int, or 0;
    fn hwloc_get_type_depth(topology: *mut c_void, kind: c_int) -> c_int, or -1;
    fn hwloc_get_nbobjs_by_depth(topology: *mut c_void, depth: c_int) -> c_int, or 0;
    fn hwloc_get_obj_by_depth(topology: *mut c_void, depth: c_int, index: c_uint) -> *mut c_void, or null_mut();
    fn hwloc_bitmap_next(bitmap: *const c_void, previous: c_int) -> c_int, or -1;
}

/// Defines functions that the hwloc crate names, too, in its parts that this crate does not use.
macro_rules! uncalled {
    ($($name:ident)*) => {
        $(
            #[unsafe(no_mangle)]
            extern "C" fn $name() {
                std::process::abort()
            }
        )*
    };
}

uncalled! {
    hwloc_bitmap_alloc
    hwloc_bitmap_alloc_full
    hwloc_bitmap_clr
    hwloc_bitmap_clr_range
    hwloc_bitmap_dup
    hwloc_bitmap_first
    hwloc_bitmap_free
    hwloc_bitmap_isequal
    hwloc_bitmap_isfull
    hwloc_bitmap_isset
    hwloc_bitmap_iszero
    hwloc_bitmap_last
    hwloc_bitmap_list_asprintf
    hwloc_bitmap_not
    hwloc_bitmap_set
    hwloc_bitmap_set_range
    hwloc_bitmap_singlify
    hwloc_bitmap_weight
    hwloc_bitmap_zero
    hwloc_compare_types
    hwloc_get_cpubind
    hwloc_get_depth_type
    hwloc_get_last_cpu_location
    hwloc_get_proc_cpubind
    hwloc_get_proc_last_cpu_location
    hwloc_get_thread_cpubind
    hwloc_obj_attr_snprintf
    hwloc_obj_type_snprintf
    hwloc_set_cpubind
    hwloc_set_proc_cpubind
    hwloc_set_thread_cpubind
    hwloc_topology_get_flags
    hwloc_topology_set_flags
}
