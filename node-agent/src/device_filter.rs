//! Filters of device files by control group: a program of the kernel that denies the group's processes some files,
//! whatever the files' permissions say. The kernel takes such programs as eBPF (`BPF_PROG_TYPE_CGROUP_DEVICE`).

use accord_types::turn_lock::TurnLock;
use aya::programs::cgroup_device::CgroupDeviceLink;
use aya::programs::{CgroupAttachMode, CgroupDevice};
use aya::{Ebpf, EbpfLoader};
use std::collections::BTreeMap;
use std::error::Error;
use std::fs::File;
use std::path::Path;

/// Most files that one filter denies, each with four instructions of the 4,096 that every kernel takes.
const DENIED_MAX: usize = 512;
/// Most programs that are kept.
const PROGRAMS_MAX: usize = 64;
/// The section of a program of this type, and the program's name.
const SECTION: &str = "cgroup/dev";
const NAME: &str = "accord_devices";
const LICENSE: &[u8] = b"Apache-2.0\0";
/// The type of character devices in the lower half of the word that names access and type.
const CHARACTER_DEVICE: i32 = 2;

/// A character device file, by the kernel's numbers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct DeviceFile {
    pub(crate) major: u32,
    pub(crate) minor: u32,
}

/// A filter of a group, in force until it is dropped or the group is removed.
#[derive(Debug)]
pub(crate) struct DeviceFilter {
    _link: CgroupDeviceLink,
}

/// Loads filters. A program is kept for further groups with the same files: to load one, `aya` parses the kernel's whole BTF.
#[derive(Debug, Default)]
pub(crate) struct DeviceFilters {
    programs: TurnLock<BTreeMap<Vec<DeviceFile>, Ebpf>>,
}

impl DeviceFilters {
    /// Denies the processes of `group` and of the groups below it these files. Files that they have open already stay open.
    ///
    /// # Errors
    /// Returns the reason if the kernel takes no such program from this process.
    pub(crate) fn attach(&self, group: &Path, denied: &[DeviceFile]) -> Result<DeviceFilter, String> {
        if denied.len() > DENIED_MAX {
            return Err(format!("more than {DENIED_MAX} device files are to be denied"));
        }
        let attached = || -> Result<CgroupDeviceLink, Box<dyn Error>> {
            let mut programs = self.programs.take();
            if !programs.contains_key(denied) {
                let mut program = EbpfLoader::new().load(&object(&instructions(denied)))?;
                let filter: &mut CgroupDevice = program.program_mut(NAME).ok_or("no program")?.try_into()?;
                filter.load()?;
                if programs.len() >= PROGRAMS_MAX {
                    programs.pop_first();
                }
                programs.insert(denied.to_vec(), program);
            }
            let program = programs.get_mut(denied).and_then(|program| program.program_mut(NAME)).ok_or("no program")?;
            let filter: &mut CgroupDevice = program.try_into()?;
            // By a link, beside which the kernel always takes others. The link keeps the program loaded.
            let link = filter.attach(File::open(group)?, CgroupAttachMode::Single)?;
            Ok(filter.take_link(link)?)
        };
        attached().map(|link| DeviceFilter { _link: link }).map_err(|error| words(&*error))
    }
}

