//! The start of the process. Redirects libgomp's OpenACC here. Runs another function than `main` in a CPU device's worker, which is the program's own
//! executable.

use crate::{abi_boundary, environment, explain, last_thread, output, prof, redirect, settings};
use std::ffi::{c_char, c_int, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

type Main = unsafe extern "C-unwind" fn(c_int, *mut *mut c_char, *mut *mut c_char) -> c_int;
type StartMain =
    unsafe extern "C" fn(Main, c_int, *mut *mut c_char, *mut c_void, *mut c_void, *mut c_void, *mut c_void) -> c_int;

/// This library's version, for processes that start workers with its file.
#[used]
#[cfg_attr(not(test), unsafe(link_section = ".accord.version"))]
static VERSION: [u8; accord_device::cpu::MARK.len()] = accord_device::cpu::MARK;

#[used]
#[cfg_attr(not(test), unsafe(link_section = ".init_array"))]
static AT_START: extern "C" fn() = at_start;

extern "C" fn at_start() {
    // The linker drops sections to which no code refers.
    std::hint::black_box(&VERSION);
    // First: it binds the calls of the others.
    abi_boundary::enter_without_runtime("start", redirect::at_start);
    last_thread::watch_main();
    environment::keep_folder();
}

/// Replaces the C library's function that calls `main`, after the constructors of the executable. The executable's start code
/// finds this one first, preloaded or linked.
///
/// # Safety
/// Must be called once, by the start code.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn __libc_start_main(
    main: Main,
    argc: c_int,
    argv: *mut *mut c_char,
    init: *mut c_void,
    fini: *mut c_void,
    rtld_fini: *mut c_void,
    stack_end: *mut c_void,
) -> c_int {
    // SAFETY: the kernel stores the environment after the arguments and their null.
    let environment = unsafe { argv.add(argc as usize + 1) };
    environment::keep(environment.cast());
    // SAFETY: the name is terminated.
    let real = unsafe { libc::dlsym(libc::RTLD_NEXT, c"__libc_start_main".as_ptr()) };
    if real.is_null() {
        output::print("accord: the C library has no __libc_start_main after libacc.so\n");
        // SAFETY: nothing was started yet.
        unsafe { libc::_exit(1) };
    }
    // SAFETY: the C library's function has this type.
    let real: StartMain = unsafe { std::mem::transmute(real) };
    let mut init = init;
    let main = if settings::is_worker() {
        init = worker_init as *mut c_void;
        worker_main
    } else if settings::explain_to().is_some() {
        explained_main
    } else if settings::has_profiling_libraries() {
        PROGRAM_MAIN.store(main as *mut (), Ordering::Relaxed);
        profiled_main
    } else {
        main
    };
    // SAFETY: the arguments are the start code's own, or functions of the same types; without one the C library runs the executable's constructors.
    unsafe { real(main, argc, argv, init, fini, rtld_fini, stack_end) }
}

/// The program's `main`, while [`profiled_main`] replaces it.
static PROGRAM_MAIN: AtomicPtr<()> = AtomicPtr::new(null_mut());

/// Loads profiling libraries, which may observe everything, and then calls `main`.
unsafe extern "C-unwind" fn profiled_main(argc: c_int, argv: *mut *mut c_char, environment: *mut *mut c_char) -> c_int {
    output::install_panic_hook();
    abi_boundary::enter_without_runtime("ACC_PROFLIB", || {
        prof::load_libraries();
        Ok(())
    });
    let main = PROGRAM_MAIN.load(Ordering::Relaxed);
    // SAFETY: __libc_start_main stored the program's main here.
    let main: Main = unsafe { std::mem::transmute(main) };
    // SAFETY: the arguments are main's.
    unsafe { main(argc, argv, environment) }
}

/// Describes the program's GPU code, which the constructors have registered, and ends.
unsafe extern "C-unwind" fn explained_main(
    _argc: c_int,
    _argv: *mut *mut c_char,
    _environment: *mut *mut c_char,
) -> c_int {
    output::install_panic_hook();
    let done = settings::explain_to().map(explain::describe);
    // SAFETY: the call ends the process. Destructors of a program that hasn't run have no work.
    unsafe { libc::_exit(i32::from(done != Some(true))) }
}

/// Takes the place of the executable's constructors in a worker: the program has run them, and they may open files or start threads. Of those only the
/// streams of C++ are needed, in which regions may print.
unsafe extern "C" fn worker_init(_argc: c_int, _argv: *mut *mut c_char, _environment: *mut *mut c_char) {
    // The constructor std::ios_base::Init::Init(), which counts its calls and ignores the object.
    // SAFETY: the name is terminated.
    let streams = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"_ZNSt8ios_base4InitC1Ev".as_ptr()) };
    if !streams.is_null() {
        let mut object = [0u8; 16];
        // SAFETY: the function has this type.
        let construct: unsafe extern "C" fn(*mut c_void) = unsafe { std::mem::transmute(streams) };
        // SAFETY: the object is one byte in its library.
        unsafe { construct(object.as_mut_ptr().cast()) };
    }
}

/// Serves launches until the owner ends.
unsafe extern "C-unwind" fn worker_main(
    _argc: c_int,
    _argv: *mut *mut c_char,
    _environment: *mut *mut c_char,
) -> c_int {
    output::install_panic_hook();
    std::panic::catch_unwind(accord_device::cpu::worker_main).unwrap_or(1)
}
