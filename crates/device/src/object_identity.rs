//! The identity of an object file of the program. Two processes run the same code only if the identities are equal.

use accord_types::short_lock::ShortLock;
use object::elf::{ELF_NOTE_GNU, FileHeader64, NT_GNU_BUILD_ID};
use object::read::elf::{FileHeader as _, SectionHeader as _};
use object::{Endianness, ReadCache};
use sha2::{Digest as _, Sha256};
use std::collections::HashMap;
use std::fs::{File, Metadata};
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// Prefix of an identity that is a hash of the file's contents.
const CONTENTS: &str = "sha256:";
/// The identity of a loaded file that can't be read any more. It equals no other identity.
pub const UNREADABLE: &str = "unreadable";
/// Most kept hashes of files, of which a program has few without build id. Others are computed each time.
const KEPT_MAX: usize = 64;

/// Hashes by file.
type FileHashes = HashMap<PathBuf, (Stamp, String)>;

static KEPT: ShortLock<Option<FileHashes>> = ShortLock::new(None);

/// Returns the identity of a file's contents: the ELF build id in hex, or a hash if there is none.
///
/// # Errors
/// Returns an error if the file can't be read.
pub fn of_file(path: &Path) -> io::Result<String> {
    let cache = ReadCache::new(File::open(path)?);
    match build_id(&cache).filter(|id| !id.is_empty()) {
        Some(id) => Ok(hex(id)),
        None => of_contents(path),
    }
}

/// Returns the build id in the notes of an ELF file. Reads no symbols, of which a program may have hundreds of thousands.
fn build_id(cache: &ReadCache<File>) -> Option<&[u8]> {
    let header = FileHeader64::<Endianness>::parse(cache).ok()?;
    let endian = header.endian().ok()?;
    for section in header.sections(endian, cache).ok()?.iter() {
        let Some(mut notes) = section.notes(endian, cache).ok()? else { continue };
        while let Some(note) = notes.next().ok()? {
            if note.name() == ELF_NOTE_GNU && note.n_type(endian) == NT_GNU_BUILD_ID {
                return Some(note.desc());
            }
        }
    }
    None
}

/// Returns the hash of a file's contents, which is cached while the file appears unchanged.
///
/// # Errors
/// Returns an error if the file can't be read.
pub fn of_contents(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let stamp = Stamp::of(&file.metadata()?);
    // The name `/proc/self/exe` means another file in each process, but the same file for the process's life.
    let known = |kept: &FileHashes| kept.get(path).filter(|(of, _)| *of == stamp).map(|(_, hash)| hash.clone());
    let kept = KEPT.lock().as_ref().and_then(known);
    if let Some(hash) = kept {
        return Ok(hash);
    }
    let mut hasher = Sha256::new();
    let mut piece = vec![0; 256 << 10];
    loop {
        match file.read(&mut piece) {
            Ok(0) => break,
            Ok(read) => hasher.update(&piece[..read]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    let hash = format!("{CONTENTS}{}", hex(&hasher.finalize()));
    let mut kept = KEPT.lock();
    let kept = kept.get_or_insert_default();
    if kept.len() < KEPT_MAX {
        kept.insert(path.to_owned(), (stamp, hash.clone()));
    }
    Ok(hash)
}

/// Whether the identity is a hash of a file's contents, so that the file has no build id.
pub fn is_of_contents(identity: &str) -> bool {
    identity.starts_with(CONTENTS)
}

/// Returns an identity's abbreviation for messages.
pub fn describe(identity: &str) -> String {
    const DISPLAYED: usize = 12;
    if identity == UNREADABLE {
        return "been removed or replaced since it was loaded".to_owned();
    }
    let (what, digits) = match identity.strip_prefix(CONTENTS) {
        Some(digits) => ("no build id and contents", digits),
        None => ("build id", identity),
    };
    format!("{what} {}", digits.get(..DISPLAYED).unwrap_or(digits))
}

/// A stamp that changes when a file is written or replaced.
#[derive(PartialEq, Eq)]
struct Stamp([i64; 6]);

impl Stamp {
    fn of(data: &Metadata) -> Self {
        let [device, inode, size] = [data.dev(), data.ino(), data.size()].map(u64::cast_signed);
        Self([device, inode, size, data.mtime(), data.mtime_nsec(), data.ctime_nsec()])
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use object::Object as _;

    #[test]
    fn contents_tell_files_without_build_id_apart() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, contents: &[u8]| {
            let path = folder.path().join(name);
            std::fs::write(&path, contents).unwrap();
            path
        };
        let first = of_file(&write("a", b"one")).unwrap();
        assert!(is_of_contents(&first));
        assert_eq!(of_file(&write("b", b"one")).unwrap(), first);
        assert_ne!(of_file(&write("c", b"two")).unwrap(), first);
        let replaced = write("new", b"six");
        std::fs::rename(replaced, folder.path().join("a")).unwrap();
        assert_ne!(of_file(&folder.path().join("a")).unwrap(), first, "what was kept is of the file that was there");
        assert!(of_file(Path::new("/nonexistent")).is_err());
    }

    #[test]
    fn a_build_id_is_taken_where_there_is_one() {
        let own = std::env::current_exe().unwrap();
        let linked_with = object::File::parse(&*std::fs::read(&own).unwrap()).unwrap().build_id().unwrap().map(hex);
        let identity = of_file(&own).unwrap();
        match linked_with {
            Some(id) => assert_eq!(identity, id),
            None => assert!(is_of_contents(&identity)),
        }
    }

    #[test]
    fn messages_show_a_part() {
        assert_eq!(describe("12ab"), "build id 12ab");
        assert_eq!(
            describe(&format!("{CONTENTS}{}", "0123456789abcdef".repeat(4))),
            "no build id and contents 0123456789ab"
        );
    }
}
