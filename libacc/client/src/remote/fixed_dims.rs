//! Launch dimensions that the program's own images fix, for observers of devices that another process drives.

use accord_device::image::{GangCount, Image};
use accord_types::short_lock::ShortLock;
use accord_types::{ImageId, ImageRef};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

/// Gangs, workers and vector length; 0 is chosen at launch.
type Dims = [u32; 3];

/// The dimensions known so far.
#[derive(Default)]
pub(super) struct FixedDims(ShortLock<DimsCache>);

#[derive(Default)]
struct DimsCache {
    /// Dimensions by the address of the region's host version.
    regions: HashMap<u64, Dims>,
    /// Dimensions of an image's regions. Reading an image's code takes long, so it is done once.
    images: HashMap<ImageId, Arc<[Dims]>>,
}

impl FixedDims {
    /// Returns the dimensions of a region, which `find` looks up in an image at its first launch. `find` is called
    /// without a lock, as it may wait.
    pub(super) fn of(&self, region: u64, find: impl FnOnce() -> Option<(ImageRef, Arc<Image>)>) -> Dims {
        let known = self.0.lock().regions.get(&region).copied();
        known.unwrap_or_else(|| {
            let dims = find()
                .and_then(|(kernel, image)| self.of_image(kernel.image, &image).get(kernel.index as usize).copied());
            *self.0.lock().regions.entry(region).or_insert(dims.unwrap_or_default())
        })
    }

    fn of_image(&self, id: ImageId, image: &Image) -> Arc<[Dims]> {
        let known = self.0.lock().images.get(&id).cloned();
        known.unwrap_or_else(|| {
            let all: Arc<[Dims]> = fixed(image).into();
            self.0.lock().images.insert(id, all.clone());
            all
        })
    }

    /// Removes the regions of an unloaded object.
    pub(super) fn forget(&self, regions: &Range<u64>) {
        self.0.lock().regions.retain(|region, _| !regions.contains(region));
    }
}

/// Returns the dimensions as the executor launches them. A compiled number of gangs that exceeds the image's field is
/// taken from the code.
fn fixed(image: &Image) -> Vec<Dims> {
    let with_count = |(dims, count): (Dims, GangCount)| match count {
        GangCount::Exactly(gangs) => [gangs, dims[1], dims[2]],
        GangCount::AsGiven | GangCount::Lost => dims,
    };
    let given = image.functions.iter().map(|function| function.dims.map(u32::from));
    given.zip(image.gang_counts()).map(with_count).collect()
}
