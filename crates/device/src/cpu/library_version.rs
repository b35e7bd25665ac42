//! The version of Accord that a `libacc.so` is of. It runs in the workers of an agent, which may have been installed at another time.

use super::layout::LAYOUT_VERSION;
use crate::program::ProgramSpec;
use accord_types::{Error, ErrorCode, Result, os_text};
use object::elf::FileHeader64;
use object::read::elf::{FileHeader as _, SectionHeader as _};
use object::{Endianness, ReadCache};
use std::cmp::Ordering;
use std::fmt;
use std::fs::File;
use std::path::Path;

/// The section of `libacc.so` that holds [`MARK`].
pub const MARK_SECTION: &str = ".accord.version";
const VERSION_BYTES: usize = 28;
const MARK_BYTES: usize = VERSION_BYTES + 4;

/// The version of this build as `libacc.so` holds it: text, zeros, and the version of the memory that owner and worker share.
pub const MARK: [u8; MARK_BYTES] = {
    let version = env!("CARGO_PKG_VERSION").as_bytes();
    let layout = LAYOUT_VERSION.to_le_bytes();
    let mut mark = [0; MARK_BYTES];
    let mut at = 0;
    while at < version.len() {
        mark[at] = version[at];
        at += 1;
    }
    at = 0;
    while at < layout.len() {
        mark[VERSION_BYTES + at] = layout[at];
        at += 1;
    }
    mark
};
const _: () = assert!(env!("CARGO_PKG_VERSION").len() < VERSION_BYTES);

/// A version of `libacc.so`.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Version {
    text: String,
    layout: u32,
}

impl Version {
    /// Parses a mark. Returns `None` if the bytes are no mark.
    fn read(mark: &[u8]) -> Option<Self> {
        let mark = <&[u8; MARK_BYTES]>::try_from(mark).ok()?;
        let (text, layout) = mark.split_first_chunk::<VERSION_BYTES>()?;
        let end = text.iter().position(|byte| *byte == 0)?;
        let text = std::str::from_utf8(&text[..end]).ok()?.to_owned();
        Some(Self { text, layout: u32::from_le_bytes(layout.try_into().ok()?) })
    }

    /// Returns the key of the order: the numbers of the version, then the layout, which grows.
    fn order(&self) -> (Vec<u64>, u32) {
        let numbers = self.text.split(['.', '-', '+']).map_while(|number| number.parse().ok());
        (numbers.collect(), self.layout)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} with worker layout {}", self.text, self.layout)
    }
}

/// Returns the version that a file names; `Ok(None)` if it names none, as libraries without the mark.
fn of_file(path: &Path) -> std::io::Result<Option<Version>> {
    let cache = ReadCache::new(File::open(path)?);
    // `ElfFile64::parse` reads all symbols, too.
    let mark = || {
        let header = FileHeader64::<Endianness>::parse(&cache).ok()?;
        let endian = header.endian().ok()?;
        let (_, section) = header.sections(endian, &cache).ok()?.section_by_name(endian, MARK_SECTION.as_bytes())?;
        Version::read(section.data(endian, &cache).ok()?)
    };
    Ok(mark())
}

/// Compares the `libacc.so` that a worker is to load with this build.
///
/// # Errors
/// Returns `acc_error_device_init` if the library is of another version.
pub(super) fn check(program: &ProgramSpec) -> Result<()> {
    let Some(libacc) = &program.libacc else { return Ok(()) };
    // A file that can't be read is reported when the worker does not start.
    let Ok(there) = of_file(libacc) else { return Ok(()) };
    let here = Version::read(&MARK);
    if there == here {
        return Ok(());
    }
    let order = |version: &Option<Version>| version.as_ref().map(Version::order);
    let named = |version: &Option<Version>| {
        let version = version.as_ref().map(Version::to_string);
        version.map_or_else(|| String::from("a version that it does not name"), |version| format!("version {version}"))
    };
    let path = os_text::displayed(&os_text::encode(libacc.as_os_str()));
    let (there_named, here_named) = (named(&there), named(&here));
    // A program's own workers load the program's library, an executor's the agent's.
    let (cause, remedy) = if program.output.is_none() {
        let cause = format!(
            "{path} was replaced since the program started: it is of {there_named} now, the program runs {here_named}"
        );
        (cause, String::from("start the program again"))
    } else {
        let cause = format!("{path} is of {there_named}, the node agent that loads it into workers is of {here_named}");
        let older = if order(&there).cmp(&order(&here)) == Ordering::Less { "libacc.so" } else { "accord-node-agent" };
        (cause, format!("reinstall {older} on this node, which is the older one, and restart the agent"))
    };
    Err(Error::new(ErrorCode::DeviceInit, cause).remedy(remedy))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(text: &str, layout: u32) -> Version {
        Version { text: text.to_owned(), layout }
    }

    #[test]
    fn the_mark_holds_this_version() {
        assert_eq!(Version::read(&MARK), Some(version(env!("CARGO_PKG_VERSION"), LAYOUT_VERSION)));
        assert_eq!(Version::read(&MARK[1..]), None);
        assert_eq!(Version::read(&[b'1'; MARK_BYTES]), None, "without an end");
    }

    #[test]
    fn versions_are_ordered_by_their_numbers() {
        let rising = [version("0.1.0", 6), version("0.1.0", 7), version("0.2.0-rc.1", 3), version("0.10.0", 1)];
        assert!(rising.is_sorted_by(|a, b| a.order() < b.order()));
    }

    #[test]
    fn a_file_without_a_mark_names_no_version() {
        assert_eq!(of_file(&std::env::current_exe().unwrap()).unwrap(), None);
        let text = tempfile::NamedTempFile::new().unwrap();
        assert_eq!(of_file(text.path()).unwrap(), None);
        assert!(of_file(Path::new("/nowhere/libacc.so")).is_err());
    }
}
