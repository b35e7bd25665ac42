//! Detection of programs that libacc can't be preloaded into: they would silently run on the host.
//!
//! Only the program that `accord run` starts itself is checked, and refused only for certain: programs that use libgomp
//! for OpenMP run. Below a shell or `mpirun`, a libgomp that is linked into a program reports itself to libacc
//! (`libacc/src/redirect`). Programs with another user's rights can't be detected there.

use memchr::memmem::Finder;
use object::read::elf::{Dyn as _, ElfFile64, FileHeader as _, ProgramHeader as _};
use object::{Endianness, Object as _, ObjectSymbol as _, ReadCache, elf};
use std::ffi::OsStr;
use std::fmt;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

/// The reason why libacc is not loaded into a program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Obstacle {
    /// The program is statically linked, with libgomp.
    Static,
    /// The program contains libgomp, in addition to any other libraries.
    OwnLibgomp,
    /// The dynamic linker ignores `LD_PRELOAD` for it, and for what it starts.
    Privileged,
    /// The program was not compiled for OpenACC, and neither loads nor starts other code.
    NoOpenAcc,
}

impl Obstacle {
    /// Whether the program would run on the host, so that it is not started.
    pub(crate) fn is_fatal(self) -> bool {
        self != Self::NoOpenAcc
    }
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Static => {
                "is statically linked, with its own libgomp: nothing can come before that, and it would run on the host; \
                 link it without -static"
            }
            Self::OwnLibgomp => {
                "has libgomp.a inside, which nothing can come before: it would run on the host; link it with the shared \
                 libgomp, or by accord cc"
            }
            Self::Privileged => {
                "has more rights than its user (set-user-ID, set-group-ID, file capabilities), so the dynamic linker \
                 ignores LD_PRELOAD: neither it nor what it starts finds libacc; start accord run by it instead, or link by accord cc"
            }
            Self::NoOpenAcc => "has no OpenACC in it; compile and link it with -fopenacc",
        })
    }
}

/// Returns the file that a name finally means to `exec`, and the obstacle that it presents.
pub(crate) fn obstacle(name: &OsStr) -> Option<(PathBuf, Obstacle)> {
    let mut path = find(name)?;
    // `accord bench`: this program contains the texts below, because it searches for them, but no libgomp.
    if path.canonicalize().ok().zip(std::env::current_exe().ok()).is_some_and(|(path, own)| path == own) {
        return None;
    }
    // The kernel follows this many interpreters.
    for _ in 0..5 {
        let mut file = File::open(&path).ok()?;
        let Some(interpreter) = interpreter_of(&mut file) else {
            let obstacle = if is_privileged(&file) { Some(Obstacle::Privileged) } else { in_elf(file) };
            return obstacle.map(|obstacle| (path, obstacle));
        };
        path = interpreter;
    }
    None
}

/// Returns the file that `exec` would use.
fn find(name: &OsStr) -> Option<PathBuf> {
    if name.as_bytes().contains(&b'/') {
        return Some(name.into());
    }
    let folders = std::env::var_os("PATH")?;
    let executable = |path: &PathBuf| path.metadata().is_ok_and(|data| data.is_file() && data.mode() & 0o111 != 0);
    std::env::split_paths(&folders).map(|folder| folder.join(name)).find(executable)
}

/// Returns the interpreter in a script's first line.
fn interpreter_of(file: &mut File) -> Option<PathBuf> {
    /// The kernel reads no more of a file.
    const LINE_MAX: u64 = 256;
    let mut line = Vec::new();
    BufReader::new(&*file).take(LINE_MAX).read_until(b'\n', &mut line).ok()?;
    file.rewind().ok()?;
    let rest = line.strip_prefix(b"#!")?.trim_ascii();
    let end = rest.iter().position(u8::is_ascii_whitespace).unwrap_or(rest.len());
    Some(OsStr::from_bytes(&rest[..end]).into())
}

/// Whether the kernel gives a program rights that its user does not have; the dynamic linker then drops the setting.
fn is_privileged(file: &File) -> bool {
    use nix::sys::statvfs::{FsFlags, fstatvfs};
    use nix::unistd::{getgid, getuid};
    const GROUP_EXECUTE: u32 = 0o010;
    let Ok(data) = file.metadata() else { return false };
    let has = |bit: nix::libc::mode_t| data.mode() & bit != 0;
    let user = has(nix::libc::S_ISUID) && data.uid() != getuid().as_raw();
    let group = has(nix::libc::S_ISGID) && has(GROUP_EXECUTE) && data.gid() != getgid().as_raw();
    // With no_new_privs (prctl) the kernel ignores these bits, but not capabilities.
    let other = (user || group) && !nix::sys::prctl::get_no_new_privs().unwrap_or(false);
    // Root has all capabilities anyway.
    let more = !getuid().is_root() && has_capabilities(file);
    (other || more) && !fstatvfs(file).is_ok_and(|mount| mount.flags().contains(FsFlags::ST_NOSUID))
}

/// Whether a file has capabilities for which the kernel sets `AT_SECURE` in its program.
fn has_capabilities(file: &File) -> bool {
    /// Length of the largest form, which names the root of a user namespace.
    const BYTES_MAX: usize = 24;
    let mut attribute = [0; BYTES_MAX];
    let read = rustix::fs::fgetxattr(file, c"security.capability", &mut attribute[..]);
    read.is_ok_and(|bytes| grants_rights(&attribute[..bytes]))
}

