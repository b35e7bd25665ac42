//! Accesses the program's memory and code: no other file dereferences the program's pointers.

use crate::kernels::Kernels;
use crate::{blocks, components, elf, loader, output, pointer_updates, source, unmapped};
use accord_client::pages::{self, Writable};
use accord_debuginfo::{Memory, ProcessMemory};
use accord_runtime::ports::{HostMemory, ProgramConstant, TargetAccess};
use accord_types::turn_lock::TurnLock;
use accord_types::{Error, ErrorCode, FunctionSpec, HostRange, Result, os_text};
use std::collections::HashMap;
use std::ffi::CStr;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The memory and the regions of this process.
pub(crate) struct ProgramMemory {
    kernels: Arc<Kernels>,
    /// Region names of each object with launches.
    names: TurnLock<HashMap<PathBuf, HashMap<u64, String>>>,
}

impl HostMemory for ProgramMemory {
    fn read(&self, address: usize, buf: &mut [u8]) {
        // Most reads are of pointers, or of scalars of their size, which need no function call.
        if let Ok(word) = <&mut [u8; size_of::<usize>()]>::try_from(&mut *buf) {
            // SAFETY: by the program's guarantee the address is readable for this length.
            *word = unsafe { std::ptr::read_unaligned(address as *const [u8; size_of::<usize>()]) };
            return;
        }
        // SAFETY: as above.
        unsafe {
            std::ptr::copy_nonoverlapping(address as *const u8, buf.as_mut_ptr(), buf.len());
        }
    }

    fn check_source(&self, range: HostRange) -> Result<()> {
        pages::check_readable(range)
    }

    fn check_target(&self, range: HostRange) -> Result<TargetAccess> {
        Ok(match pages::check_writable(range)? {
            Writable::Yes => TargetAccess::Writable,
            Writable::No if loader::is_constant(range) => TargetAccess::Constant,
            Writable::No => TargetAccess::ReadOnly,
            Writable::Partly => TargetAccess::Mixed,
        })
    }

    fn target_parts(&self, range: HostRange) -> Result<Vec<(HostRange, TargetAccess)>> {
        let access = |writable| if writable { TargetAccess::Writable } else { TargetAccess::ReadOnly };
        let stretches = pages::stretches(range)?.into_iter();
        Ok(stretches.map(|stretch| (stretch.range, access(stretch.writable))).collect())
    }

    fn function(&self, address: usize) -> Result<FunctionSpec> {
        let object = loader::holding(address).ok_or_else(|| {
            Error::new(ErrorCode::InvalidArgument, format!("no loaded object holds the region at {address:#x}"))
                .remedy("don't unload an object while one of its regions runs")
        })?;
        let offset = (address - object.base) as u64;
        let name = self
            .region_name(&object.file, offset)
            .or_else(|| exported_name(address))
            .unwrap_or_else(|| format!("region at {}+{offset:#x}", os_text::displayed(&object.path)));
        Ok(FunctionSpec { object: object.spec(), offset, name, kernel: self.kernels.function(address) })
    }

    fn is_for_one_thread(&self, address: usize) -> bool {
        self.kernels.is_for_one_thread(address)
    }

    fn allocate(&self, bytes: usize) -> usize {
        // SAFETY: malloc accepts any size.
        unsafe { libc::malloc(bytes) as usize }
    }

    fn free(&self, address: usize) {
        // SAFETY: the program passes null or a result of `allocate`.
        unsafe { libc::free(address as *mut libc::c_void) };
    }

    fn copy(&self, dst: usize, src: usize, bytes: usize) {
        // SAFETY: by the program's guarantee both ranges are its own memory.
        unsafe { std::ptr::copy(src as *const u8, dst as *mut u8, bytes) };
    }

    fn merge(&self, dst: usize, before: usize, after: usize, bytes: usize) {
        // SAFETY: the runtime's own buffers, which no other code uses.
        let (before, after) = unsafe {
            (
                std::slice::from_raw_parts(before as *const u8, bytes),
                std::slice::from_raw_parts(after as *const u8, bytes),
            )
        };
        differences(before, after, |range| {
            let new = &after[range.clone()];
            // SAFETY: a region of the program has written to these bytes of the block.
            unsafe { std::ptr::copy_nonoverlapping(new.as_ptr(), (dst + range.start) as *mut u8, new.len()) };
        });
    }

    fn block_of(&self, address: usize) -> Option<HostRange> {
        blocks::block_of(address)
    }

    fn describe(&self, range: HostRange) -> Option<String> {
        ProcessMemory::open().word(range.start as u64 & !7)?;
        let variable = source::variable_at(range.start);
        Some(variable.map_or_else(|| format!("{:#x}", range.start), |variable| variable.to_string()))
    }

    fn call(&self) -> usize {
        source::caller().unwrap_or_default()
    }

    fn describe_call(&self, call: usize) -> Option<String> {
        let place = source::place(call).filter(|_| call != 0)?;
        Some(place.to_string())
    }

    fn pointer_of_region(&self, function: usize) -> Option<String> {
        source::pointer_of_region(function).map(|variable| variable.to_string())
    }

