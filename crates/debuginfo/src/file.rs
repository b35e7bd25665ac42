//! One file: its sections, read once.

use crate::entry::{Dwarf, R};
use crate::globals::Globals;
use crate::symbols::Symbols;
use addr2line::Context;
use gimli::{EndianArcSlice, RunTimeEndian};
use object::{Object, ObjectSection, ReadCache};
use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Most bytes of a file's debug sections that are read. A larger file has no names.
const BYTES_MAX: u64 = 1 << 30;

/// The debug information and symbols of one file of the program.
///
/// Offsets are relative to the file's load address.
pub struct ObjectInfo {
    pub(crate) dwarf: Option<Arc<Dwarf>>,
    /// Finds units, lines and functions. Only one thread at a time may use it.
    pub(crate) context: Mutex<Option<Context<R>>>,
    symbols: OnceLock<Symbols>,
    path: PathBuf,
    pub(crate) globals: OnceLock<Globals>,
}

impl ObjectInfo {
    /// Reads a file's debug sections, if it has any. Returns `None` if it is no ELF file.
    pub fn open(path: &Path) -> Option<Self> {
        let cache = ReadCache::new(File::open(path).ok()?);
        let file = object::File::parse(&cache).ok()?;
        let dwarf = sections(&file).map(Arc::new);
        let context = dwarf.clone().and_then(|dwarf| Context::from_arc_dwarf(dwarf).ok());
        let (symbols, globals) = (OnceLock::new(), OnceLock::new());
        Some(Self { dwarf, context: Mutex::new(context), symbols, path: path.to_owned(), globals })
    }

    /// Whether the file has debug information.
    pub fn has_debug_info(&self) -> bool {
        self.dwarf.is_some()
    }

    /// Returns the range of the static variable that contains an offset, by the symbol table.
    pub fn static_at(&self, offset: u64) -> Option<Range<u64>> {
        self.symbols().variable(offset).map(|symbol| symbol.span.clone())
    }

    /// Returns the symbols, which the first call reads.
    pub(crate) fn symbols(&self) -> &Symbols {
        self.symbols.get_or_init(|| {
            let read = || {
                let cache = ReadCache::new(File::open(&self.path).ok()?);
                Some(Symbols::read(&object::File::parse(&cache).ok()?))
            };
            read().unwrap_or_default()
        })
    }

    pub(crate) fn with_context<T>(&self, find_value: impl FnOnce(&Context<R>) -> Option<T>) -> Option<T> {
        find_value(self.context.lock().unwrap_or_else(PoisonError::into_inner).as_ref()?)
    }
}

/// Reads the debug sections. Returns `None` if there are none or they are too large.
fn sections<'a>(file: &impl Object<'a>) -> Option<Dwarf> {
    let debug = file.section_by_name(".debug_info")?;
    let bytes: u64 =
        file.sections().filter(|s| s.name().is_ok_and(|n| n.starts_with(".debug_"))).map(|s| s.size()).sum();
    if debug.size() == 0 || bytes > BYTES_MAX {
        return None;
    }
    let endian = if file.is_little_endian() { RunTimeEndian::Little } else { RunTimeEndian::Big };
    let load = |id: gimli::SectionId| {
        let bytes = file.section_by_name(id.name()).and_then(|section| section.data().ok()).unwrap_or_default();
        Ok::<_, gimli::Error>(EndianArcSlice::new(Arc::from(bytes), endian))
    };
    gimli::Dwarf::load(load).ok()
}
