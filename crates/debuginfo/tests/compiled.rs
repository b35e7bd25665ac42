//! Looks up a file that the machine's compiler made.

use accord_debuginfo::{Memory, ObjectInfo, ProcessMemory, Scalar, base_name};
use std::path::{Path, PathBuf};
use std::process::Command;

const SOURCE: &str = "static double grid[100];
double *inner;
struct mesh { int n; double *cells; } mesh;

double first(int i)
{
    grid[i] += 1;
    return grid[i];
}
double second(void) { return inner[0] + mesh.cells[0]; }
struct flags { unsigned a : 3, b : 7; int c; } flags;
static struct { int n; double x[200]; } boxed;
static short many[40000];
int third(void) { return boxed.n + many[0]; }
";

/// Memory that contains one pointer.
struct OnePointer {
    at: u64,
    value: u64,
}

impl Memory for OnePointer {
    fn read(&self, address: u64, bytes: &mut [u8]) -> bool {
        let value = if address == self.at { self.value } else { 0 };
        bytes.copy_from_slice(&value.to_ne_bytes()[..bytes.len()]);
        true
    }
}

/// Compiles [`SOURCE`] to a shared object. Returns `None` without a compiler.
fn compile(folder: &Path, flags: &[&str]) -> Option<PathBuf> {
    let (source, object) = (folder.join("numbers.c"), folder.join("numbers.so"));
    std::fs::write(&source, SOURCE).unwrap();
    let status =
        Command::new("gcc").args(["-shared", "-fPIC", "-O0"]).args(flags).arg(&source).arg("-o").arg(&object).status();
    match status {
        Ok(status) => {
            assert!(status.success(), "the compiler refuses {SOURCE}");
            Some(object)
        }
        Err(error) => {
            eprintln!("skipped: no gcc: {error}");
            None
        }
    }
}

/// Returns the offset of a symbol, by the machine's `nm`.
fn offset(object: &Path, symbol: &str) -> u64 {
    let output = Command::new("nm").arg(object).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let line = text.lines().find(|line| line.split_whitespace().nth(2) == Some(symbol)).unwrap();
    u64::from_str_radix(line.split_whitespace().next().unwrap(), 16).unwrap()
}

#[test]
fn code_has_lines_and_functions() {
    let folder = tempfile::tempdir().unwrap();
    let Some(object) = compile(folder.path(), &["-g"]) else { return };
    let info = ObjectInfo::open(&object).unwrap();
    assert!(info.has_debug_info());
    let place = info.place(offset(&object, "first")).unwrap();
    assert_eq!(base_name(place.file.as_deref().unwrap()), "numbers.c");
    assert_eq!((place.line, place.function.as_deref()), (Some(6), Some("first")));
    assert_eq!(place.function_lines, Some((5, 9)));
    assert_eq!(info.place(offset(&object, "second")).unwrap().to_string(), "numbers.c:10, second");
    assert_eq!(info.place(1), None);
}

#[test]
fn statics_hold_and_pointers_lead() {
    const BASE: u64 = 0x7f00_0000_0000;
    let folder = tempfile::tempdir().unwrap();
    let Some(object) = compile(folder.path(), &["-g"]) else { return };
    let info = ObjectInfo::open(&object).unwrap();
    let memory = ProcessMemory::open();
    let within = BASE + offset(&object, "grid") + 80;
    assert_eq!(info.global(BASE, &(within..within + 8), &memory).unwrap().to_string(), "grid (numbers.c:1)");

    let block = 0x5000_0000u64..0x5000_1000;
    for (at, name) in
        [(offset(&object, "inner"), "inner (numbers.c:2)"), (offset(&object, "mesh") + 8, "mesh.cells (numbers.c:3)")]
    {
        let memory = OnePointer { at: BASE + at, value: block.start };
        assert_eq!(info.global_pointer(BASE, &block, &memory).unwrap().to_string(), name);
        let elsewhere = OnePointer { at: BASE + at, value: block.end };
        assert_eq!(info.global_pointer(BASE, &block, &elsewhere), None);
    }
}

#[test]
fn elements_have_types_members_and_indices() {
    const BASE: u64 = 0x7f00_0000_0000;
    let folder = tempfile::tempdir().unwrap();
    let Some(object) = compile(folder.path(), &["-g"]) else { return };
    let info = ObjectInfo::open(&object).unwrap();
    let memory = ProcessMemory::open();
    let section = BASE + offset(&object, "grid") + 80;
    let layout = info.global(BASE, &(section..section + 160), &memory).unwrap().layout.unwrap();
    let fields: Vec<_> = layout.fields.iter().map(|field| (field.offset, field.scalar, field.path.as_str())).collect();
    assert_eq!((layout.bytes, fields), (8, vec![(0, Scalar::Float(8), "")]));
    assert_eq!(layout.index(3), "[13]");

    let mesh = BASE + offset(&object, "mesh");
    let layout = info.global(BASE, &(mesh..mesh + 16), &memory).unwrap().layout.unwrap();
    let fields: Vec<_> = layout.fields.iter().map(|field| (field.offset, field.scalar, field.path.as_str())).collect();
    assert_eq!(fields, [(0, Scalar::Integer(4), ".n"), (8, Scalar::Pointer, ".cells")]);
    assert_eq!((layout.bytes, layout.before(), layout.index(0)), (16, 0, String::new()));
    let layout = info.global(BASE, &(mesh + 8..mesh + 16), &memory).unwrap().layout.unwrap();
    assert_eq!((layout.bytes, layout.before(), layout.index(0)), (16, 8, String::new()));

    let block = 0x5000_0000u64..0x5000_1000;
    let memory = OnePointer { at: mesh + 8, value: block.start };
    let layout = info.global_pointer(BASE, &block, &memory).unwrap().layout.unwrap();
    assert_eq!((layout.fields[0].scalar, layout.index(5)), (Scalar::Float(8), "[5]".to_owned()));
}

