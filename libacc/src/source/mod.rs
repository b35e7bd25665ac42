//! Looks up addresses in the program's source, for messages, notices and profiling tools.
//!
//! * [`caller`] is the address of the program's present call into this library; [`frames`] is that call and the surrounding ones.
//! * [`call`] is the same address for frequent queries, as by profiling tools.
//! * [`place`] is the file, line and function of a code address: of [`caller`], or of a region's host function.
//! * [`variable`] is the name of the variable that holds host memory or points to it.
//! * [`elements`] is the declared type of a Fortran array's elements.
//! * [`explain`] adds place and variable to an error.
//!
//! No file is read before the first query. A file is read once (some milliseconds, or seconds for hundreds of megabytes of
//! debug information), and places are kept by address, so that a repeated query is a look-up. Variables are searched each
//! time, because pointers change: up to some hundred milliseconds in a large program. An ordinary call costs nothing.

mod constant;
mod elements;
mod helper_thread;
mod message;
mod stack;
mod trail;

pub(crate) use accord_debuginfo::{SourceLocation, Variable};
pub(crate) use constant::constant_at;
pub(crate) use elements::elements;
pub(crate) use helper_thread::{on_helper_thread, on_helper_thread_within};
pub(crate) use message::{explain, pointer_of_region, variable_at, variable_of};
pub(crate) use stack::caller;
pub(crate) use stack::frames;
pub(crate) use trail::code as call;

use crate::loader::{self, LoadedObject};
use crate::raw_lock::Locked;
use accord_debuginfo::{Elements, Frame, ObjectInfo, ProcessMemory};
use accord_types::HostRange;
use std::collections::{BTreeMap, HashMap};
use std::mem::ManuallyDrop;
use std::path::PathBuf;
use std::sync::Arc;

/// Most places that are kept.
const PLACES_MAX: usize = 10_000;
/// Most static variables.
const STATICS_MAX: usize = 10_000;

/// Objects by file and load address, because another object may use the same address. `None` for a file that is no ELF file.
type Objects = HashMap<(PathBuf, usize), Option<Arc<ObjectInfo>>>;

#[derive(Default)]
struct SourceCache {
    objects: Option<Objects>,
    /// Places by code address, kept until an object is unloaded.
    places: Option<HashMap<usize, Option<Arc<SourceLocation>>>>,
    /// Elements by the call and the entry of its construct, which identify a variable of the source. Kept as long.
    elements: Option<HashMap<(usize, usize), Option<Elements>>>,
    /// Queried static variables, by first address. Kept as long.
    statics: BTreeMap<usize, HostRange>,
    unloaded: u64,
}

static KNOWN: Locked<SourceCache> =
    Locked::new(SourceCache { objects: None, places: None, elements: None, statics: BTreeMap::new(), unloaded: 0 });

/// Returns file, line and function of the instruction at `address`. For a call pass the result of [`caller`], which is inside
/// of the call; for a region its host function's address. Returns `None` without debug information and symbols.
pub(crate) fn place(address: usize) -> Option<Arc<SourceLocation>> {
    let kept = with_known(|known| known.places.get_or_insert_default().get(&address).cloned());
    if let Some(place) = kept {
        return place;
    }
    let object = loader::holding(address);
    let place = object.and_then(|object| Some(Arc::new(info(&object)?.place((address - object.base) as u64)?)));
    KNOWN.with(|known| {
        let places = known.places.get_or_insert_default();
        if places.len() < PLACES_MAX {
            places.insert(address, place.clone());
        }
    });
    place
}

/// Whether a source file is C or C++ by its name, by GCC's rules.
pub(crate) fn is_c(file: &str) -> bool {
    const NAMES: [&str; 16] =
        ["c", "h", "i", "C", "cc", "cp", "cpp", "cxx", "c++", "CPP", "ii", "hh", "hpp", "hxx", "H", "tcc"];
    file.rsplit_once('.').is_some_and(|(_, extension)| NAMES.contains(&extension))
}

/// Calls `act` with the known objects, except unloaded ones.
fn with_known<T>(act: impl FnOnce(&mut SourceCache) -> T) -> T {
    let (_, unloaded) = loader::changes();
    KNOWN.with(|known| {
        if known.unloaded != unloaded {
            (known.unloaded, known.places, known.elements) = (unloaded, None, None);
            known.statics.clear();
        }
        act(known)
    })
}

