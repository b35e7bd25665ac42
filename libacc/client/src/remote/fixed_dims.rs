//! Launch dimensions that the program's own images fix, for observers of devices that another process drives.

use accord_device::image::{GangCount, Image};
use accord_types::{ImageId, ImageRef};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

/// Gangs, workers and vector length; 0 is open.
type Dims = [u32; 3];

/// What is known so far.
#[derive(Default)]
pub(super) struct FixedDims {
    /// By the address of the region's host version.
    regions: HashMap<u64, Dims>,
    /// Those of an image's regions. To read an image's code takes long, so it is done once.
    images: HashMap<ImageId, Vec<Dims>>,
}

impl FixedDims {
    /// The dimensions of a region, which `find` finds in an image at its first launch.
    pub(super) fn of(&mut self, region: u64, find: impl FnOnce() -> Option<(ImageRef, Arc<Image>)>) -> Dims {
        let Self { regions, images } = self;
        *regions.entry(region).or_insert_with(|| {
            let Some((kernel, image)) = find() else { return Dims::default() };
            let all = images.entry(kernel.image).or_insert_with(|| fixed(&image));
            all.get(kernel.index as usize).copied().unwrap_or_default()
        })
    }

    /// The object with these regions was unloaded.
    pub(super) fn forget(&mut self, regions: &Range<u64>) {
        self.regions.retain(|region, _| !regions.contains(region));
    }
}

/// As the executor launches them: with the number of gangs that the code was compiled for, where the image has no room for it.
fn fixed(image: &Image) -> Vec<Dims> {
    let with_count = |(dims, count): (Dims, GangCount)| match count {
        GangCount::Exactly(gangs) => [gangs, dims[1], dims[2]],
        GangCount::AsGiven | GangCount::Lost => dims,
    };
    let given = image.functions.iter().map(|function| function.dims.map(u32::from));
    given.zip(image.gang_counts()).map(with_count).collect()
}
