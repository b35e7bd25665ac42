//! Inputs and results of regions, recorded by the program's own run on the host (`recorder.h`).

use super::machine::Memory;
use accord_image::{BlockPath, Packed};
use accord_types::ArgBlock;
use std::path::Path;
use std::process::Command;

const FIRSTPRIVATE: u64 = 12;
const FIRSTPRIVATE_INT: u64 = 13;
/// Address of the first buffer, and the distance between two.
const BUFFERS: u64 = 1 << 32;
const APART: u64 = 1 << 20;
/// Address of an argument block.
const BLOCK: u64 = 1 << 20;

/// One launch.
pub(crate) struct Region {
    dims: [u64; 3],
    entries: Vec<Entry>,
}

struct Entry {
    kind: u64,
    before: Vec<u8>,
    after: Vec<u8>,
}

/// Runs the program in this folder. Returns its regions in order.
pub(crate) fn run(folder: &Path) -> Vec<Region> {
    let file = folder.join("record");
    let done = Command::new(folder.join("program")).env("RECORD_TO", &file).output().expect("it starts");
    assert!(done.status.success(), "on the host: {}", String::from_utf8_lossy(&done.stdout));
    let record = std::fs::read(file).expect("it records");
    let mut rest = &record[..];
    let mut regions = Vec::new();
    while !rest.is_empty() {
        regions.push(Region::read(&mut rest));
    }
    regions
}

fn bytes<'a>(rest: &mut &'a [u8], count: u64) -> &'a [u8] {
    let (first, others) = rest.split_at(count as usize);
    *rest = others;
    first
}

fn word(rest: &mut &[u8]) -> u64 {
    u64::from_ne_bytes(bytes(rest, 8).try_into().expect("eight bytes"))
}

impl Region {
    fn read(rest: &mut &[u8]) -> Self {
        let count = word(rest);
        let dims = [word(rest), word(rest), word(rest)];
        let mut entries: Vec<Entry> = (0..count)
            .map(|_| {
                let (kind, len) = (word(rest), word(rest));
                Entry { kind, before: bytes(rest, len).to_vec(), after: Vec::new() }
            })
            .collect();
        for entry in entries.iter_mut().filter(|entry| entry.kind != FIRSTPRIVATE_INT) {
            entry.after = bytes(rest, entry.before.len() as u64).to_vec();
        }
        Self { dims, entries }
    }

    /// Returns gangs, workers and vector length: those fixed by the compiler, requested by the launch, or arbitrary ones.
    pub(crate) fn dims(&self, fixed: [u16; 3]) -> [u32; 3] {
        let pick = |at: usize, open: u32| match (fixed[at], self.dims[at]) {
            (0, 0) => open,
            (0, asked) => asked as u32,
            (fixed, _) => u32::from(fixed),
        };
        let vector = pick(2, 32);
        [pick(0, 4), pick(1, if vector > 32 { 1 } else { 2 }), vector]
    }

    /// Whether the launch has the number of gangs.
    pub(crate) fn brings_gangs(&self) -> bool {
        self.dims[0] > 0
    }

    /// Copies the region's data into memory. Returns the kernel's parameter.
    pub(crate) fn place(&self, path: &BlockPath, memory: &mut Memory) -> Vec<u8> {
        let mut block = vec![0u8; self.entries.len() * 8];
        let mut relative = vec![0u64; ArgBlock::relative_words(ArgBlock::BYTES_MAX)];
        for (slot, entry) in self.entries.iter().enumerate() {
            let value = match entry.kind {
                FIRSTPRIVATE => {
                    let at = block.len().next_multiple_of(16);
                    block.resize(at, 0xee);
                    block.extend_from_slice(&entry.before);
                    relative[slot / 64] |= 1 << (slot % 64);
                    at as u64
                }
                FIRSTPRIVATE_INT => u64::from_ne_bytes(entry.before[..].try_into().expect("eight bytes")),
                _ => {
                    let start = BUFFERS + slot as u64 * APART;
                    memory.buffers.push((start, entry.before.clone()));
                    start
                }
            };
            block[slot * 8..][..8].copy_from_slice(&value.to_ne_bytes());
        }
        block.resize(block.len().next_multiple_of(8), 0xee);
        relative.truncate(ArgBlock::relative_words(block.len()));
        match path {
            BlockPath::Parameter(layout) => {
                let mut parameter = vec![0xaa; layout.bytes as usize];
                let args = ArgBlock { bytes: &block, slots: self.entries.len() as u32, relative: &relative };
                if layout.pack(&args, None, &mut parameter) == Packed::BlockApart {
                    assert_eq!(layout.pack(&args, Some(BLOCK), &mut parameter), Packed::Whole);
                    self.put_block(block, memory);
                }
                parameter
            }
            BlockPath::Memory(_) => {
                self.put_block(block, memory);
                BLOCK.to_ne_bytes().to_vec()
            }
        }
    }

    fn put_block(&self, mut block: Vec<u8>, memory: &mut Memory) {
        for slot in
            self.entries.iter().enumerate().filter(|(_, entry)| entry.kind == FIRSTPRIVATE).map(|(slot, _)| slot)
        {
            let at = u64::from_ne_bytes(block[slot * 8..][..8].try_into().expect("eight bytes"));
            block[slot * 8..][..8].copy_from_slice(&(BLOCK + at).to_ne_bytes());
        }
        memory.buffers.push((BLOCK, block));
    }

    /// Compares memory with the result of the host's version.
    pub(crate) fn compare(&self, memory: &Memory) -> Result<(), String> {
        let mapped = self.entries.iter().filter(|entry| entry.kind != FIRSTPRIVATE && entry.kind != FIRSTPRIVATE_INT);
        for (at, (entry, (_, found))) in mapped.zip(&memory.buffers).enumerate() {
            if let Some(byte) = (0..found.len()).find(|byte| found[*byte] != entry.after[*byte]) {
                return Err(format!(
                    "array {at} of {} bytes differs at byte {byte}: {} in place of {}",
                    found.len(),
                    found[byte],
                    entry.after[byte]
                ));
            }
        }
        Ok(())
    }
}