/// Returns the variable that host memory belongs to: a static one, a local or parameter of the calling functions, or one
/// from which a pointer leads there. `frames` are [`frames`] of this thread and call.
pub(crate) fn variable(range: HostRange, frames: &[Frame]) -> Option<Variable> {
    let memory = ProcessMemory::open();
    let wanted = range.start as u64..range.start.saturating_add(range.len.max(1)) as u64;
    if let Some(object) = loader::holding(range.start) {
        return info(&object)?.global(object.base as u64, &wanted, &memory);
    }
    let local = frames.iter().find_map(|frame| {
        let object = loader::holding(usize::try_from(frame.code).ok()?)?;
        info(&object)?.local(object.base as u64, frame, &wanted, &memory)
    });
    local.or_else(|| {
        let program = |object: &&LoadedObject| !stack::own().contains(&object.span.start);
        loader::objects().iter().filter(program).find_map(|object| {
            let info = info(object).filter(|info| info.has_debug_info())?;
            info.global_pointer(object.base as u64, &wanted, &memory)
        })
    })
}

/// Returns the pointer that the region at `function` uses and that the innermost of `frames` does not locate, if there is exactly one.
fn only_pointer(function: usize, frames: &[Frame]) -> Option<Variable> {
    let object = loader::holding(function)?;
    let info = info(&object)?;
    let frame = frames.first()?;
    let located = info.located(object.base as u64, frame, &ProcessMemory::open());
    let pointers = info.region_pointers(object.base as u64, function as u64);
    let mut unplaced = pointers.into_iter().filter(|pointer| !located.contains(&pointer.name));
    unplaced.next().filter(|_| unplaced.next().is_none())
}

/// Returns the range of the static variable that contains an address. A repeated query is a look-up.
pub(crate) fn static_at(address: usize) -> Option<HostRange> {
    let kept = with_known(|known| known.statics.range(..=address).next_back().map(|(_, range)| *range));
    if let Some(kept) = kept.filter(|range| address - range.start < range.len) {
        return Some(kept);
    }
    let object = loader::holding(address)?;
    let span = info(&object)?.static_at((address - object.base) as u64)?;
    let len = usize::try_from(span.end - span.start).ok()?;
    let range = HostRange { start: object.base + usize::try_from(span.start).ok()?, len };
    with_known(|known| {
        if known.statics.len() < STATICS_MAX {
            known.statics.insert(range.start, range);
        }
    });
    Some(range)
}

/// Returns the information of a file, which the first query reads.
fn info(object: &LoadedObject) -> Option<Arc<ObjectInfo>> {
    let key = (object.file.clone(), object.base);
    let kept = KNOWN.with(|known| known.objects.get_or_insert_default().get(&key).cloned());
    if let Some(info) = kept {
        return info;
    }
    // Read without the lock, so that two threads may read the same file.
    let info = ObjectInfo::open(&object.file).map(Arc::new);
    KNOWN.with(|known| known.objects.get_or_insert_default().insert(key, info.clone()));
    info
}

/// Discards everything in a forked child: another thread of its parent may have been in the middle of a look-up.
///
/// # Safety
/// Must be called only in a `pthread_atfork` child handler, where no other thread exists.
pub(crate) unsafe fn forget_all() {
    // SAFETY: the caller's promise.
    unsafe { KNOWN.raw().reset() };
    KNOWN.with(|known| {
        // Freeing would use locks that a parent's thread may have held.
        let _kept = ManuallyDrop::new(std::mem::take(known));
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use accord_debuginfo::base_name;

    static NUMBERS: [u64; 50] = [7; 50];

    #[test]
    fn this_file_is_known_by_line_and_function() {
        let line = line!() + 1;
        let here = stack::here();
        let place = place(here).expect("tests have line tables");
        assert_eq!(base_name(place.file.as_deref().unwrap()), "mod.rs");
        assert!(place.line.is_some_and(|at| (line..line + 2).contains(&at)), "{place:?} {line}");
        assert!(Arc::ptr_eq(&place, &super::place(here).unwrap()), "it is kept");
        assert_eq!(super::place(8), None);
    }

    #[test]
    fn statics_have_names_and_other_addresses_have_none() {
        let range = HostRange { start: NUMBERS.as_ptr().addr() + 16, len: 8 };
        let found = variable(range, &frames()).expect("a symbol");
        assert!(found.name.contains("NUMBERS"), "{found}");
        assert_eq!(variable(HostRange { start: 64, len: usize::MAX }, &frames()), None);
    }
}
