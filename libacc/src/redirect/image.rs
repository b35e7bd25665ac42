//! A loaded object as the dynamic linker sees it: its symbols and its relocations, in memory.

use crate::loader;
use accord_types::os_text;
use std::ffi::CStr;
use std::ops::Range;

/// The kinds of entries of a dynamic section (ELF, `DT_*`).
mod tag {
    pub(super) const NULL: u64 = 0;
    pub(super) const NEEDED: u64 = 1;
    pub(super) const PLT_BYTES: u64 = 2;
    pub(super) const HASH: u64 = 4;
    pub(super) const STRINGS: u64 = 5;
    pub(super) const SYMBOLS: u64 = 6;
    pub(super) const RELOCATIONS: u64 = 7;
    pub(super) const RELOCATIONS_BYTES: u64 = 8;
    pub(super) const STRINGS_BYTES: u64 = 10;
    pub(super) const SONAME: u64 = 14;
    pub(super) const PLT: u64 = 23;
    pub(super) const GNU_HASH: u64 = 0x6fff_fef5;
    pub(super) const RELATIVE_COUNT: u64 = 0x6fff_fff9;
}

/// Relocations after which a word holds a symbol's address: of data, of the global offset table, and of a jump slot.
#[cfg(target_arch = "x86_64")]
const ADDRESSES: [u32; 3] = [1, 6, 7];
/// Relocations after which a word holds a symbol's address: of data, of the global offset table, and of a jump slot.
#[cfg(target_arch = "aarch64")]
const ADDRESSES: [u32; 3] = [257, 1025, 1026];

/// One entry of a symbol table (ELF, `Elf64_Sym`).
#[repr(C)]
struct RawSymbol {
    name: u32,
    info: u8,
    other: u8,
    section: u16,
    value: u64,
    size: u64,
}

/// One entry of a relocation table (ELF, `Elf64_Rela`).
#[repr(C)]
struct RawRelocation {
    offset: u64,
    info: u64,
    addend: i64,
}

/// One loaded object. Its memory stays mapped while the caller keeps the object loaded, as the dynamic linker does during constructors.
pub(super) struct Image {
    pub(super) base: usize,
    /// The object's path, empty for the executable.
    pub(super) path: String,
    /// The object's segments, and whether each stays writable.
    segments: Vec<(Range<usize>, libc::c_int)>,
    /// The range that the dynamic linker makes read-only after relocation.
    relro: Range<usize>,
    strings: &'static [u8],
    symbols: usize,
    gnu_hash: usize,
    hash: usize,
    relocations: [&'static [RawRelocation]; 2],
    soname: usize,
    needed: Vec<usize>,
}

/// A function that an object defines.
pub(super) struct Definition {
    /// Index of the symbol table's entry with the value.
    pub(super) entry: usize,
    /// The symbol's address, relative to the load address.
    pub(super) value: u64,
}

/// A word that holds, or will hold, the address of a symbol.
pub(super) struct Slot {
    pub(super) at: usize,
    pub(super) name: &'static CStr,
}

/// All objects of this library's namespace.
pub(super) fn images() -> Vec<Image> {
    let mut found = Vec::new();
    loader::each_object(&mut |raw| {
        found.extend(Image::of(raw));
        false
    });
    found
}

impl Image {
    fn of(raw: &loader::RawObject<'_>) -> Option<Self> {
        let headers = raw.headers();
        let of_kind = |kind| headers.iter().find(move |header| header.p_type == kind).map(|header| raw.range(header));
        let segments: Vec<_> = headers
            .iter()
            .filter(|header| header.p_type == libc::PT_LOAD)
            .map(|header| (raw.range(header), protection(header.p_flags)))
            .collect();
        let mut image = Self {
            base: raw.base(),
            path: os_text::displayed(&os_text::encode(&raw.name())),
            segments,
            relro: of_kind(libc::PT_GNU_RELRO).unwrap_or_default(),
            strings: &[],
            symbols: 0,
            gnu_hash: 0,
            hash: 0,
            relocations: [&[]; 2],
            soname: 0,
            needed: Vec::new(),
        };
        image.read_dynamic(of_kind(libc::PT_DYNAMIC)?.start);
        (image.holds(image.symbols) && !image.strings.is_empty()).then_some(image)
    }

    fn read_dynamic(&mut self, dynamic: usize) {
        let mut entry = dynamic as *const [u64; 2];
        let (mut strings, mut tables, mut relative) = ([0usize; 2], [[0usize; 2]; 2], 0);
        loop {
            // SAFETY: by the loader a dynamic section is here, which ends with tag 0.
            let [what, value] = unsafe { *entry };
            let number = value as usize;
            match what {
                tag::NULL => break,
                tag::NEEDED => self.needed.push(number),
                tag::SONAME => self.soname = number,
                tag::STRINGS => strings[0] = self.address(number),
                tag::STRINGS_BYTES => strings[1] = number,
                tag::SYMBOLS => self.symbols = self.address(number),
                tag::GNU_HASH => self.gnu_hash = self.address(number),
                tag::HASH => self.hash = self.address(number),
                tag::RELOCATIONS => tables[0][0] = self.address(number),
                tag::RELOCATIONS_BYTES => tables[0][1] = number,
                tag::PLT => tables[1][0] = self.address(number),
                tag::PLT_BYTES => tables[1][1] = number,
                tag::RELATIVE_COUNT => relative = number,
                _ => {}
            }
            // SAFETY: the entry just read was not the last.
            entry = unsafe { entry.add(1) };
        }
        self.strings = self.part(strings[0], strings[1]);
        self.relocations = tables.map(|[start, bytes]| self.part(start, bytes / size_of::<RawRelocation>()));
        // Those without a symbol come first, and are many.
        self.relocations[0] = self.relocations[0].get(relative..).unwrap_or_default();
    }

