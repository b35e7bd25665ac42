//! The objects that the dynamic loader has loaded: the executable and its shared objects.

use accord_device::mapped_file::Mappings;
use accord_device::object_identity;
use accord_types::turn_lock::TurnLock;
use accord_types::{HostRange, ObjectSpec, os_text};
use std::ffi::{CStr, CString, OsStr, OsString, c_int, c_void};
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The kernel's mark after the path of a removed executable.
const DELETED: &[u8] = b" (deleted)";
/// The program's file, even if its name has changed.
const EXECUTABLE: &str = "/proc/thread-self/exe";

/// Returns a file's path without symbolic links.
pub(crate) fn real_path(path: &OsStr) -> Option<PathBuf> {
    let path = CString::new(path.as_bytes()).ok()?;
    let mut found = [0u8; libc::PATH_MAX as usize];
    // SAFETY: the path is terminated, and the buffer holds the longest result with its end.
    if unsafe { libc::realpath(path.as_ptr(), found.as_mut_ptr().cast()) }.is_null() {
        return None;
    }
    let found = CStr::from_bytes_until_nul(&found).ok()?;
    Some(PathBuf::from(OsStr::from_bytes(found.to_bytes())))
}

/// Hashes of loaded objects' files, by load address and path.
struct Hashes {
    /// Number of unloaded objects when the first hash was computed. After more, an address may belong to another object.
    removed: u64,
    of: Vec<(usize, String, String)>,
}

static HASHES: TurnLock<Hashes> = TurnLock::new(Hashes { removed: 0, of: Vec::new() });

/// One loaded object.
#[derive(Clone, Debug)]
pub(crate) struct LoadedObject {
    /// The base of addresses in the file.
    pub(crate) base: usize,
    /// Addresses from the start of the first segment to the end of the last.
    pub(crate) span: Range<usize>,
    /// A path by which the file can be read, even if its own path has changed.
    pub(crate) file: PathBuf,
    /// The loader's name for the object, which does not change.
    pub(crate) name: OsString,
    /// The object's name in messages and for other processes, as `os_text` writes it.
    pub(crate) path: String,
    /// The program's own executable.
    pub(crate) executable: bool,
    /// The ELF build id in hex.
    pub(crate) build_id: Option<String>,
    /// The ranges that the loader has filled with addresses and then made constant.
    pub(crate) filled_in: Vec<Range<usize>>,
    /// Address of the dynamic section; 0 if there is none.
    dynamic: usize,
}

/// Returns how often objects were loaded and unloaded so far. Needs no system call.
pub(crate) fn changes() -> (u64, u64) {
    unsafe extern "C" fn first(info: *mut libc::dl_phdr_info, _size: usize, data: *mut c_void) -> c_int {
        // SAFETY: the loader passes a valid record, and `data` is the pair below.
        unsafe { *data.cast::<(u64, u64)>() = ((*info).dlpi_adds, (*info).dlpi_subs) };
        1
    }
    let mut counts = (0u64, 0u64);
    // SAFETY: the callback only writes the pair that lives until the call returns.
    unsafe { libc::dl_iterate_phdr(Some(first), (&raw mut counts).cast()) };
    counts
}

/// Returns all loaded objects that come from files.
pub(crate) fn objects() -> Vec<LoadedObject> {
    let mappings = Mappings::here();
    let mut found = Vec::new();
    each_object(&mut |raw| {
        found.extend(raw.describe(mappings.as_ref()));
        false
    });
    found
}

/// The object that holds `address`.
pub(crate) fn holding(address: usize) -> Option<LoadedObject> {
    let mut found = None;
    each_object(&mut |raw| {
        if raw.holds(address) {
            found = raw.describe(Mappings::here().as_ref());
            return true;
        }
        false
    });
    found
}

/// Returns path and identity of the program's executable.
pub(crate) fn executable() -> (String, String) {
    if let Some(executable) = objects().into_iter().find(|object| object.executable) {
        let spec = executable.spec();
        return (spec.path, spec.build_id);
    }
    // This copy of the library is in a namespace of `dlmopen`, which does not contain the executable.
    let path = executable_path().unwrap_or_default();
    (os_text::encode(path.as_os_str()), object_identity::of_file(Path::new(EXECUTABLE)).unwrap_or_default())
}

