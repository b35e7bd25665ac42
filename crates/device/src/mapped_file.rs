//! Files that a process has mapped, as the kernel identifies them, even if their paths have changed since.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// The kernel's mark after the path of a removed file.
const DELETED: &[u8] = b" (deleted)";

/// The mappings of a process.
pub struct Mappings {
    /// The process's folder in `/proc`.
    process: PathBuf,
    /// Lines in the order of their addresses.
    lines: Vec<Line>,
}

/// A mapped file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MappedFile {
    /// The file's path, or its last one.
    pub path: PathBuf,
    /// A path from which the contents can be read. For a removed file that needs an administrator's rights.
    pub contents: PathBuf,
}

impl Mappings {
    /// Reads the mappings of this process; `None` where the system refuses.
    pub fn here() -> Option<Self> {
        // The files of a main thread that has ended are empty.
        let text = std::fs::read("/proc/thread-self/maps").ok()?;
        Some(Self::parse("/proc/self".into(), &text))
    }

    /// Reads the mappings of another process; `None` where the system refuses.
    pub fn of(process: u32) -> Option<Self> {
        let process = PathBuf::from(format!("/proc/{process}"));
        let text = std::fs::read(process.join("maps")).ok()?;
        Some(Self::parse(process, &text))
    }

    fn parse(process: PathBuf, text: &[u8]) -> Self {
        let lines = text.split(|byte| *byte == b'\n').filter_map(Line::parse);
        Self { process, lines: lines.filter(|line| line.path.first() == Some(&b'/')).collect() }
    }

    /// The file that is mapped at an address.
    pub fn at(&self, address: u64) -> Option<MappedFile> {
        let line = self.lines.get(self.lines.partition_point(|line| line.end <= address))?;
        (line.start <= address).then(|| self.file(line))
    }

    /// Returns the files that have, or had, this path.
    pub fn named(&self, path: &Path) -> impl Iterator<Item = MappedFile> {
        let begins = |line: &&Line| line.offset == 0 && line.path.starts_with(path.as_os_str().as_bytes());
        self.lines.iter().filter(begins).map(|line| self.file(line)).filter(move |file| file.path == path)
    }

    fn file(&self, line: &Line) -> MappedFile {
        let path = PathBuf::from(OsStr::from_bytes(&line.path));
        match line.path.strip_suffix(DELETED) {
            Some(before) if path.metadata().map_or(true, |data| data.ino() != line.inode) => MappedFile {
                path: PathBuf::from(OsStr::from_bytes(before)),
                contents: self.process.join(format!("map_files/{:x}-{:x}", line.start, line.end)),
            },
            _ => MappedFile { contents: path.clone(), path },
        }
    }
}

/// A line of the list: `7f00-8000 r--p 00000000 fe:01 1234   /path`.
struct Line {
    start: u64,
    end: u64,
    offset: u64,
    inode: u64,
    path: Vec<u8>,
}

impl Line {
    fn parse(line: &[u8]) -> Option<Self> {
        let mut rest = line;
        let mut word = || {
            let end = rest.iter().position(|byte| *byte == b' ')?;
            let (word, behind) = rest.split_at(end);
            rest = behind.trim_ascii_start();
            std::str::from_utf8(word).ok()
        };
        let (start, end) = word()?.split_once('-')?;
        let _access = word()?;
        let offset = word()?;
        let (_device, inode) = (word()?, word()?);
        let number = |text| u64::from_str_radix(text, 16).ok();
        Some(Self {
            start: number(start)?,
            end: number(end)?,
            offset: number(offset)?,
            inode: inode.parse().ok()?,
            path: with_line_ends(rest),
        })
    }
}

/// Decodes a path, in which the kernel writes a line end as `\012`.
fn with_line_ends(path: &[u8]) -> Vec<u8> {
    const ESCAPED: &[u8] = b"\\012";
    let mut plain = Vec::with_capacity(path.len());
    let mut rest = path;
    while let Some((&byte, behind)) = rest.split_first() {
        let escaped = rest.starts_with(ESCAPED);
        plain.push(if escaped { b'\n' } else { byte });
        rest = if escaped { &rest[ESCAPED.len()..] } else { behind };
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_in_the_executable() {
        let here = code_is_in_the_executable as *const () as u64;
        let file = Mappings::here().unwrap().at(here).unwrap();
        assert_eq!(file.path, std::env::current_exe().unwrap());
        assert_eq!(file.contents, file.path);
        let again = Mappings::of(std::process::id()).unwrap();
        assert_eq!(again.named(&file.path).next().as_ref(), Some(&file));
        assert_eq!(again.at(8), None);
    }

    #[test]
    fn lines_have_paths_of_all_kinds() {
        let line = |text: &[u8]| Line::parse(text).unwrap();
        let found = line(b"7f00-8000 r--p 00001000 fe:01 1234   /a b\\012c (deleted)");
        assert_eq!((found.start, found.end, found.offset, found.inode), (0x7f00, 0x8000, 0x1000, 1234));
        assert_eq!(found.path, b"/a b\nc (deleted)");
        assert_eq!(line(b"7f00-8000 rw-p 00000000 00:00 0 ").path, b"");
        assert!(Line::parse(b"").is_none());
    }

    #[test]
    fn a_removed_file_keeps_its_path_and_another_one_of_that_name_is_not_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lib.so");
        let mappings = |inode: u64, path: &str| {
            Mappings::parse("/proc/1".into(), format!("1000-2000 r--p 00000000 fe:01 {inode} {path}\n").as_bytes())
        };
        let removed = mappings(7, &format!("{} (deleted)", path.display())).at(0x1000).unwrap();
        assert_eq!(removed, MappedFile { path: path.clone(), contents: "/proc/1/map_files/1000-2000".into() });
        std::fs::write(&path, "another").unwrap();
        assert_eq!(mappings(7, &format!("{} (deleted)", path.display())).at(0x1000).unwrap(), removed);
        // A file may actually have such a name.
        let named = folder.path().join("lib.so (deleted)");
        std::fs::write(&named, "").unwrap();
        let inode = named.metadata().unwrap().ino();
        let found = mappings(inode, &named.display().to_string()).at(0x1fff).unwrap();
        assert_eq!(found, MappedFile { path: named.clone(), contents: named });
    }
}
