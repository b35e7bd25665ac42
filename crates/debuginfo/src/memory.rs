//! Reads memory at arbitrary addresses.

use std::fs::File;
use std::os::unix::fs::FileExt;

/// Memory that may be unreadable at any address.
pub trait Memory {
    /// Fills `bytes` from `address`. Returns `false` if any byte can't be read.
    fn read(&self, address: u64, bytes: &mut [u8]) -> bool;

    /// A word of 8 bytes.
    fn word(&self, address: u64) -> Option<u64> {
        let mut bytes = [0; 8];
        self.read(address, &mut bytes).then(|| u64::from_ne_bytes(bytes))
    }
}

/// This process's own memory, read through the kernel, so that an unmapped address is an error and no signal.
pub struct ProcessMemory(Option<File>);

impl ProcessMemory {
    /// Opens the memory. Without `/proc` all reads fail.
    pub fn open() -> Self {
        Self(File::open("/proc/thread-self/mem").ok())
    }
}

impl Memory for ProcessMemory {
    fn read(&self, address: u64, bytes: &mut [u8]) -> bool {
        // An address beyond any file offset is no address of the program.
        i64::try_from(address).is_ok() && self.0.as_ref().is_some_and(|file| file.read_exact_at(bytes, address).is_ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mapped_memory_is_read_and_other_is_not() {
        let memory = ProcessMemory::open();
        let value = 0x1122_3344_5566_7788u64;
        assert_eq!(memory.word((&raw const value).addr() as u64), Some(value));
        for address in [0, 8, u64::MAX - 7, 1 << 63, 0x7fff_ffff_f000_0000] {
            assert_eq!(memory.word(address), None, "{address:#x}");
        }
    }
}