    /// Returns an address of the dynamic section. The GNU C library relocates these entries, others do not.
    fn address(&self, value: usize) -> usize {
        if value < self.base { value + self.base } else { value }
    }

    /// Returns a table of the object, empty if it is outside of the object.
    fn part<T>(&self, start: usize, count: usize) -> &'static [T] {
        let bytes = count.saturating_mul(size_of::<T>());
        let inside = |(segment, _): &(Range<usize>, _)| segment.contains(&start) && bytes <= segment.end - start;
        if count == 0 || !start.is_multiple_of(align_of::<T>()) || !self.segments.iter().any(inside) {
            return &[];
        }
        // SAFETY: the table lies in a loaded segment, which the caller keeps (see the type).
        unsafe { std::slice::from_raw_parts(start as *const T, count) }
    }

    /// Whether an address lies in the object.
    pub(super) fn holds(&self, address: usize) -> bool {
        self.segments.iter().any(|(segment, _)| segment.contains(&address))
    }

    /// Returns the final protection of the page at an address: the dynamic linker may change it after relocation.
    pub(super) fn protection(&self, page: usize, page_bytes: usize) -> libc::c_int {
        let down = |address: usize| address & !(page_bytes - 1);
        if (down(self.relro.start)..down(self.relro.end)).contains(&page) {
            return libc::PROT_READ;
        }
        let holds = |(segment, _): &&(Range<usize>, _)| (down(segment.start)..segment.end).contains(&page);
        self.segments.iter().find(holds).map_or(libc::PROT_READ, |(_, protection)| *protection)
    }

