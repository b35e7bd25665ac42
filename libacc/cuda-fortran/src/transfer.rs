//! Assignments between host and devices.

use crate::acc::{self, CopyDirection};
use crate::descriptor::Descriptor;
use crate::errors::{SourceLine, end};
use crate::{filling, memory, streams};
use std::ffi::c_char;

/// The sides of an assignment that are on a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mode {
    HostToDevice,
    DeviceToHost,
    DeviceToDevice,
}

impl Mode {
    pub(crate) fn new(mode: u32) -> Self {
        match mode {
            0 => Self::HostToDevice,
            1 => Self::DeviceToHost,
            _ => Self::DeviceToDevice,
        }
    }

    /// Returns the mode of a source of an allocation.
    pub(crate) fn source(from_device: bool) -> Self {
        if from_device { Self::DeviceToDevice } else { Self::HostToDevice }
    }

    fn devices(self, to: usize, from: usize) -> (Option<i32>, Option<i32>) {
        // Managed memory is host memory here.
        let to = memory::device_of(to).filter(|_| self != Self::DeviceToHost);
        let from = memory::device_of(from).filter(|_| self != Self::HostToDevice);
        (to, from)
    }
}

/// Copies bytes, after all work of the participating devices; complete on return.
pub(crate) fn bytes(to: usize, from: usize, count: usize, mode: Mode) {
    let (to_device, from_device) = mode.devices(to, from);
    streams::finish([to_device, from_device]);
    copy(to, from, count, to_device, from_device);
}

fn copy(to: usize, from: usize, count: usize, to_device: Option<i32>, from_device: Option<i32>) {
    if count == 0 || to == from {
        return;
    }
    // SAFETY: flang's code passes ranges of variables of this size; `memory` knows their devices.
    unsafe {
        match (to_device, from_device) {
            (Some(one), Some(other)) if one == other => {
                acc::on_device(one, || acc::copy(CopyDirection::Within, to, from, count, None));
            }
            (Some(one), Some(other)) => acc::copy_between((to, one), (from, other), count),
            (Some(one), None) => acc::on_device(one, || acc::copy(CopyDirection::ToDevice, to, from, count, None)),
            (None, Some(one)) => acc::on_device(one, || acc::copy(CopyDirection::FromDevice, to, from, count, None)),
            (None, None) => std::ptr::copy(from as *const u8, to as *mut u8, count),
        }
    }
}

/// Enqueues a copy that involves at most one device; returns `false` if it must be synchronous.
pub(crate) fn enqueue(to: usize, from: usize, count: usize, stream: i64) -> bool {
    let (device, way) = match (memory::device_of(to), memory::device_of(from)) {
        (Some(one), Some(other)) if one == other => (one, CopyDirection::Within),
        (Some(one), None) => (one, CopyDirection::ToDevice),
        (None, Some(one)) => (one, CopyDirection::FromDevice),
        _ => return false,
    };
    acc::on_device(device, || {
        let queue = streams::begin(device, stream);
        // SAFETY: the program keeps both ranges until the stream has done the copy, as CUDA requires.
        unsafe { acc::copy(way, to, from, count, Some(queue)) };
    });
    true
}

/// Assigns an array or a scalar to an array, which is allocated if necessary.
pub(crate) fn arrays(to: &mut Descriptor, from: &Descriptor, mode: Mode, place: SourceLine) {
    if to.base == 0 {
        let element = from.element;
        for (new, old) in to.dimensions_mut().iter_mut().zip(from.dimensions()) {
            (new.lower, new.extent, new.stride) = (1, old.extent, 0);
        }
        to.element = element;
        if memory::allocate(to, false, std::ptr::null(), std::ptr::null(), 0) != 0 {
            end(place, "no memory for the left side of an assignment", "allocate it before, with stat=");
        }
    }
    if to.element != from.element {
        let cause = format!("an assignment of elements of {} bytes to others of {}", from.element, to.element);
        end(place, &cause, "give both sides the same type and kind");
    }
    let count = to.elements();
    let is_scalar = from.rank() == 0;
    if !is_scalar && from.elements() != count {
        let cause = format!("an assignment of {} elements to {count}", from.elements());
        end(place, &cause, "give both sides the same shape");
    }
    if count == 0 {
        return;
    }
    let (to_device, from_device) = mode.devices(to.base, from.base);
    streams::finish([to_device, from_device]);
    let size = to.element;
    if !is_scalar && to.is_contiguous() && from.is_contiguous() {
        return copy(to.base, from.base, count * size, to_device, from_device);
    }
    if is_scalar {
        return fill(to, from, count, to_device, from_device);
    }
    // Copies runs that are contiguous on both sides.
    let (one, other) = (to.run(), from.run());
    let run = if one.is_multiple_of(other) {
        other
    } else if other.is_multiple_of(one) {
        one
    } else {
        1
    };
    for element in (0..count).step_by(run) {
        copy(to.address(element), from.address(element), run * size, to_device, from_device);
    }
}

/// Least bytes that copies within the device fill, instead of a copy from the host.
const FILLED_WITHIN: usize = 1 << 20;

/// Assigns a scalar to each element.
fn fill(to: &Descriptor, from: &Descriptor, count: usize, to_device: Option<i32>, from_device: Option<i32>) {
    let mut value = vec![0_u8; from.element];
    copy(value.as_mut_ptr().addr(), from.base, from.element, None, from_device);
    let run = if to.is_contiguous() { count } else { to.run() };
    if let Some(device) = to_device.filter(|_| run * to.element >= FILLED_WITHIN) {
        let rows: Vec<usize> = (0..count).step_by(run).map(|element| to.address(element)).collect();
        filling::enqueue(device, 0, &rows, run * to.element, &value);
        return streams::finish([to_device, None]);
    }
    let row = value.repeat(run);
    for element in (0..count).step_by(run) {
        copy(to.address(element), row.as_ptr().addr(), row.len(), to_device, None);
    }
}

#[unsafe(no_mangle)]
extern "C" fn _FortranACUFDataTransferPtrPtr(
    to: usize,
    from: usize,
    count: usize,
    mode: u32,
    _file: *const c_char,
    _line: i32,
) {
    bytes(to, from, count, Mode::new(mode));
}

#[unsafe(no_mangle)]
extern "C" fn _FortranACUFDataTransferDescDesc(
    to: &mut Descriptor,
    from: &Descriptor,
    mode: u32,
    file: *const c_char,
    line: i32,
) {
    arrays(to, from, Mode::new(mode), SourceLine::new(file, line));
}

#[unsafe(no_mangle)]
extern "C" fn _FortranACUFDataTransferDescDescNoRealloc(
    to: &mut Descriptor,
    from: &Descriptor,
    mode: u32,
    file: *const c_char,
    line: i32,
) {
    arrays(to, from, Mode::new(mode), SourceLine::new(file, line));
}

#[unsafe(no_mangle)]
extern "C" fn _FortranACUFDataTransferCstDesc(
    to: &mut Descriptor,
    from: &Descriptor,
    mode: u32,
    file: *const c_char,
    line: i32,
) {
    arrays(to, from, Mode::new(mode), SourceLine::new(file, line));
}

#[unsafe(no_mangle)]
extern "C" fn _FortranACUFDescriptorCheckSection(descriptor: Option<&Descriptor>, file: *const c_char, line: i32) {
    if descriptor.is_some_and(|descriptor| !descriptor.is_contiguous()) {
        end(
            SourceLine::new(file, line),
            "a section of a device array that is not contiguous, as an argument",
            "pass a contiguous one, or the whole array and bounds",
        );
    }
}