    fn constant_at(&self, address: usize) -> Option<ProgramConstant> {
        source::constant_at(address)
    }

    fn element_size(&self, descriptor: usize, entry: usize) -> Option<usize> {
        let elements = source::elements(descriptor, entry)?;
        // For polymorphic elements only the descriptor's size is reliable.
        if elements.polymorphic { Some(0) } else { usize::try_from(elements.bytes).ok() }
    }

    fn sections_may_have_gaps(&self) -> bool {
        let place = source::caller().and_then(source::place);
        !place.is_some_and(|place| place.file.as_deref().is_some_and(source::is_c))
    }

    fn is_fortran(&self) -> bool {
        let place = source::caller().and_then(source::place);
        place.is_some_and(|place| place.file.as_deref().is_some_and(|file| !source::is_c(file)))
    }

    fn report_possible_component(&self, range: HostRange, entry: usize, element: usize) {
        if let Some(line) = components::reported(range, entry, element) {
            output::print(&format!("{line}\n"));
        }
    }

    fn report_no_guards(&self, error: &Error) {
        output::print(&format!("accord: {error}\n"));
    }

    fn report_pointer_itself(&self, range: HostRange, entry: usize) {
        if let Some(line) = pointer_updates::reported(range, entry) {
            output::print(&format!("{line}\n"));
        }
    }

    fn report_unmapped(&self, function: usize, entry: usize, pointer: usize, block: HostRange) {
        if unmapped::is_new(function, entry) {
            let region = self.function(function).map_or_else(|_| format!("region at {function:#x}"), |spec| spec.name);
            let place = source::caller().and_then(source::place).map_or(region, |place| place.to_string());
            let variable = source::variable_at(pointer);
            unmapped::notify(&unmapped::Mapped { place: &place, variable: variable.as_ref(), entry, pointer, block });
        }
    }
}

impl ProgramMemory {
    /// Creates the view of this process's memory. `kernels` knows the GPU code of its regions.
    pub(crate) fn new(kernels: Arc<Kernels>) -> Self {
        Self { kernels, names: TurnLock::default() }
    }

    fn region_name(&self, file: &Path, offset: u64) -> Option<String> {
        let mut names = self.names.take();
        if !names.contains_key(file) {
            names.insert(file.to_owned(), elf::region_names(file));
        }
        names.get(file)?.get(&offset).cloned()
    }
}

/// Calls `act` with each run of bytes in which two slices of one length differ.
fn differences(before: &[u8], after: &[u8], mut act: impl FnMut(Range<usize>)) {
    /// Compared at once, because regions leave long runs of bytes unchanged.
    const PIECE: usize = 4096;
    for start in (0..before.len()).step_by(PIECE) {
        let end = (start + PIECE).min(before.len());
        let (old, new) = (&before[start..end], &after[start..end]);
        if old == new {
            continue;
        }
        let mut at = 0;
        while let Some(first) = (at..old.len()).find(|&k| old[k] != new[k]) {
            let last = (first..old.len()).find(|&k| old[k] == new[k]).unwrap_or(old.len());
            act(start + first..start + last);
            at = last;
        }
    }
}

/// The dynamic symbol that starts at `address`.
fn exported_name(address: usize) -> Option<String> {
    // SAFETY: all-zero is a valid Dl_info.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: `info` is valid; the address need not be.
    let found = unsafe { libc::dladdr(address as *const libc::c_void, &raw mut info) } != 0;
    if !found || info.dli_sname.is_null() || info.dli_saddr as usize != address {
        return None;
    }
    // SAFETY: the loader returns a terminated string that lives as long as its object.
    Some(unsafe { CStr::from_ptr(info.dli_sname) }.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_region_is_named_by_object_and_offset() {
        let address = exported_name as *const () as usize;
        let spec = ProgramMemory::new(Arc::default()).function(address).unwrap();
        let object = loader::holding(address).unwrap();
        assert!(spec.object.executable);
        assert_eq!(spec.offset, (address - object.base) as u64);
    }

    #[test]
    fn an_address_without_an_object_is_an_error() {
        let error = ProgramMemory::new(Arc::default()).function(16).unwrap_err();
        assert_eq!(error.code(), ErrorCode::InvalidArgument);
    }

    #[test]
    fn differences_are_found_to_the_byte() {
        let before = vec![0u8; 10_000];
        let mut after = before.clone();
        for at in [0, 1, 4095, 4096, 9999] {
            after[at] = 1;
        }
        let mut found = Vec::new();
        differences(&before, &after, |range| found.push(range));
        assert_eq!(found, [0..2, 4095..4096, 4096..4097, 9999..10_000]);
        differences(&before, &before, |_| panic!("nothing differs"));
    }

    #[test]
    fn memory_is_read_and_copied() {
        let memory = ProgramMemory::new(Arc::default());
        let mut bytes = [1u8, 2, 3, 4];
        let address = bytes.as_mut_ptr() as usize;
        memory.copy(address + 1, address, 3);
        let mut read = [0; 4];
        memory.read(address, &mut read);
        assert_eq!(read, [1, 1, 2, 3]);
        memory.free(memory.allocate(100));
    }
}
