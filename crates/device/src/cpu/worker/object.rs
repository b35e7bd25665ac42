//! Finds the program's objects in the worker by build id, loads them if necessary, and moves their `declare` variables into
//! memory shared with the owner.

use crate::mapped_file::{MappedFile, Mappings};
use crate::object_identity;
use accord_types::os_text;
use std::ffi::{CStr, CString};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

const OWN_EXECUTABLE: &str = "/proc/self/exe";

/// Returns the address of `offset` in an object, and the object's load address.
pub(super) fn resolve(path: &str, build_id: &str, executable: bool, offset: u64) -> Result<(u64, u64), String> {
    let file = PathBuf::from(os_text::decode(path));
    let path = os_text::displayed(path);
    let object = match find(&file, build_id, executable) {
        Some(object) => object,
        None if executable => return Err(other_file(&path, identity(Path::new(OWN_EXECUTABLE)).as_deref(), build_id)),
        None => {
            // Checked before loading, which runs constructors.
            let here = object_identity::of_file(&file);
            let contents = if here.as_ref().is_ok_and(|here| here == build_id) {
                file.clone()
            } else if let Some(owners) = of_owner(&file, build_id) {
                owners
            } else {
                let here = here.map_err(|error| format!("{path} can't be read here: {error}"))?;
                return Err(other_file(&path, Some(&here), build_id));
            };
            load(&contents).ok_or_else(|| format!("{path} can't be loaded here: {}", dl_error()))?;
            find(&file, build_id, executable).ok_or_else(|| {
                format!("{path} was replaced while a worker of the program had it loaded; start the program again")
            })?
        }
    };
    let address = object.base.wrapping_add(offset);
    if !object.segments.iter().any(|&(start, end)| start <= address && address < end) {
        return Err(format!("offset {offset:#x} is outside of {path}"));
    }
    Ok((address, object.base))
}

/// Returns a path to the owner's mapped file, for a file that was removed or replaced since it was mapped there.
fn of_owner(path: &Path, build_id: &str) -> Option<PathBuf> {
    let owner = OWNER.load(Ordering::Relaxed);
    let is_it = |contents: &PathBuf| identity(contents).is_some_and(|identity| identity == build_id);
    Mappings::of(owner)?.named(path).map(|file| file.contents).find(is_it)
}

/// The owner's process.
static OWNER: AtomicU32 = AtomicU32::new(0);

/// Sets the owner's process.
pub(super) fn set_owner(owner: u32) {
    OWNER.store(owner, Ordering::Relaxed);
}

/// Moves the pages of `[address, address + len)` into the memory file, with their contents.
pub(super) fn share(memory: &OwnedFd, address: u64, len: u64, file_offset: u64) -> Result<(), String> {
    let pages = address..address + len;
    let data = loaded().into_iter().flat_map(|o| o.data);
    let found = data.into_iter().find(|data| data.start <= pages.start && pages.end <= data.end);
    let Some(data) = found else {
        return Err(format!("{len} bytes at {address:#x} are not variables of the program"));
    };
    // SAFETY: the pages belong to a segment of an object that stays loaded. No region runs, and no other code here writes to
    // them. The new mapping has the same bytes at the same addresses.
    unsafe {
        for page in (address..address + len).step_by(4096) {
            let bytes = std::slice::from_raw_parts(page as *const u8, 4096);
            // The file initially contains zeros, and pages of zeros need no memory.
            if bytes.iter().any(|&b| b != 0) {
                let at = (file_offset + (page - address)) as libc::off_t;
                if libc::pwrite(memory.as_raw_fd(), bytes.as_ptr().cast(), 4096, at) != 4096 {
                    return Err(format!("copying variables: {}", std::io::Error::last_os_error()));
                }
            }
        }
        let at = libc::mmap(
            address as *mut libc::c_void,
            len as usize,
            // Constants too, because this process performs the program's copies into them.
            libc::PROT_READ | libc::PROT_WRITE | data.executable,
            libc::MAP_SHARED | libc::MAP_FIXED,
            memory.as_raw_fd(),
            file_offset as libc::off_t,
        );
        if at == libc::MAP_FAILED {
            return Err(format!("sharing variables: {}", std::io::Error::last_os_error()));
        }
    }
    Ok(())
}

struct Object {
    base: u64,
    build_id: Option<String>,
    first: bool,
    segments: Vec<(u64, u64)>,
    data: Vec<Data>,
}

/// Whole pages that may contain variables and constants.
struct Data {
    start: u64,
    end: u64,
    /// `PROT_EXEC` if an old linker has put constants next to code.
    executable: libc::c_int,
}

/// Returns the object with this name and identity, if it is loaded.
fn find(path: &Path, build_id: &str, executable: bool) -> Option<Object> {
    let by_contents = object_identity::is_of_contents(build_id);
    let wanted = path.file_name();
    loaded().into_iter().filter(|object| object.first == executable).find(|object| match &object.build_id {
        Some(id) => id == build_id,
        // The name of the executable may differ by folder, but other objects are not read under another name.
        None if executable => by_contents && identity(Path::new(OWN_EXECUTABLE)).is_some_and(|here| here == build_id),
        None => {
            by_contents
                && mapped(object).is_some_and(|file| {
                    file.path.file_name() == wanted && identity(&file.contents).is_some_and(|here| here == build_id)
                })
        }
    })
}

