//! Reads from an object's file what is not loaded: names of static functions, and GCC's offload tables.

use crate::loader;
use object::elf::FileHeader64;
use object::read::elf::{ElfFile64, FileHeader as _, SectionHeader as _};
use object::{Endianness, Object, ObjectSection, ObjectSymbol, ReadCache, SectionKind, SymbolKind};
use std::collections::HashMap;
use std::fs::File;
use std::ops::Range;
use std::path::Path;

/// Calls `look` with the file at `path`. Returns `None` if it can't be read as ELF.
fn with_elf<R>(path: &Path, look: impl FnOnce(&ElfFile64<'_, Endianness, &ReadCache<File>>) -> R) -> Option<R> {
    let cache = ReadCache::new(File::open(path).ok()?);
    let elf = ElfFile64::parse(&cache).ok()?;
    Some(look(&elf))
}

/// Returns the place of a section, relative to the load address. Unlike [`with_elf`], does not read the symbols, of which a
/// library may have hundreds of thousands.
fn section(path: &Path, name: &str) -> Option<Range<u64>> {
    let cache = ReadCache::new(File::open(path).ok()?);
    let header = FileHeader64::<Endianness>::parse(&cache).ok()?;
    let endian = header.endian().ok()?;
    let (_, section) = header.sections(endian, &cache).ok()?.section_by_name(endian, name.as_bytes())?;
    let start = section.sh_addr(endian);
    Some(start..start.checked_add(section.sh_size(endian))?)
}

/// Returns the place of the table of `declare` variables, relative to the load address. GCC emits it
/// (`.gnu.offload_vars`: pairs of address and size) with and without offloading.
pub(crate) fn declare_table(path: &Path) -> Option<Range<usize>> {
    let table = section(path, ".gnu.offload_vars")?;
    Some(usize::try_from(table.start).ok()?..usize::try_from(table.end).ok()?)
}

/// Whether the file's constants contain a text.
pub(crate) fn has_text(path: &Path, text: &[u8]) -> bool {
    let is_constant = |kind| matches!(kind, SectionKind::ReadOnlyData | SectionKind::ReadOnlyString);
    with_elf(path, |elf| {
        let mut constants = elf.sections().filter(|section| is_constant(section.kind()));
        constants.any(|section| section.data().is_ok_and(|bytes| loader::has(bytes, text)))
    })
    .unwrap_or(false)
}

/// Returns the number of the file's regions: GCC lists their addresses (`.gnu.offload_funcs`) with and without offloading.
pub(crate) fn regions(path: &Path) -> u64 {
    section(path, ".gnu.offload_funcs").map_or(0, |table| (table.end - table.start) / 8)
}

/// Returns the offset of the global function `name` from the load address, even if it is not exported.
pub(crate) fn function(path: &Path, name: &[u8]) -> Option<u64> {
    with_elf(path, |elf| {
        let wanted = |symbol: &object::read::elf::ElfSymbol64<'_, '_, _, _>| {
            symbol.kind() == SymbolKind::Text
                && symbol.is_definition()
                && symbol.is_global()
                && symbol.name_bytes() == Ok(name)
        };
        elf.symbols().find(wanted).map(|symbol| symbol.address())
    })?
}

/// Returns the names of the outlined regions, by their offset from the load address. They are static, so that only the full
/// symbol table has them; a stripped file has none.
pub(crate) fn region_names(path: &Path) -> HashMap<u64, String> {
    with_elf(path, |elf| {
        elf.symbols()
            .filter(|symbol| symbol.kind() == SymbolKind::Text && symbol.address() != 0)
            .filter_map(|symbol| {
                let name = symbol.name().ok()?;
                // GCC's regions, and kernels of CUDA Fortran (`module::procedure`).
                (name.contains("_omp_fn") || name.contains("::")).then(|| (symbol.address(), name.to_owned()))
            })
            .collect()
    })
    .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_no_object_has_nothing() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), b"\x7fELF and then text").unwrap();
        assert!(declare_table(file.path()).is_none());
        assert!(region_names(file.path()).is_empty());
        assert!(region_names(Path::new("/nonexistent")).is_empty());
    }
}