/// Returns the path of the program's executable.
///
/// # Errors
/// Returns an error if the process has no `/proc`.
pub(crate) fn executable_path() -> std::io::Result<PathBuf> {
    // Valgrind gives the program's path for the first name only, which leads nowhere once the main thread has ended.
    std::fs::read_link("/proc/self/exe").or_else(|_| std::fs::read_link(EXECUTABLE)).map(at_start)
}

/// Whether an object's segment that is not writable contains all of a range, or one that became constant once the loader
/// had relocated it.
pub(crate) fn is_constant(range: HostRange) -> bool {
    let mut constant = false;
    each_object(&mut |raw| {
        constant = raw
            .constants()
            .any(|part| part.contains(&range.start) && range.start.saturating_add(range.len) <= part.end);
        constant
    });
    constant
}

/// Whether a text stands in some bytes.
pub(crate) fn has(bytes: &[u8], text: &[u8]) -> bool {
    // SAFETY: both slices are valid for their lengths.
    unsafe { !libc::memmem(bytes.as_ptr().cast(), bytes.len(), text.as_ptr().cast(), text.len()).is_null() }
}

impl LoadedObject {
    /// Returns the object's specification for other processes.
    pub(crate) fn spec(&self) -> ObjectSpec {
        ObjectSpec {
            path: self.path.clone(),
            build_id: self.build_id.clone().unwrap_or_else(|| self.hash()),
            executable: self.executable,
        }
    }

    /// Whether the imported names show that the object was built with `-fopenacc`, or links a library for it. Reads only memory.
    pub(crate) fn uses_openacc(&self) -> bool {
        self.names_any(&[b"GOACC_", b"GOMP_offload_", b"libgomp.so", b"libacc.so"])
    }

    /// Whether the imported names show that the object may use devices by OpenMP. Reads only memory.
    pub(crate) fn uses_openmp_devices(&self) -> bool {
        self.names_any(&[b"GOMP_target", b"omp_"])
    }

    /// Whether the dynamic symbol table contains `name`, defined or imported. Reads only memory.
    pub(crate) fn names(&self, name: &[u8]) -> bool {
        self.names_any(&[name])
    }

    fn names_any(&self, signs: &[&[u8]]) -> bool {
        let Some(strings) = self.dynamic_strings() else { return false };
        signs.iter().any(|sign| has(strings, sign))
    }

    /// Returns the names in the dynamic symbol table and the dependencies.
    fn dynamic_strings(&self) -> Option<&[u8]> {
        const TABLE: i64 = 5;
        const SIZE: i64 = 10;
        if self.dynamic == 0 {
            return None;
        }
        let (mut table, mut size) = (0usize, 0usize);
        let mut entry = self.dynamic as *const [i64; 2];
        loop {
            // SAFETY: by the loader a dynamic section is here, which ends with tag 0.
            let [tag, value] = unsafe { *entry };
            match tag {
                0 => break,
                TABLE => table = value as usize,
                SIZE => size = value as usize,
                _ => {}
            }
            // SAFETY: the entry just read was not the last.
            entry = unsafe { entry.add(1) };
        }
        // glibc relocates this entry when it loads an object, but other loaders may not.
        if table < self.base {
            table += self.base;
        }
        let inside = self.span.contains(&table) && size <= self.span.end - table;
        // SAFETY: the range is inside the object's loaded segments, which stay while `self` is used, because callers guarantee that
        // the object is loaded.
        inside.then(|| unsafe { std::slice::from_raw_parts(table as *const u8, size) })
    }

    /// Returns the hash of the object's file, as of the first query. Another file may replace it later, which is not the one that
    /// this process has loaded.
    fn hash(&self) -> String {
        let removed = changes().1;
        let mut hashes = HASHES.take();
        if hashes.removed != removed {
            *hashes = Hashes { removed, of: Vec::new() };
        }
        if let Some((.., hash)) = hashes.of.iter().find(|(base, path, _)| *base == self.base && *path == self.path) {
            return hash.clone();
        }
        let hash =
            object_identity::of_contents(&self.file).unwrap_or_else(|_| String::from(object_identity::UNREADABLE));
        hashes.of.push((self.base, self.path.clone(), hash.clone()));
        hash
    }
}

/// One loader record, valid during the callback.
pub(crate) struct RawObject<'a> {
    info: &'a libc::dl_phdr_info,
    first: bool,
}

