//! Functions and constants of loaded objects, by their addresses.

use super::{SourceLocation, info, on_helper_thread, place};
use crate::loader;
use accord_debuginfo::{ProcessMemory, base_name};
use accord_runtime::ports::{ConstantKind, ProgramConstant};
use accord_types::{HostRange, os_text};
use std::ffi::{CStr, CString, c_char, c_int};
use std::ptr::null_mut;

/// Prefixes of the compiler's symbols for classes, and their meanings.
const OF_CLASSES: [(&str, &str); 4] =
    [("_ZTV", "virtual functions"), ("_ZTI", "type information"), ("_ZTS", "type name"), ("_ZTT", "virtual bases")];

/// Prefix of gfortran's tables of type-bound procedures. They never change, but are in writable memory.
const OF_TYPES: &str = "__vtab_";

/// Names the function or constant at `address`. Returns `None` if no loaded object has a constant there.
pub(crate) fn constant_at(address: usize) -> Option<ProgramConstant> {
    let is_constant = loader::is_constant(HostRange { start: address, len: 1 });
    on_helper_thread(move || {
        let object = loader::holding(address)?;
        if let Some(place) = place(address).filter(|_| is_constant) {
            return Some(ProgramConstant { name: function(&place), kind: ConstantKind::Function });
        }
        let wanted = address as u64..address as u64 + 1;
        let variable = info(&object)?.global(object.base as u64, &wanted, &ProcessMemory::open());
        if !is_constant {
            let symbol = variable?.name;
            let (_, of_type) = symbol.split('+').next()?.split_once(OF_TYPES)?;
            let name = format!("the table of type-bound procedures of {of_type}");
            return Some(ProgramConstant { name, kind: ConstantKind::OfClass });
        }
        let Some(variable) = variable else {
            let name = format!("a constant of {}", os_text::displayed(&object.path));
            return Some(ProgramConstant { name, kind: ConstantKind::Data });
        };
        let symbol = variable.name.split('+').next().unwrap_or_default();
        Some(match OF_CLASSES.into_iter().find(|(begin, _)| symbol.starts_with(begin)) {
            Some((_, what)) => {
                let name = demangled(symbol).unwrap_or_else(|| format!("{what} of a class, {symbol}"));
                ProgramConstant { name, kind: ConstantKind::OfClass }
            }
            None => ProgramConstant { name: variable.to_string(), kind: ConstantKind::Data },
        })
    })?
}

/// Formats the known parts of `helper (ptr.cpp:9)`.
fn function(place: &SourceLocation) -> String {
    let name = place.function.as_deref().unwrap_or("a function");
    match (place.file.as_deref().map(base_name), place.line) {
        (Some(file), Some(line)) => format!("{name} ({file}:{line})"),
        _ => name.to_owned(),
    }
}

/// Returns the demangled name, if the program has C++'s library: `vtable for Square`.
fn demangled(symbol: &str) -> Option<String> {
    type Demangle = unsafe extern "C" fn(*const c_char, *mut c_char, *mut usize, *mut c_int) -> *mut c_char;
    let symbol = CString::new(symbol).ok()?;
    // SAFETY: the call looks up a terminated name, of a function with this type. It returns a terminated text, which is never freed because it
    // may be another allocator's.
    unsafe {
        let found = libc::dlsym(libc::RTLD_DEFAULT, c"__cxa_demangle".as_ptr());
        if found.is_null() {
            return None;
        }
        let demangle: Demangle = std::mem::transmute(found);
        let name = demangle(symbol.as_ptr(), null_mut(), null_mut(), null_mut());
        (!name.is_null()).then(|| CStr::from_ptr(name).to_string_lossy().into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;

    static TABLE: [u64; 4] = [1, 2, 3, 4];

    /// A table as gfortran makes it.
    #[allow(non_upper_case_globals)]
    static __vtab_shapes_Square: AtomicU64 = AtomicU64::new(5);
    static VARIABLE: AtomicU64 = AtomicU64::new(6);

    #[test]
    fn functions_and_constants_have_names_and_variables_are_neither() {
        let function = constant_at(constant_at as *const () as usize).expect("a function");
        assert_eq!(function.kind, ConstantKind::Function);
        assert!(function.name.contains("constant_at"), "{}", function.name);
        let table = constant_at(TABLE.as_ptr() as usize + 8).expect("a constant");
        assert_eq!(table.kind, ConstantKind::Data);
        assert!(table.name.contains("TABLE"), "{}", table.name);
        let of_type = constant_at((&raw const __vtab_shapes_Square) as usize).expect("a table");
        assert_eq!(of_type.kind, ConstantKind::OfClass);
        assert!(of_type.name.contains("type-bound procedures of shapes_Square"), "{}", of_type.name);
        assert_eq!(constant_at((&raw const VARIABLE) as usize), None);
        let local = 1u64;
        assert_eq!(constant_at((&raw const local) as usize), None);
        assert_eq!(constant_at(8), None);
    }
}