/// Whether the capabilities of a file (`struct vfs_cap_data`) give rights to each user that executes it: some are permitted, or inheritable ones become
/// effective.
fn grants_rights(attribute: &[u8]) -> bool {
    const EFFECTIVE: u32 = 1;
    let words: Vec<u32> =
        attribute.chunks_exact(4).map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]])).collect();
    let Some((flags, sets)) = words.split_first() else { return false };
    // Pairs of permitted and inheritable capabilities, which the number of a user may follow.
    flags & EFFECTIVE != 0 || sets.chunks_exact(2).any(|pair| pair[0] != 0)
}

/// Returns the obstacle in an ELF file for this machine.
fn in_elf(file: File) -> Option<Obstacle> {
    let mut scanned = file.try_clone().ok()?;
    let cache = ReadCache::new(file);
    let parsed = ElfFile64::<Endianness, _>::parse(&cache).ok()?;
    let endian = parsed.endian();
    if !matches!(parsed.elf_header().e_type(endian), elf::ET_EXEC | elf::ET_DYN) {
        return None;
    }
    let headers = parsed.elf_program_headers();
    if !headers.iter().any(|header| header.p_type(endian) == elf::PT_INTERP) {
        return has_openacc_inside(&mut scanned).then_some(Obstacle::Static);
    }
    let imports: Vec<&str> =
        parsed.dynamic_symbols().filter(object::ObjectSymbol::is_undefined).filter_map(|s| s.name().ok()).collect();
    if imports.iter().any(|name| is_openacc(name)) {
        return None;
    }
    if has_openacc_inside(&mut scanned) {
        return Some(Obstacle::OwnLibgomp);
    }
    let strings = parsed.elf_dynamic_symbol_table().strings();
    let mut needed = headers
        .iter()
        .filter_map(|header| header.dynamic(endian, parsed.data()).ok().flatten())
        .flatten()
        .filter(|entry| entry.tag(endian) == elf::DT_NEEDED)
        .map(|entry| entry.string(endian, strings).unwrap_or_default());
    let alone = needed.all(is_plain) && !imports.iter().any(|name| starts_others(name));
    alone.then_some(Obstacle::NoOpenAcc)
}

fn is_openacc(import: &str) -> bool {
    import.starts_with("GOACC_") || import.starts_with("acc_")
}

/// Whether a library has no regions, and loads none.
fn is_plain(library: &[u8]) -> bool {
    const PLAIN: [&[u8]; 13] = [
        b"libc.so",
        b"libm.so",
        b"libmvec.so",
        b"libpthread.so",
        b"libdl.so",
        b"librt.so",
        b"ld-linux",
        b"libgcc_s.so",
        b"libstdc++.so",
        b"libgfortran.so",
        b"libquadmath.so",
        b"libgomp.so",
        b"libmpi",
    ];
    PLAIN.iter().any(|plain| library.starts_with(plain))
}

/// Whether a function can load other code into the process, or start another program.
fn starts_others(import: &str) -> bool {
    const STARTS: [&str; 13] = [
        "dlopen",
        "dlmopen",
        "fork",
        "vfork",
        "clone",
        "system",
        "popen",
        "execv",
        "execl",
        "fexecve",
        "posix_spawn",
        "MPI_Comm_spawn",
        "_gfortran_system",
    ];
    STARTS.iter().any(|start| import.to_ascii_lowercase().starts_with(&start.to_ascii_lowercase()))
        || import.contains("execute_command_line")
        || import.contains("comm_spawn")
}

/// Whether a file contains libgomp's texts, and those of its OpenACC entry points. They are present even without
/// symbols.
fn has_openacc_inside(file: &mut File) -> bool {
    const TEXTS: [&[u8]; 3] = [b"\0ACC_DEVICE_TYPE\0", b"\nlibgomp: \0", b"GOACC_data_start"];
    const PIECE: usize = 64 << 10;
    /// Covers code and constants of most programs.
    const SCANNED_MAX: usize = 256 << 20;
    let finders = TEXTS.map(Finder::new);
    let mut found = [false; TEXTS.len()];
    let longest = TEXTS.iter().map(|text| text.len()).max().unwrap_or(0);
    let mut buffer = vec![0; PIECE + longest];
    let (mut kept, mut scanned) = (0, 0);
    if file.rewind().is_err() {
        return false;
    }
    while scanned < SCANNED_MAX {
        let Ok(read @ 1..) = file.read(&mut buffer[kept..]) else { break };
        let filled = kept + read;
        for (found, text) in found.iter_mut().zip(&finders) {
            *found = *found || text.find(&buffer[..filled]).is_some();
        }
        if found == [true; TEXTS.len()] {
            return true;
        }
        kept = filled.min(longest);
        buffer.copy_within(filled - kept..filled, 0);
        scanned += read;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attribute(flags: u32, sets: [u32; 4]) -> Vec<u8> {
        [&[0x0200_0000 | flags][..], &sets].concat().into_iter().flat_map(u32::to_le_bytes).collect()
    }

    #[test]
    fn capabilities_that_are_permitted_or_effective_are_more_rights() {
        assert!(grants_rights(&attribute(1, [1 << 10, 0, 0, 0])));
        assert!(grants_rights(&attribute(0, [0, 0, 1, 0])), "one of the upper half");
        assert!(grants_rights(&attribute(1, [0; 4])));
        assert!(!grants_rights(&attribute(0, [0, 1 << 10, 0, 1])), "inheritable ones only, without the effective flag");
        assert!(!grants_rights(&[]) && !grants_rights(&attribute(0, [0; 4])));
        // The number of a user namespace's root follows the sets.
        assert!(!grants_rights(&[attribute(0, [0; 4]), 1000u32.to_le_bytes().to_vec()].concat()));
    }
}
