//! Object files of programs: symbols and DWARF.

use crate::{Memory, Target};
use accord_debuginfo::{Frame, Memory as Reads, ObjectInfo};
use std::cell::RefCell;
use std::io::{Seek as _, Write as _};
use std::process::Command;

/// ELF files with debug information.
pub(super) const OBJECTS: Target = Target {
    name: "objects",
    run: objects,
    seeds,
    words: &["\x7fELF", ".debug_info", ".debug_abbrev", ".symtab"],
    input_max: 64 << 10,
    // Sections of a file may overlap, because each is read separately.
    memory: Memory { fixed: 4 << 20, per_byte: 256 },
    inputs: 1_000,
};

/// Memory in which all words are equal.
struct Same;

impl Reads for Same {
    fn read(&self, address: u64, bytes: &mut [u8]) -> bool {
        bytes.fill(0x10);
        address < 1 << 47
    }
}

thread_local! {
    /// One file for all inputs of a thread.
    static FILE: RefCell<Option<tempfile::NamedTempFile>> = const { RefCell::new(None) };
}

fn objects(bytes: &[u8]) {
    FILE.with_borrow_mut(|file| {
        let file = file.get_or_insert_with(|| {
            let memory = std::path::Path::new("/dev/shm");
            if memory.is_dir() { tempfile::NamedTempFile::new_in(memory) } else { tempfile::NamedTempFile::new() }
                .unwrap()
        });
        file.as_file_mut().set_len(0).unwrap();
        file.rewind().unwrap();
        file.write_all(bytes).unwrap();
        let _ = accord_device::object_identity::of_file(file.path());
        let Some(object) = ObjectInfo::open(file.path()) else { return };
        let frame =
            Frame { cfa: Some(0x7000_0000), registers: [Some(0x7000_0000); Frame::REGISTERS], ..Frame::default() };
        for offset in (0..0x40).map(|step| step * 0x10 + 0x1000).chain([0, 0x3000, 0x4000, u64::MAX]) {
            let _ = object.place(offset).map(|place| place.to_string());
            let _ = object.static_at(offset);
            let _ = object.global(0, &(offset..offset.saturating_add(8)), &Same).map(|found| found.to_string());
            let frame = Frame { code: offset, ..frame.clone() };
            let _ = object.local(0, &frame, &(0x7000_0000..0x7000_0008), &Same);
        }
        let _ = object.global_pointer(0, &(0x1010_1010_1010_1010..0x1010_1010_1010_1018), &Same);
    });
}

const SOURCE: &str = "static double grid[10][10];
double *inner;
struct mesh { int n; double *cells; struct mesh *next; } mesh;
union number { int i; float f; };
int first(int n, int table[n], union number number)
{
    double local[4];
    for (int i = 0; i < n; i++) {
        local[i & 3] = table[i];
        grid[i][i] += local[i & 3];
    }
    return (int)grid[0][0] + number.i;
}
double second(struct mesh *mesh) { return inner[0] + mesh->cells[0]; }
";

/// Compiles a small shared object. Without a compiler the inputs are those of the corpus.
fn seeds() -> Vec<Vec<u8>> {
    let folder = tempfile::tempdir().unwrap();
    let (source, object) = (folder.path().join("small.c"), folder.path().join("small.so"));
    std::fs::write(&source, SOURCE).unwrap();
    let mut seeds = Vec::new();
    for flags in [&["-O0", "-g"][..], &["-O1", "-g", "-gdwarf-4"], &["-O0"]] {
        let status = Command::new("gcc")
            .args(["-shared", "-fPIC", "-nostdlib", "-Wl,-z,noseparate-code,--build-id=none"])
            .args(flags)
            .arg(&source)
            .arg("-o")
            .arg(&object)
            .status();
        match status {
            Ok(status) if status.success() => seeds.push(std::fs::read(&object).unwrap()),
            other => println!("skipped: no object by gcc ({other:?})"),
        }
    }
    seeds
}
