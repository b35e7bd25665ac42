//! A region as GCC compiles it: a host function, its code for NVIDIA GPUs, and the tables that register both.

use std::ffi::{c_char, c_int, c_void};
use std::ptr::null_mut;

/// GCC's number of nvptx among offload targets.
const NVPTX: c_int = 5;
/// GCC 12's version of its library and of the layout of its tables.
const VERSION: u32 = 0x1_0001;
/// The device number for the program's current device.
const CHOSEN: c_int = -1;

/// Registers an object's tables.
pub(crate) type Register = unsafe extern "C" fn(u32, *const c_void, c_int, *const c_void);
/// Runs a region.
pub(crate) type Launch =
    unsafe extern "C" fn(c_int, extern "C" fn(*mut c_void), usize, *mut *mut c_void, *mut usize, *mut u16, ...);

/// The region on the host, and in the worker of a CPU device.
extern "C" fn empty(_: *mut c_void) {}

/// The region on a GPU.
const PTX: &[u8] = b"// BEGIN PREAMBLE
.version 6.0
.target sm_30
.address_size 64
// END PREAMBLE
// BEGIN FUNCTION DECL: accord_bench$_omp_fn$0
.entry accord_bench$_omp_fn$0 (.param .u64 %in_ar0);
//:FUNC_MAP \"accord_bench$_omp_fn$0\", 0x1, 0x1, 0x20
// BEGIN FUNCTION DEF: accord_bench$_omp_fn$0
.entry accord_bench$_omp_fn$0 (.param .u64 %in_ar0)
{
ret;
}
\0";

/// An address that the linker resolves.
#[repr(transparent)]
struct Address<T>(*const T);

// SAFETY: neither it nor what it points to is ever changed.
unsafe impl<T> Sync for Address<T> {}

#[repr(C)]
struct Object {
    code: Address<u8>,
    size: usize,
}

#[repr(C)]
struct Function {
    name: Address<c_char>,
    dims: [u16; 3],
}

static FUNCTIONS: [extern "C" fn(*mut c_void); 1] = [empty];
static OBJECTS: [Object; 1] = [Object { code: Address(PTX.as_ptr()), size: PTX.len() }];
static DESCRIBED: [Function; 1] = [Function { name: Address(c"accord_bench$_omp_fn$0".as_ptr()), dims: [1, 1, 32] }];

/// Two addresses: begin and end of a list, or begin and length.
#[repr(C)]
struct HostTable {
    functions: [Address<extern "C" fn(*mut c_void)>; 2],
    variables: [Address<u8>; 2],
}

#[repr(C)]
struct TargetTable {
    objects: Address<Object>,
    object_count: usize,
    variables: Address<u8>,
    variable_count: usize,
    functions: Address<Function>,
    function_count: usize,
}

static HOST: HostTable = HostTable {
    functions: [Address(FUNCTIONS.as_ptr()), Address(FUNCTIONS.as_ptr().wrapping_add(1))],
    variables: [Address(null_mut()), Address(null_mut())],
};
static TARGET: TargetTable = TargetTable {
    objects: Address(OBJECTS.as_ptr()),
    object_count: 1,
    variables: Address(null_mut()),
    variable_count: 0,
    functions: Address(DESCRIBED.as_ptr()),
    function_count: 1,
};

/// An empty, registered region.
#[derive(Debug)]
pub(crate) struct Region {
    launch: Launch,
}

impl Region {
    /// Registers the region as the start code of a GCC-compiled program does.
    pub(crate) fn register(register: Register, launch: Launch) -> Self {
        // SAFETY: the tables are laid out as GCC 12 lays them out, and live as long as the program.
        unsafe { register(VERSION, (&raw const HOST).cast(), NVPTX, (&raw const TARGET).cast()) };
        Self { launch }
    }

    /// Runs the region on the program's current device, and waits for it.
    pub(crate) fn launch(&self) {
        // SAFETY: it has no arguments, so there are no lists of them; the list of launch tags ends at once.
        unsafe { (self.launch)(CHOSEN, FUNCTIONS[0], 0, null_mut(), null_mut(), null_mut(), 0 as c_int) };
    }
}
