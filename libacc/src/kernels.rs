//! The program's GPU code: the kernel of each region, and the device's twin of each variable.

use crate::host_table;
use crate::images::Image;
use crate::ptx::{PtxImage, TARGET_NVPTX};
use accord_device::image::{Images, on_one_thread};
use accord_types::short_lock::{ShortLock, ShortRwLock};
use accord_types::{ImageId, ImageRef, Result};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// One session's images.
#[derive(Default)]
pub(crate) struct Kernels {
    /// Whether a device of the session runs the images, which are read only then.
    wanted: AtomicBool,
    images: Arc<Images>,
    places: ShortRwLock<Places>,
    /// Which regions of an image run on one thread, if queried.
    alone: ShortLock<HashMap<ImageId, Vec<bool>>>,
}

#[derive(Default)]
struct Places {
    /// Kernels by the address of the host version.
    functions: HashMap<usize, ImageRef>,
    /// Twins by the address in the program.
    variables: HashMap<usize, ImageRef>,
}

impl Kernels {
    /// Reads images from now on.
    pub(crate) fn want(&self) {
        self.wanted.store(true, Ordering::Relaxed);
    }

    /// The images' contents, for devices.
    pub(crate) fn images(&self) -> Arc<Images> {
        Arc::clone(&self.images)
    }

    /// Reads a registered image. Ignores one for another target.
    ///
    /// # Errors
    /// Returns an error if the image's layout is unknown.
    ///
    /// # Safety
    /// The image must be registered, and stay registered during the call.
    pub(crate) unsafe fn add(&self, image: &Image) -> Result<()> {
        if !self.wanted.load(Ordering::Relaxed) || image.target != TARGET_NVPTX {
            return Ok(());
        }
        // SAFETY: the caller's guarantee covers the image and its host table.
        let (functions, variables, contents) = unsafe {
            let Some((functions, variables)) = host_table::hosts(image.table) else { return Ok(()) };
            let ptx = PtxImage::read(image, functions.len(), variables.len())?;
            (functions, variables, ptx.contents())
        };
        let id = self.images.add(contents);
        let place = |(index, host): (u32, usize)| (host, ImageRef { image: id, index });
        let mut places = self.places.write();
        places.functions.extend((0..).zip(functions).map(place));
        places.variables.extend((0..).zip(variables).map(place));
        Ok(())
    }

    /// Removes the kernels of an unloaded object with these addresses.
    pub(crate) fn forget(&self, span: &std::ops::Range<usize>) {
        let mut places = self.places.write();
        places.functions.retain(|host, _| !span.contains(host));
        places.variables.retain(|host, _| !span.contains(host));
    }

    /// A region's kernel.
    pub(crate) fn function(&self, address: usize) -> Option<ImageRef> {
        self.places.read().functions.get(&address).copied()
    }

    /// Whether a region has a loop and was compiled for one thread.
    pub(crate) fn is_for_one_thread(&self, address: usize) -> bool {
        let Some(ImageRef { image: id, index }) = self.function(address) else { return false };
        let mut alone = self.alone.lock();
        let regions =
            alone.entry(id).or_insert_with(|| self.images.get(id).map_or(Vec::new(), |image| on_one_thread(&image)));
        regions.get(index as usize).copied().unwrap_or(false)
    }

    /// A variable's twin.
    pub(crate) fn variable(&self, address: usize) -> Option<ImageRef> {
        self.places.read().variables.get(&address).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An image as GCC lays it out: two regions, one variable, one PTX text.
    struct Program {
        functions: [usize; 2],
        variables: [[usize; 2]; 1],
        code: (&'static [u8], usize),
    }

    #[test]
    fn regions_and_variables_are_found_until_their_object_goes() {
        let program = Program { functions: [0x1000, 0x1040], variables: [[0x2000, 16]], code: (b"ptx\0", 4) };
        let ends = |start: usize, bytes: usize| [start, start + bytes];
        let [f0, f1] = ends(program.functions.as_ptr() as usize, 16);
        let [v0, v1] = ends(program.variables.as_ptr() as usize, 16);
        let table = [f0, f1, v0, v1];
        let names = [c"first".as_ptr() as usize, c"second".as_ptr() as usize, c"global".as_ptr() as usize];
        let objects = [program.code.0.as_ptr() as usize, program.code.1];
        let dims = |gangs: usize, workers: usize, vector: usize| gangs | workers << 16 | vector << 32;
        let descriptors = [names[0], dims(0, 1, 32), names[1], dims(10, 4, 64)];
        let variables = [names[2]];
        let data = [objects.as_ptr() as usize, 1, variables.as_ptr() as usize, 1, descriptors.as_ptr() as usize, 2];
        let image = Image {
            version: 0x10001,
            table: table.as_ptr() as usize,
            target: TARGET_NVPTX,
            data: data.as_ptr() as usize,
        };

        let kernels = Kernels::default();
        // SAFETY: everything that the image points to lives in this function.
        unsafe { kernels.add(&image) }.unwrap();
        assert_eq!(kernels.function(0x1000), None, "no call has wanted it");
        kernels.want();
        // SAFETY: as above.
        unsafe { kernels.add(&image) }.unwrap();
        let second = kernels.function(0x1040).unwrap();
        assert_eq!(second.index, 1);
        assert_eq!(kernels.variable(0x2000).unwrap().index, 0);
        let contents = kernels.images.get(second.image).unwrap();
        assert_eq!(contents.objects, [b"ptx"]);
        assert_eq!(contents.functions[1].name, "second");
        assert_eq!(contents.functions[1].dims, [10, 4, 64]);
        assert_eq!(contents.variables[0].name, "global");

        kernels.forget(&(0x1000..0x3000));
        assert_eq!((kernels.function(0x1000), kernels.variable(0x2000)), (None, None));
    }
}
