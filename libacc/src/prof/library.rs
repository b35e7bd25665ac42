//! Profiling libraries (OpenACC 3.3, 5.3): those of `ACC_PROFLIB`, preloaded or linked ones, and the program itself.

use crate::api::prof;
use crate::{elf, loader, output, settings};
use accord_types::{os_text, settings as names};
use std::ffi::{CStr, CString, OsStr, c_void};
use std::os::unix::ffi::OsStrExt as _;
use std::sync::Once;

/// The type of a tool's `acc_register_library`.
type RegisterLibrary = unsafe extern "C" fn(prof::Register, prof::Register, prof::Lookup);

const ENTRY: &CStr = c"acc_register_library";

/// Loads the libraries of `ACC_PROFLIB`, once. A libgomp in the process has done so when it was loaded, and has passed this
/// library's routines, which it finds under the same names. It does not know the variable's other names.
pub(crate) fn load_libraries() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let Some((variable, list)) = settings::found(names::ACC_PROFLIB) else { return };
        if variable == names::ACC_PROFLIB.name && has_libgomp() {
            return;
        }
        for path in list.split(';').filter(|path| !path.is_empty()) {
            load(variable, path);
        }
    });
}

/// Calls `acc_register_library` of every library loaded with the program, and of the program. Each object is queried, because
/// the dynamic linker may find this library's own first, if it was preloaded before a tool.
pub(crate) fn load_program_libraries() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let loaded_by_name: Vec<String> = settings::found(names::ACC_PROFLIB)
            .map(|(_, list)| list.split(';').filter_map(canonical).collect())
            .unwrap_or_default();
        for object in loader::objects() {
            if !loaded_by_name.contains(&object.path)
                && let Some(entry) = entry_of(&object)
            {
                register(entry);
            }
        }
    });
}

fn canonical(path: &str) -> Option<String> {
    Some(os_text::encode(loader::real_path(OsStr::new(path))?.as_os_str()))
}

/// Returns the entry point that an object itself defines, unless it is this library or libgomp.
fn entry_of(object: &loader::LoadedObject) -> Option<*mut c_void> {
    // Compared by its span, because this function runs for each object, and looking this library up takes time for each object too.
    if is_libgomp(&object.path) || object.span.contains(&(entry_of as *const () as usize)) {
        return None;
    }
    if !object.names(ENTRY.to_bytes()) {
        // An executable exports the routine only if it was linked for that.
        let offset = object.executable.then(|| elf::function(&object.file, ENTRY.to_bytes())).flatten()?;
        return Some((object.base + usize::try_from(offset).ok()?) as *mut c_void);
    }
    let name = if object.executable { None } else { Some(CString::new(object.file.as_os_str().as_bytes()).ok()?) };
    // SAFETY: the name is terminated or null, and the call loads no new object.
    let handle = unsafe {
        libc::dlopen(name.as_ref().map_or(std::ptr::null(), |name| name.as_ptr()), libc::RTLD_LAZY | libc::RTLD_NOLOAD)
    };
    if handle.is_null() {
        return None;
    }
    // SAFETY: the handle is open; the name is terminated.
    let entry = unsafe { libc::dlsym(handle, ENTRY.as_ptr()) };
    // SAFETY: the call releases the handle of dlopen.
    unsafe { libc::dlclose(handle) };
    // The address found may be another object's.
    let own = object.span.contains(&(entry as usize));
    if !own && object.executable {
        let offset = elf::function(&object.file, ENTRY.to_bytes())?;
        return Some((object.base + usize::try_from(offset).ok()?) as *mut c_void);
    }
    own.then_some(entry)
}

/// Whether an entry is neither this library's own, which programs without a tool find, nor
/// libgomp's.
fn is_a_tools(entry: *mut c_void) -> bool {
    let here = loader::holding(is_a_tools as *const () as usize);
    let holder = loader::holding(entry as usize);
    holder.is_some_and(|holder| !is_libgomp(&holder.path) && here.is_none_or(|here| here.base != holder.base))
}

fn is_libgomp(path: &str) -> bool {
    path.rsplit('/').next().is_some_and(|file| file.starts_with("libgomp.so"))
}

fn has_libgomp() -> bool {
    // SAFETY: the name is terminated, and the call loads no new object.
    let library = unsafe { libc::dlopen(c"libgomp.so.1".as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
    if library.is_null() {
        return false;
    }
    // SAFETY: the call releases the handle of dlopen.
    unsafe { libc::dlclose(library) };
    true
}

fn load(variable: &str, path: &str) {
    let Ok(name) = CString::new(path) else { return };
    // SAFETY: the user requested this library, whose constructors run here.
    let library = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_LAZY) };
    if library.is_null() {
        // SAFETY: dlerror returns a terminated string after a failure.
        let why = unsafe { libc::dlerror() };
        let why = if why.is_null() {
            "unknown reason".into()
        } else {
            // SAFETY: as above.
            unsafe { CStr::from_ptr(why) }.to_string_lossy()
        };
        output::print(&format!("accord: {variable}: {why}; the program runs without this library\n"));
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
