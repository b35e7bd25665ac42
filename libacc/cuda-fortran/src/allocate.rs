//! Statements `allocate` and `deallocate` of arrays with device attributes.

use crate::descriptor::Descriptor;
use crate::errors::SourceLine;
use crate::memory::{allocate, allocate_pointer, deallocate};
use std::ffi::c_char;

/// The parameters of an allocation, which all of flang's allocating functions have.
macro_rules! allocation {
    ($name:ident, $allocate:expr, $source:ident: $($source_type:ty)?, $sync:literal) => {
        #[unsafe(no_mangle)]
        extern "C" fn $name(
            descriptor: &mut Descriptor,
            $($source: $source_type,)?
            _stream: *const i64,
            pinned: Option<&mut bool>,
            has_status: bool,
            message: *const Descriptor,
            file: *const c_char,
            line: i32,
            from_device: bool,
        ) -> i32 {
            let status = $allocate(&mut *descriptor, has_status, message, file, line);
            if let Some(pinned) = pinned {
                *pinned = status == 0;
            }
            let _ = from_device;
            $(if status == 0 {
                let source: $source_type = $source;
                crate::transfer::arrays(descriptor, source, crate::transfer::Mode::source(from_device), SourceLine::new(file, line));
            })?
            if $sync && status == 0 {
                crate::modules::synchronize(descriptor, SourceLine::new(file, line));
            }
            status
        }
    };
}

allocation!(_FortranACUFAllocatableAllocate, allocate, source:, false);
allocation!(_FortranACUFAllocatableAllocateSync, allocate, source:, true);
allocation!(_FortranACUFAllocatableAllocateSource, allocate, source: &Descriptor, false);
allocation!(_FortranACUFAllocatableAllocateSourceSync, allocate, source: &Descriptor, true);
allocation!(_FortranACUFPointerAllocate, allocate_pointer, source:, false);
allocation!(_FortranACUFPointerAllocateSync, allocate_pointer, source:, true);
allocation!(_FortranACUFPointerAllocateSource, allocate_pointer, source: &Descriptor, false);
allocation!(_FortranACUFPointerAllocateSourceSync, allocate_pointer, source: &Descriptor, true);

/// Deallocates an array of a module, and updates the device.
#[unsafe(no_mangle)]
extern "C" fn _FortranACUFAllocatableDeallocate(
    descriptor: &mut Descriptor,
    has_status: bool,
    message: *const Descriptor,
    file: *const c_char,
    line: i32,
) -> i32 {
    let status = deallocate(descriptor, has_status, message, file, line);
    if status == 0 {
        crate::modules::synchronize(descriptor, SourceLine::new(file, line));
    }
    status
}
