//! The kind of a file, determined before anything of it is started.

use crate::failure::{Failure, Result};
use object::read::elf::{ElfFile64, FileHeader as _, ProgramHeader as _};
use object::{Endianness, ReadCache, elf};
use std::fs::File;
use std::io::{Error, ErrorKind};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

/// Files that can be explained.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum FileKind {
    /// A program, which the dynamic linker starts.
    Program,
    /// A shared object, which a program loads.
    SharedObject,
}

/// Determines the kind of a file.
///
/// # Errors
/// Returns a message and an exit code for a file that can't be started with libacc.so preloaded.
pub(super) fn look_at(path: &Path) -> Result<FileKind> {
    let refused = |failure: fn(String) -> Failure, why: &str| failure(format!("{}: {why}", path.display()));
    let unreadable = |error: Error| match error.kind() {
        ErrorKind::NotFound => Failure::start(path, &error),
        _ => Failure::cannot_execute(format!("can't read {}: {error}", path.display())),
    };
    let data = std::fs::metadata(path).map_err(unreadable)?;
    if !data.is_file() {
        return Err(refused(Failure::cannot_execute, "it is no file; name a program or a shared object"));
    }
    let cache = ReadCache::new(File::open(path).map_err(unreadable)?);
    let Ok(parsed) = ElfFile64::<Endianness, _>::parse(&cache) else {
        return Err(refused(
            Failure::cannot_execute,
            "it is no 64-bit ELF file; of a script name the program or the shared object that has the regions",
        ));
    };
    let endian = parsed.endian();
    let machine = parsed.elf_header().e_machine(endian);
    if machine != MACHINE {
        let why = format!("it is for {}, and this machine is {}", machine_name(machine), std::env::consts::ARCH);
        return Err(refused(Failure::cannot_execute, &why));
    }
    let has = |kind| parsed.elf_program_headers().iter().any(|header| header.p_type(endian) == kind);
    let runs = has(elf::PT_INTERP);
    match parsed.elf_header().e_type(endian) {
        elf::ET_EXEC | elf::ET_DYN if runs && data.permissions().mode() & 0o111 == 0 => {
            Err(refused(Failure::cannot_execute, "it may not be executed; chmod +x gives the right"))
        }
        elf::ET_EXEC | elf::ET_DYN if runs => Ok(FileKind::Program),
        elf::ET_DYN if has(elf::PT_DYNAMIC) && !is_static_pie(&parsed) => Ok(FileKind::SharedObject),
        elf::ET_EXEC | elf::ET_DYN => Err(refused(
            Failure::new,
            "it is statically linked, so that libacc.so can't come before its own run-time library; \
             link it without -static",
        )),
        elf::ET_REL => Err(refused(
            Failure::cannot_execute,
            "it is an object file; the code for GPUs comes with the link: name the linked program",
        )),
        _ => Err(refused(Failure::cannot_execute, "it is neither a program nor a shared object")),
    }
}

/// Whether a static position-independent program says so in its dynamic entries.
fn is_static_pie<'a>(parsed: &ElfFile64<'a, Endianness, &'a ReadCache<File>>) -> bool {
    let endian = parsed.endian();
    parsed
        .elf_program_headers()
        .iter()
        .filter_map(|header| header.dynamic(endian, parsed.data()).ok().flatten())
        .flatten()
        .any(|entry| {
            use object::read::elf::Dyn as _;
            entry.tag(endian) == elf::DT_FLAGS_1 && entry.d_val(endian) & elf::DF_1_PIE.0 != 0
        })
}

const MACHINE: elf::Machine = if cfg!(target_arch = "aarch64") {
    elf::EM_AARCH64
} else if cfg!(target_arch = "powerpc64") {
    elf::EM_PPC64
} else {
    elf::EM_X86_64
};

fn machine_name(machine: elf::Machine) -> String {
    match machine {
        elf::EM_X86_64 => "x86_64".to_owned(),
        elf::EM_AARCH64 => "aarch64".to_owned(),
        elf::EM_PPC64 => "powerpc64".to_owned(),
        elf::EM_RISCV => "riscv".to_owned(),
        other => format!("machine number {}", other.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_are_no_programs_are_told_apart() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, bytes: &[u8]| {
            let path = folder.path().join(name);
            std::fs::write(&path, bytes).unwrap();
            path
        };
        let own = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let mut foreign = own.clone();
        foreign[18..20].copy_from_slice(&0xf3u16.to_le_bytes());
        for (path, code, text) in [
            (folder.path().join("absent"), 127, "absent"),
            (folder.path().to_owned(), 126, "no file"),
            (file("script", b"#!/bin/sh\n"), 126, "no 64-bit ELF file"),
            (file("empty", b""), 126, "no 64-bit ELF file"),
            (file("foreign", &foreign), 126, "it is for riscv"),
            (file("locked", &own), 126, "may not be executed"),
        ] {
            let failure = look_at(&path).unwrap_err();
            assert_eq!(failure.code(), code, "{failure}");
            assert!(failure.to_string().contains(text), "{failure}");
        }
        assert_eq!(look_at(&std::env::current_exe().unwrap()).unwrap(), FileKind::Program);
    }
}