/// Returns the file from which an object was loaded. The loader's name for it may be relative to a previous folder.
fn mapped(object: &Object) -> Option<MappedFile> {
    Mappings::here()?.at(object.segments.first()?.0)
}

/// Returns the identity of a file, or `None` if it can't be read.
fn identity(file: &Path) -> Option<String> {
    object_identity::of_file(file).ok()
}

fn other_file(path: &str, here: Option<&str>, the_programs: &str) -> String {
    let here = here.map_or_else(|| String::from("what can't be read"), object_identity::describe);
    let the_programs = object_identity::describe(the_programs);
    format!(
        "{path} on the device's node is another file than the program's: it has {here}, the program's has {the_programs}; \
         copy the program's file there, or keep it where all nodes see the same"
    )
}

/// Loads an object. Returns `None` on failure.
fn load(path: &Path) -> Option<()> {
    let path = CString::new(path.as_os_str().as_bytes()).ok()?;
    // SAFETY: loading the program's own object runs its constructors, as the program does.
    let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    (!handle.is_null()).then_some(())
}

fn dl_error() -> String {
    // SAFETY: dlerror returns a string of this thread's or null.
    unsafe {
        let text = libc::dlerror();
        if text.is_null() {
            return "the loader does not say why".to_owned();
        }
        CStr::from_ptr(text).to_string_lossy().into_owned()
    }
}

fn loaded() -> Vec<Object> {
    let mut objects: Vec<Object> = Vec::new();
    // SAFETY: the callback gets `objects` as its argument, only during this call.
    unsafe { libc::dl_iterate_phdr(Some(collect), std::ptr::from_mut(&mut objects).cast()) };
    objects
}

unsafe extern "C" fn collect(info: *mut libc::dl_phdr_info, _size: usize, argument: *mut libc::c_void) -> libc::c_int {
    // SAFETY: `loaded` passes its vector. The loader passes a valid info whose headers describe mapped segments.
    let (objects, info) = unsafe { (&mut *argument.cast::<Vec<Object>>(), &*info) };
    // SAFETY: as above.
    let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) };
    let base = info.dlpi_addr;
    let mut object = Object { base, build_id: None, first: objects.is_empty(), segments: vec![], data: vec![] };
    for header in headers {
        let start = base + header.p_vaddr;
        let end = start + header.p_memsz;
        if header.p_type == libc::PT_LOAD {
            object.segments.push((start, end));
            let executable = if header.p_flags & libc::PF_X != 0 { libc::PROT_EXEC } else { 0 };
            object.data.push(Data { start: start & !4095, end: end.next_multiple_of(4096), executable });
        }
        if header.p_type == libc::PT_NOTE {
            // SAFETY: notes lie in a loaded segment.
            let notes = unsafe { std::slice::from_raw_parts(start as *const u8, header.p_memsz as usize) };
            object.build_id = object.build_id.or_else(|| build_id(notes));
        }
    }
    objects.push(object);
    0
}

/// The build id among an object's notes, in hex.
fn build_id(mut notes: &[u8]) -> Option<String> {
    const NT_GNU_BUILD_ID: u32 = 3;
    while let Some((head, rest)) = notes.split_first_chunk::<12>() {
        let word = |i: usize| u32::from_ne_bytes([head[i], head[i + 1], head[i + 2], head[i + 3]]);
        let (name_len, desc_len, kind) = (word(0) as usize, word(4) as usize, word(8));
        let name = rest.get(..name_len)?;
        let rest = rest.get(name_len.next_multiple_of(4)..)?;
        let desc = rest.get(..desc_len)?;
        if kind == NT_GNU_BUILD_ID && name == b"GNU\0" {
            return Some(desc.iter().map(|b| format!("{b:02x}")).collect());
        }
        notes = rest.get(desc_len.next_multiple_of(4)..)?;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_test_program_is_found_by_its_build_id() {
        let objects = loaded();
        let exe = &objects[0];
        assert!(exe.first);
        if let Some(id) = &exe.build_id {
            assert!(id.len() >= 16 && id.bytes().all(|b| b.is_ascii_hexdigit()));
            let here = build_id as *const () as u64;
            let (address, base) = resolve("", id, true, here - exe.base).expect("found");
            assert_eq!((address, base), (here, exe.base));
        }
        assert!(resolve("/nowhere.so", "00", false, 0).expect_err("absent").contains("/nowhere.so"));
    }

    #[test]
    fn a_truncated_note_is_no_build_id() {
        let note = [4u32, 8, 3].map(u32::to_ne_bytes).concat();
        assert_eq!(build_id(&note), None);
        let whole = [&note[..], b"GNU\0", &[0xab; 8]].concat();
        assert_eq!(build_id(&whole), Some("ab".repeat(8)));
    }
}