/// Returns an error with its causes.
fn words(error: &(dyn Error + 'static)) -> String {
    let (mut text, mut cause) = (error.to_string(), error.source());
    while let Some(error) = cause {
        text.push_str(&format!(": {error}"));
        cause = error.source();
    }
    text
}

/// An instruction of eBPF.
struct Instruction {
    code: u8,
    to: u8,
    from: u8,
    offset: i16,
    value: i32,
}

impl Instruction {
    /// Loads a word of the context.
    fn load(to: u8, offset: i16) -> Self {
        Self { code: 0x61, to, from: 1, offset, value: 0 }
    }

    fn and(to: u8, value: i32) -> Self {
        Self { code: 0x57, to, from: 0, offset: 0, value }
    }

    /// Skips `count` instructions unless a register has this value.
    fn skip_unless(register: u8, value: i32, count: i16) -> Self {
        Self { code: 0x55, to: register, from: 0, offset: count, value }
    }

    /// Sets the result: 1 allows the access.
    fn result(value: i32) -> Self {
        Self { code: 0xb7, to: 0, from: 0, offset: 0, value }
    }

    fn exit() -> Self {
        Self { code: 0x95, to: 0, from: 0, offset: 0, value: 0 }
    }

    fn encode(&self) -> [u8; 8] {
        let [o0, o1] = self.offset.to_le_bytes();
        let [v0, v1, v2, v3] = self.value.to_le_bytes();
        [self.code, self.to | self.from << 4, o0, o1, v0, v1, v2, v3]
    }
}

/// Returns a program that denies these files. Its context has the words access and type, major and minor number.
fn instructions(denied: &[DeviceFile]) -> Vec<u8> {
    // Registers; the first one has the context.
    const TYPE: u8 = 2;
    const MAJOR: u8 = 3;
    const MINOR: u8 = 4;
    let mut program = vec![
        Instruction::load(TYPE, 0),
        Instruction::and(TYPE, 0xffff),
        Instruction::skip_unless(TYPE, CHARACTER_DEVICE, 2 + 4 * i16::try_from(denied.len()).unwrap_or(0)),
        Instruction::load(MAJOR, 4),
        Instruction::load(MINOR, 8),
    ];
    for file in denied {
        program.extend([
            Instruction::skip_unless(MAJOR, file.major.cast_signed(), 3),
            Instruction::skip_unless(MINOR, file.minor.cast_signed(), 2),
            Instruction::result(0),
            Instruction::exit(),
        ]);
    }
    program.extend([Instruction::result(1), Instruction::exit()]);
    program.iter().flat_map(Instruction::encode).collect()
}

/// A section of an ELF object, with the fields of its header.
struct Section<'a> {
    name: &'a str,
    kind: usize,
    flags: usize,
    link: usize,
    info: usize,
    align: usize,
    entry: usize,
    content: &'a [u8],
}

/// Returns an ELF object with the program, as a compiler for eBPF makes it (elf(5)).
fn object(program: &[u8]) -> Vec<u8> {
    const HEADER: usize = 64;
    const SYMBOL: usize = 24;
    const EM_BPF: usize = 247;
    let names = format!("\0{SECTION}\0license\0.symtab\0.strtab\0{NAME}\0");
    let name = |text: &str| names.find(&format!("\0{text}\0")).map_or(0, |at| at + 1);
    // The null symbol, and the program: global, a function, in section 1.
    let mut symbols = vec![0; SYMBOL];
    symbols.extend(number(name(NAME), 4));
    symbols.extend([0x12, 0, 1, 0]);
    symbols.extend([number(0, 8), number(program.len(), 8)].concat());
    let section = |name, kind, content| Section { name, kind, flags: 0, link: 0, info: 0, align: 1, entry: 0, content };
    let sections = [
        // Allocated, executable.
        Section { flags: 6, align: 8, ..section(SECTION, 1, program) },
        Section { flags: 3, ..section("license", 1, LICENSE) },
        // With the names of section 4; one symbol is local.
        Section { link: 4, info: 1, align: 8, entry: SYMBOL, ..section(".symtab", 2, &symbols) },
        section(".strtab", 3, names.as_bytes()),
    ];
    // The table begins with a null section.
    let (mut bytes, mut table) = (Vec::new(), vec![0; HEADER]);
    for of in &sections {
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        table.extend([number(name(of.name), 4), number(of.kind, 4), number(of.flags, 8), number(0, 8)].concat());
        table.extend([number(HEADER + bytes.len(), 8), number(of.content.len(), 8)].concat());
        table.extend([number(of.link, 4), number(of.info, 4), number(of.align, 8), number(of.entry, 8)].concat());
        bytes.extend(of.content);
    }
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    let mut header = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
    // A relocatable file without segments, whose table of sections is last.
    header.extend([number(1, 2), number(EM_BPF, 2), number(1, 4), number(0, 8), number(0, 8)].concat());
    header.extend([number(HEADER + bytes.len(), 8), number(0, 4), number(HEADER, 2), number(0, 2)].concat());
    header.extend([number(0, 2), number(HEADER, 2), number(sections.len() + 1, 2), number(sections.len(), 2)].concat());
    [header, bytes, table].concat()
}

/// Encodes a number, which fits, in `length` bytes.
fn number(value: usize, length: usize) -> Vec<u8> {
    (value as u64).to_le_bytes()[..length].to_vec()
}