    fn string(&self, at: usize) -> Option<&'static CStr> {
        CStr::from_bytes_until_nul(self.strings.get(at..)?).ok()
    }

    /// Returns the name by which other objects depend on this one.
    pub(super) fn soname(&self) -> &'static CStr {
        Some(self.soname).filter(|at| *at != 0).and_then(|at| self.string(at)).unwrap_or_default()
    }

    /// Whether the object is linked with the library of this name.
    pub(super) fn needs(&self, soname: &CStr) -> bool {
        self.needed.iter().any(|at| self.string(*at) == Some(soname))
    }

    fn symbol(&self, index: u32) -> *const RawSymbol {
        (self.symbols as *const RawSymbol).wrapping_add(index as usize)
    }

    fn name_of(&self, index: u32) -> Option<&'static CStr> {
        // SAFETY: indices come from the object's own tables.
        self.string(unsafe { (*self.symbol(index)).name } as usize)
    }

    /// The function of this name that the object defines.
    pub(super) fn definition(&self, name: &CStr) -> Option<Definition> {
        self.function(if self.gnu_hash != 0 { self.in_gnu_hash(name) } else { self.in_hash(name) }?)
    }

    /// All functions that the object defines under names that are `wanted`.
    pub(super) fn definitions(
        &self,
        wanted: impl Fn(&CStr) -> bool,
    ) -> impl Iterator<Item = (&'static CStr, Definition)> {
        (1..self.symbol_count()).filter_map(move |index| {
            let name = self.name_of(index).filter(|name| wanted(name))?;
            Some((name, self.function(index)?))
        })
    }

    fn function(&self, index: u32) -> Option<Definition> {
        const FUNCTION: u8 = 2;
        let symbol = self.symbol(index);
        // SAFETY: the index is of the object's symbol table.
        let raw = unsafe { &*symbol };
        let defined = raw.section != 0 && raw.info & 0xf == FUNCTION;
        defined.then(|| Definition { entry: symbol.addr() + std::mem::offset_of!(RawSymbol, value), value: raw.value })
    }

    /// Returns the parts of the table of `DT_GNU_HASH`: its first symbol, its buckets, and the address of its hashes.
    fn gnu_hash_parts(&self) -> (u32, &'static [u32], *const u32) {
        // SAFETY: the table begins with four words, followed by a filter of machine words, a list of buckets and one of hashes.
        unsafe {
            let [buckets, first, filter_words, _] = *(self.gnu_hash as *const [u32; 4]);
            let list = (self.gnu_hash + 16 + filter_words as usize * size_of::<usize>()) as *const u32;
            (first, std::slice::from_raw_parts(list, buckets as usize), list.add(buckets as usize))
        }
    }

    /// Returns the number of symbols: the defined ones, and those before them.
    fn symbol_count(&self) -> u32 {
        if self.gnu_hash == 0 && self.hash == 0 {
            return 0;
        }
        if self.gnu_hash == 0 {
            // SAFETY: the table begins with the numbers of buckets and symbols.
            let [_, symbols] = unsafe { *(self.hash as *const [u32; 2]) };
            return symbols;
        }
        let (first, buckets, hashes) = self.gnu_hash_parts();
        let mut last = buckets.iter().copied().max().unwrap_or(0);
        if last < first {
            return first;
        }
        // SAFETY: the chain of the last bucket ends with a marked hash, that of the last symbol.
        while unsafe { *hashes.add((last - first) as usize) } & 1 == 0 {
            last += 1;
        }
        last + 1
    }

    /// Finds a symbol as the dynamic linker does: by the table of `DT_GNU_HASH`.
    fn in_gnu_hash(&self, name: &CStr) -> Option<u32> {
        let wanted =
            name.to_bytes().iter().fold(5381u32, |hash, byte| hash.wrapping_mul(33).wrapping_add(u32::from(*byte)));
        let (first, buckets, hashes) = self.gnu_hash_parts();
        let mut index = buckets[wanted.checked_rem(u32::try_from(buckets.len()).ok()?)? as usize];
        if index < first {
            return None;
        }
        loop {
            // SAFETY: the chain has not ended.
            let hash = unsafe { *hashes.add((index - first) as usize) };
            if hash | 1 == wanted | 1 && self.name_of(index) == Some(name) {
                return Some(index);
            }
            if hash & 1 != 0 {
                return None;
            }
            index += 1;
        }
    }

    /// Finds a symbol as the dynamic linker does: by the table of `DT_HASH`.
    fn in_hash(&self, name: &CStr) -> Option<u32> {
        if self.hash == 0 {
            return None;
        }
        let wanted = name.to_bytes().iter().fold(0u32, |hash, byte| {
            let hash = (hash << 4).wrapping_add(u32::from(*byte));
            (hash ^ (hash >> 24 & 0xf0)) & 0x0fff_ffff
        });
        // SAFETY: the table consists of two numbers, the buckets, and the chains.
        unsafe {
            let [buckets, _] = *(self.hash as *const [u32; 2]);
            let list = (self.hash + 8) as *const u32;
            let mut index = *list.add(wanted.checked_rem(buckets)? as usize);
            while index != 0 {
                if self.name_of(index) == Some(name) {
                    return Some(index);
                }
                index = *list.add((buckets + index) as usize);
            }
        }
        None
    }

    /// Returns the words that hold or will hold the address of a symbol whose name is `wanted`.
    pub(super) fn slots(&self, wanted: impl Fn(&CStr) -> bool) -> Vec<Slot> {
        let of_symbol = |relocation: &&RawRelocation| {
            relocation.info >> 32 != 0 && relocation.addend == 0 && ADDRESSES.contains(&(relocation.info as u32))
        };
        self.relocations
            .iter()
            .flat_map(|table| table.iter())
            .filter(of_symbol)
            .filter_map(|relocation| {
                let name = self.name_of((relocation.info >> 32) as u32)?;
                let at = self.base.wrapping_add(relocation.offset as usize);
                (wanted(name) && self.holds(at) && at.is_multiple_of(align_of::<usize>())).then_some(Slot { at, name })
            })
            .collect()
    }
}

fn protection(flags: u32) -> libc::c_int {
    [(libc::PF_R, libc::PROT_READ), (libc::PF_W, libc::PROT_WRITE), (libc::PF_X, libc::PROT_EXEC)]
        .iter()
        .filter(|(flag, _)| flags & flag != 0)
        .fold(0, |all, (_, access)| all | access)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_of_the_c_library_are_found_where_they_are() {
        let all = images();
        let c_library = all.iter().find(|image| image.soname() == c"libc.so.6").unwrap();
        // SAFETY: the name is terminated.
        let qsort = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"qsort".as_ptr()) }.addr();
        let found = c_library.definition(c"qsort").unwrap();
        assert_eq!(c_library.base + found.value as usize, qsort);
        // SAFETY: the entry is a word of the symbol table.
        assert_eq!(unsafe { *(found.entry as *const u64) }, found.value);
        assert!(c_library.definition(c"GOACC_parallel_keyed").is_none());
        assert!(c_library.definitions(|name| name == c"qsort").any(|(_, at)| at.value == found.value));
        assert!(c_library.holds(qsort) && !c_library.holds(8));
    }

    #[test]
    fn words_with_the_address_of_a_function_are_found() {
        let all = images();
        let executable = &all[0];
        assert!(executable.needs(c"libc.so.6") && !executable.needs(c"libgomp.so.1"));
        let slots = executable.slots(|name| name == c"malloc" || name == c"free");
        assert!(!slots.is_empty());
        for slot in slots {
            // SAFETY: the dynamic linker has filled the word in.
            let address = unsafe { *(slot.at as *const usize) };
            assert!(all.iter().any(|image| image.holds(address)), "{:?}", slot.name);
        }
    }
}
