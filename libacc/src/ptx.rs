//! GCC's description of an object's PTX, which its start-up code registers.
//!
//! CPU devices run the host version of a region and do not need it.

use crate::images::Image;
use accord_device::image::{self, ImageFunction, ImageVariable};
use accord_types::{Error, ErrorCode, Result};
use std::ffi::{CStr, c_char};

/// GCC's number of nvptx among offload targets.
pub(crate) const TARGET_NVPTX: i32 = 5;
/// The newest version of the nvptx part that is known.
const DEVICE_VERSION_MAX: u32 = 1;

/// The parts of a registered image. All addresses point into the object, which keeps them until it unregisters the image.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct PtxImage {
    /// PTX texts that are linked together: address, and size with the final zero byte.
    pub(crate) objects: Vec<(usize, usize)>,
    /// Addresses of the variables' names, in the order of the host table.
    pub(crate) variables: Vec<usize>,
    /// Regions in the order of the host table.
    pub(crate) functions: Vec<PtxFunction>,
}

/// One region.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PtxFunction {
    /// Address of the region's name.
    pub(crate) name: usize,
    /// Gangs, workers and vector length for which it was compiled; 0 is open.
    pub(crate) dims: [u16; 3],
}

#[repr(C)]
#[derive(Clone, Copy)]
struct RawObject {
    code: usize,
    size: usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct RawFunction {
    name: usize,
    dims: [u16; 3],
}

/// Most entries of one list: a larger number means that the layout differs.
const ENTRIES_MAX: u32 = 1 << 20;

impl PtxImage {
    /// Reads an nvptx image; `functions` and `variables` are the host table's counts.
    ///
    /// # Errors
    /// Returns `acc_error_device_init` for unknown versions and counts that don't match.
    ///
    /// # Safety
    /// The image must be registered, and stay registered during the call.
    pub(crate) unsafe fn read(image: &Image, functions: usize, variables: usize) -> Result<Self> {
        let device_version = image.version & 0xffff;
        if image.target != TARGET_NVPTX || device_version > DEVICE_VERSION_MAX {
            return Err(refused(&format!("it is of target {} and version {device_version}", image.target)));
        }
        // From GCC 13 on one word precedes.
        let start = image.data + if image.version >> 16 >= 2 { 8 } else { 0 };
        // SAFETY: the caller's promise: the three lists are laid out like this.
        let this = unsafe {
            Self {
                objects: list::<RawObject>(start)?.iter().map(|object| (object.code, object.size)).collect(),
                variables: list::<usize>(start + 16)?.to_vec(),
                functions: list::<RawFunction>(start + 32)?
                    .iter()
                    .map(|raw| PtxFunction { name: raw.name, dims: raw.dims })
                    .collect(),
            }
        };
        if (this.functions.len(), this.variables.len()) != (functions, variables) {
            return Err(refused(&format!(
                "it has {} regions and {} variables, the program {functions} and {variables}",
                this.functions.len(),
                this.variables.len()
            )));
        }
        Ok(this)
    }

    /// Copies everything, for other processes.
    ///
    /// # Safety
    /// The image must be registered, and stay registered during the call.
    pub(crate) unsafe fn contents(&self) -> image::Image {
        // SAFETY: names of a registered image are terminated strings.
        let text = |at: usize| unsafe { CStr::from_ptr(at as *const c_char) }.to_string_lossy().into_owned();
        // SAFETY: the image's texts have the recorded sizes.
        let bytes = |(at, size): (usize, usize)| unsafe { std::slice::from_raw_parts(at as *const u8, size) };
        let without_end = |text: &[u8]| text.strip_suffix(&[0]).unwrap_or(text).to_vec();
        image::Image {
            objects: self.objects.iter().map(|object| without_end(bytes(*object))).collect(),
            functions: self
                .functions
                .iter()
                .map(|function| ImageFunction { name: text(function.name), dims: function.dims })
                .collect(),
            variables: self.variables.iter().map(|name| ImageVariable { name: text(*name) }).collect(),
        }
    }
}

/// Returns a list by its address and the 32-bit count after that.
///
/// # Safety
/// Both words must be at `at`, and the list must have that length.
unsafe fn list<'a, T>(at: usize) -> Result<&'a [T]> {
    // SAFETY: the caller's promise.
    let (start, count) = unsafe { (*(at as *const *const T), *((at + 8) as *const u32)) };
    if count > ENTRIES_MAX {
        return Err(refused(&format!("a list of it has {count} entries")));
    }
    if count == 0 {
        return Ok(&[]);
    }
    // SAFETY: the caller's promise.
    Ok(unsafe { std::slice::from_raw_parts(start, count as usize) })
}

fn refused(why: &str) -> Error {
    Error::new(ErrorCode::DeviceInit, format!("the program's GPU code can't be used: {why}"))
        .remedy("compile the program with GCC 12 to 15")
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Lists {
        objects: [RawObject; 2],
        variables: [usize; 1],
        functions: [RawFunction; 2],
    }

    impl Lists {
        fn new() -> Self {
            Self {
                objects: [RawObject { code: 1, size: 2 }, RawObject { code: 3, size: 4 }],
                variables: [5],
                functions: [RawFunction { name: 6, dims: [0, 1, 32] }, RawFunction { name: 7, dims: [10, 4, 64] }],
            }
        }

        fn words(&self) -> Vec<usize> {
            vec![
                self.objects.as_ptr() as usize,
                2,
                self.variables.as_ptr() as usize,
                1,
                self.functions.as_ptr() as usize,
                2,
            ]
        }
    }

    fn read(version: u32, words: &[usize], counts: (usize, usize)) -> Result<PtxImage> {
        let data = words.as_ptr() as usize;
        let image = Image { version, table: 0, target: TARGET_NVPTX, data };
        // SAFETY: the words point to lists of their lengths.
        unsafe { PtxImage::read(&image, counts.0, counts.1) }
    }

    #[test]
    fn the_three_layouts_are_read_alike() {
        let lists = Lists::new();
        let old = lists.words();
        let mut new = vec![0];
        new.extend(&old);
        let image = read(0x10001, &old, (2, 1)).unwrap();
        assert_eq!(image.objects, [(1, 2), (3, 4)]);
        assert_eq!(image.variables, [5]);
        assert_eq!(image.functions[1], PtxFunction { name: 7, dims: [10, 4, 64] });
        assert_eq!(read(0x20001, &new, (2, 1)).unwrap(), image);
        assert_eq!(read(0x30001, &new, (2, 1)).unwrap(), image);
        assert_eq!(read(0, &old, (2, 1)).unwrap(), image);
    }

    #[test]
    fn other_versions_and_counts_are_refused() {
        let lists = Lists::new();
        assert!(read(0x10002, &lists.words(), (2, 1)).is_err());
        assert!(read(0x10001, &lists.words(), (3, 1)).is_err());
        let mut words = lists.words();
        words[1] = 0xffff_ffff;
        assert!(read(0x10001, &words, (2, 1)).is_err());
    }
}