impl RawObject<'_> {
    pub(crate) fn headers(&self) -> &[libc::Elf64_Phdr] {
        if self.info.dlpi_phdr.is_null() {
            return &[];
        }
        // SAFETY: the loader provides address and number of the object's program headers.
        unsafe { std::slice::from_raw_parts(self.info.dlpi_phdr, usize::from(self.info.dlpi_phnum)) }
    }

    pub(crate) fn base(&self) -> usize {
        self.info.dlpi_addr as usize
    }

    fn segments(&self) -> impl Iterator<Item = Range<usize>> + '_ {
        self.headers().iter().filter(|header| header.p_type == libc::PT_LOAD).map(|header| self.range(header))
    }

    fn constants(&self) -> impl Iterator<Item = Range<usize>> + '_ {
        let constant = |header: &&libc::Elf64_Phdr| match header.p_type {
            libc::PT_LOAD => header.p_flags & libc::PF_W == 0,
            kind => kind == libc::PT_GNU_RELRO,
        };
        self.headers().iter().filter(constant).map(|header| self.range(header))
    }

    /// Returns the ranges that the loader has filled in with addresses and made constant then.
    fn filled_in(&self) -> impl Iterator<Item = Range<usize>> + '_ {
        self.headers().iter().filter(|header| header.p_type == libc::PT_GNU_RELRO).map(|header| self.range(header))
    }

    /// Returns the range of a segment in memory.
    pub(crate) fn range(&self, header: &libc::Elf64_Phdr) -> Range<usize> {
        let start = self.base().wrapping_add(header.p_vaddr as usize);
        start..start.wrapping_add(header.p_memsz as usize)
    }

    fn holds(&self, address: usize) -> bool {
        self.segments().any(|segment| segment.contains(&address))
    }

    /// Returns the loader's path of the object; empty for the executable.
    pub(crate) fn name(&self) -> OsString {
        if self.info.dlpi_name.is_null() {
            return OsString::new();
        }
        // SAFETY: the loader provides a terminated string.
        OsStr::from_bytes(unsafe { CStr::from_ptr(self.info.dlpi_name) }.to_bytes()).to_owned()
    }

    /// Describes the object. Returns `None` if it has no file, such as the kernel's own.
    fn describe(&self, mappings: Option<&Mappings>) -> Option<LoadedObject> {
        let name = self.name();
        // The first object of a namespace that `dlmopen` has made is a library.
        // SAFETY: has no preconditions.
        let executable = self.first && self.holds(unsafe { libc::getauxval(libc::AT_PHDR) } as usize);
        let start = self.segments().map(|segment| segment.start).min()?;
        let end = self.segments().map(|segment| segment.end).max()?;
        let (file, path) = if executable {
            let file = PathBuf::from(EXECUTABLE);
            let path = executable_path().unwrap_or_else(|_| name.clone().into());
            (file, path)
        } else if let Some(mappings) = mappings {
            // The loader's name may be relative to a previous folder, and may name another file by now.
            let mapped = mappings.at(start as u64)?;
            (mapped.contents, mapped.path)
        } else {
            let file = real_path(&name)?;
            (file.clone(), file)
        };
        Some(LoadedObject {
            base: self.base(),
            span: start..end,
            file,
            name,
            path: os_text::encode(path.as_os_str()),
            executable,
            build_id: self.build_id(),
            filled_in: self.filled_in().collect(),
            dynamic: self
                .headers()
                .iter()
                .find(|header| header.p_type == libc::PT_DYNAMIC)
                .map_or(0, |header| self.base().wrapping_add(header.p_vaddr as usize)),
        })
    }

    fn build_id(&self) -> Option<String> {
        self.headers().iter().filter(|header| header.p_type == libc::PT_NOTE).find_map(|header| {
            let start = self.base().wrapping_add(header.p_vaddr as usize) as *const u8;
            // SAFETY: a note segment is part of a loaded segment.
            let notes = unsafe { std::slice::from_raw_parts(start, header.p_memsz as usize) };
            build_id_in(notes, header.p_align as usize)
        })
    }
}

/// Returns the executable's path at its start, even if its file was removed or replaced since, which the kernel marks after
/// the path.
fn at_start(path: PathBuf) -> PathBuf {
    match path.as_os_str().as_bytes().strip_suffix(DELETED) {
        Some(before) if !path.exists() => OsStr::from_bytes(before).into(),
        _ => path,
    }
}

