//! Profiling libraries (OpenACC 3.3, 5.3): `ACC_PROFLIB`, and the program's own.

use crate::api::prof;
use crate::{loader, report, settings};
use accord_types::settings as names;
use std::ffi::{CStr, CString, c_void};
use std::sync::Once;

/// `acc_register_library`, as a tool defines it.
type RegisterLibrary = unsafe extern "C" fn(prof::Register, prof::Register, prof::Lookup);

const ENTRY: &CStr = c"acc_register_library";

/// Loads the libraries of `ACC_PROFLIB`, once. Where libgomp is there too, it has done so when it
/// was loaded, and has given the tools this library's routines: it finds them under the same names.
pub(crate) fn load_libraries() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let Some(list) = settings::value(names::ACC_PROFLIB) else { return };
        if has_libgomp() {
            return;
        }
        for path in list.split(';').filter(|path| !path.is_empty()) {
            load(path);
        }
    });
}

/// Calls the program's own `acc_register_library`, if the dynamic linker can see one.
pub(crate) fn load_program_library() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: the name is terminated.
        let entry = unsafe { libc::dlsym(libc::RTLD_DEFAULT, ENTRY.as_ptr()) };
        if is_a_tools(entry) {
            register(entry);
        }
    });
}

/// Whether an entry is neither this library's own, which programs without a tool find, nor
/// libgomp's.
fn is_a_tools(entry: *mut c_void) -> bool {
    let here = loader::holding(is_a_tools as *const () as usize);
    let holder = loader::holding(entry as usize);
    holder.is_some_and(|holder| !holder.path.contains("libgomp") && here.is_none_or(|here| here.base != holder.base))
}

fn has_libgomp() -> bool {
    // SAFETY: the name is terminated; nothing new is loaded.
    let library = unsafe { libc::dlopen(c"libgomp.so.1".as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
    if library.is_null() {
        return false;
    }
    // SAFETY: gives back what dlopen took.
    unsafe { libc::dlclose(library) };
    true
}

fn load(path: &str) {
    let Ok(name) = CString::new(path) else { return };
    // SAFETY: the user named the library to be loaded; its constructors run here.
    let library = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_LAZY) };
    if library.is_null() {
        // SAFETY: dlerror gives a terminated string after a failure.
        let why = unsafe { libc::dlerror() };
        let why = if why.is_null() {
            "unknown reason".into()
        } else {
            // SAFETY: as above.
            unsafe { CStr::from_ptr(why) }.to_string_lossy()
        };
        report::print(&format!("accord: ACC_PROFLIB: {why}; the program runs without this library\n"));
        return;
    }
    // SAFETY: the library stays loaded.
    let entry = unsafe { libc::dlsym(library, ENTRY.as_ptr()) };
    if is_a_tools(entry) {
        register(entry);
    }
}

fn register(entry: *mut c_void) {
    // SAFETY: a symbol of this name has this type (5.3.1).
    let entry: RegisterLibrary = unsafe { std::mem::transmute(entry) };
    // SAFETY: the tool's own routine.
    unsafe { entry(prof::acc_prof_register, prof::acc_prof_unregister, prof::acc_prof_lookup) };
}