/// A section of a member begins inside its structure, which has no name.
#[test]
fn arrays_in_a_structure_without_a_name_have_the_elements_types() {
    let folder = tempfile::tempdir().unwrap();
    let Some(object) = compile(folder.path(), &["-g"]) else { return };
    let info = ObjectInfo::open(&object).unwrap();
    let member = offset(&object, "boxed") + 8;
    let variable = info.global(0, &(member..member + 24), &ProcessMemory::open()).unwrap();
    let layout = variable.layout.unwrap();
    let fields: Vec<_> = layout.fields.iter().map(|field| (field.offset, field.scalar, field.path.as_str())).collect();
    let (int, double) = (Scalar::Integer(4), Scalar::Float(8));
    assert_eq!((fields.len(), &fields[..2]), (201, &[(0, int, ".n"), (8, double, ".x[0]")][..]));
    assert_eq!(fields[200], (8 + 199 * 8, double, ".x[199]"));
    assert_eq!((variable.name.as_str(), layout.bytes, layout.before()), ("boxed", 1_608, 8));
}

/// The compiler writes their last index as one or two bytes, whose first bit is no sign.
#[test]
fn arrays_of_any_length_are_found_at_their_ends() {
    let folder = tempfile::tempdir().unwrap();
    let Some(object) = compile(folder.path(), &["-g"]) else { return };
    let info = ObjectInfo::open(&object).unwrap();
    let last = offset(&object, "many") + 39_999 * 2;
    let variable = info.global(0, &(last..last + 2), &ProcessMemory::open()).unwrap();
    assert_eq!((variable.name.as_str(), variable.layout.unwrap().index(0)), ("many", "[39999]".to_owned()));
}

#[test]
fn bit_fields_are_the_bytes_that_hold_them() {
    let folder = tempfile::tempdir().unwrap();
    let Some(object) = compile(folder.path(), &["-gdwarf-5"]) else { return };
    let info = ObjectInfo::open(&object).unwrap();
    let flags = offset(&object, "flags");
    let layout = info.global(0, &(flags..flags + 8), &ProcessMemory::open()).unwrap().layout.unwrap();
    let fields: Vec<_> = layout.fields.iter().map(|field| (field.offset, field.scalar, field.path.as_str())).collect();
    assert_eq!(fields, [(0, Scalar::Integer(1), ".a"), (0, Scalar::Integer(2), ".b"), (4, Scalar::Integer(4), ".c")]);
}

#[test]
fn without_debug_information_symbols_are_left() {
    let folder = tempfile::tempdir().unwrap();
    let Some(object) = compile(folder.path(), &["-g0"]) else { return };
    let info = ObjectInfo::open(&object).unwrap();
    assert!(!info.has_debug_info());
    assert_eq!(info.place(offset(&object, "first") + 2).unwrap().to_string(), "first");
    let within = offset(&object, "grid") + 16;
    assert_eq!(info.global(0, &(within..within + 8), &ProcessMemory::open()).unwrap().to_string(), "grid+16");
}

/// For any bytes there is a result or none, but no panic.
#[test]
fn broken_files_are_no_harm() {
    let folder = tempfile::tempdir().unwrap();
    let Some(object) = compile(folder.path(), &["-g"]) else { return };
    let (first, grid) = (offset(&object, "first"), offset(&object, "grid"));
    let whole = std::fs::read(&object).unwrap();
    let memory = ProcessMemory::open();
    let broken = folder.path().join("broken.so");
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    for round in 0..300 {
        let mut bytes = whole.clone();
        for _ in 0..1 + round % 40 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let at = (state >> 20) as usize % bytes.len();
            bytes[at] = (state >> 8) as u8;
        }
        bytes.truncate(if round % 3 == 0 { (state >> 16) as usize % bytes.len() } else { bytes.len() });
        std::fs::write(&broken, &bytes).unwrap();
        let Some(info) = ObjectInfo::open(&broken) else { continue };
        let _ = info.place(first);
        let _ = info.global(0, &(grid..grid + 8), &memory);
        let _ = info.global_pointer(0, &(0x1000..0x2000), &memory);
        let frame = accord_debuginfo::Frame { code: first + 8, cfa: Some(0x1000), ..Default::default() };
        let _ = info.local(0, &frame, &(0x1000..0x1001), &memory);
    }
}