/// Calls `visit` for each record until it returns `true`. No loader call is possible meanwhile.
pub(crate) fn each_object(visit: &mut dyn FnMut(&RawObject<'_>) -> bool) {
    struct Walk<'a> {
        visit: &'a mut dyn FnMut(&RawObject<'_>) -> bool,
        first: bool,
    }
    unsafe extern "C" fn step(info: *mut libc::dl_phdr_info, _size: usize, data: *mut c_void) -> c_int {
        // SAFETY: `data` is the Walk below, which no other code uses during the call; the loader's record is valid.
        let (walk, info) = unsafe { (&mut *data.cast::<Walk<'_>>(), &*info) };
        let first = std::mem::replace(&mut walk.first, false);
        // A panic must not unwind into the loader.
        let stop = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| (walk.visit)(&RawObject { info, first })));
        c_int::from(stop.unwrap_or(true))
    }
    let mut walk = Walk { visit, first: true };
    // SAFETY: `walk` outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(step), (&raw mut walk).cast()) };
}

/// The build id in a note segment, in hex.
fn build_id_in(notes: &[u8], align: usize) -> Option<String> {
    const GNU_BUILD_ID: u32 = 3;
    let align = if align == 8 { 8 } else { 4 };
    let word =
        |at: usize| -> Option<u32> { Some(u32::from_ne_bytes(notes.get(at..at.checked_add(4)?)?.try_into().ok()?)) };
    let mut at = 0usize;
    loop {
        let (name_len, len, kind) = (word(at)? as usize, word(at + 4)? as usize, word(at + 8)?);
        let name = at + 12;
        let value = name.checked_add(name_len)?.next_multiple_of(align);
        let end = value.checked_add(len)?;
        if kind == GNU_BUILD_ID && notes.get(name..name.checked_add(4)?) == Some(b"GNU\0") {
            return Some(notes.get(value..end)?.iter().map(|byte| format!("{byte:02x}")).collect());
        }
        at = end.next_multiple_of(align);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_executable_comes_first_and_holds_this_function() {
        let here = the_executable_comes_first_and_holds_this_function as *const () as usize;
        let object = holding(here).expect("this code is in a file");
        assert!(object.executable);
        assert!(object.span.contains(&here));
        assert_eq!(object.path, std::env::current_exe().unwrap().display().to_string());
        let all = objects();
        assert!(all[0].executable && all.iter().filter(|object| object.executable).count() == 1);
    }

    #[test]
    fn constants_are_told_from_variables() {
        static CONSTANT: [u8; 100] = [7; 100];
        static VARIABLE: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);
        let range = |start: usize, len| HostRange { start, len };
        assert!(is_constant(range((&raw const CONSTANT).addr(), 100)));
        assert!(!is_constant(range((&raw const VARIABLE).addr(), 8)));
        let local = 0u8;
        assert!(!is_constant(range((&raw const local).addr(), 1)));
        assert!(!is_constant(range((&raw const CONSTANT).addr(), usize::MAX / 2)), "and all of it");
    }

    #[test]
    fn no_object_holds_the_null_page() {
        assert!(holding(8).is_none());
    }

    #[test]
    fn build_ids_are_found_behind_other_notes() {
        let note = |name: &[u8], kind: u32, value: &[u8]| {
            let mut bytes = Vec::new();
            bytes.extend((name.len() as u32).to_ne_bytes());
            bytes.extend((value.len() as u32).to_ne_bytes());
            bytes.extend(kind.to_ne_bytes());
            bytes.extend(name);
            bytes.resize(bytes.len().next_multiple_of(4), 0);
            bytes.extend(value);
            bytes.resize(bytes.len().next_multiple_of(4), 0);
            bytes
        };
        let mut notes = note(b"GNU\0", 1, &[0; 16]);
        notes.extend(note(b"stapsdt\0", 3, b"abc"));
        notes.extend(note(b"GNU\0", 3, &[0xab, 0x01]));
        assert_eq!(build_id_in(&notes, 4).as_deref(), Some("ab01"));
        assert_eq!(build_id_in(&notes[..notes.len() - 4], 4), None);
        assert_eq!(build_id_in(&[0xff; 40], 4), None);
    }

    #[test]
    fn loading_is_counted() {
        assert!(changes().0 > 0);
    }
}
