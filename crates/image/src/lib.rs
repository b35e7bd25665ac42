//! Images: the GPU code of one object of the program, as plain data for any process.

#![forbid(unsafe_code)]

mod atomics;
mod block;
mod definitions;
mod encode;
mod entry;
mod gang_blocks;
#[cfg(test)]
mod gang_blocks_tests;
mod gang_count;
#[cfg(test)]
mod gang_count_tests;
mod gang_values;
mod global_updates;
mod one_thread;
mod program;
mod ptx;
mod reduce;
#[cfg(test)]
mod reduce_tests;
mod refusal;
mod repeated_updates;
mod rewrite;
mod slots;
mod spin;
#[cfg(test)]
mod tests;
mod unroll;
#[cfg(test)]
mod unroll_tests;

pub use atomics::with_atomics;
pub use block::{BlockLayout, Packed};
pub use encode::ENCODED_MAX;
pub use entry::EntryParameters;
pub use gang_blocks::{OwnBlockReason, gangs_apart};
pub use gang_count::{GangCount, GangUse};
pub use one_thread::on_one_thread;
pub use program::{EXPLAIN_ENV, HostRegion, HostVariable, ProgramImage, ProgramObject, decode_program, encode_program};
pub use reduce::Updates;
pub use refusal::Refusal;
pub use rewrite::{BlockPath, Kernel, PARAMETER_SM_MIN, REWRITE_VERSION, Rewritten, header, rewrite};

use accord_types::ImageId;
use accord_types::short_lock::ShortRwLock;
use rkyv::{Archive, Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use std::collections::HashMap;
use std::sync::Arc;

/// One object's code for NVIDIA GPUs.
#[derive(Archive, Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
pub struct Image {
    /// PTX texts, without their final zero bytes, which are linked together.
    pub objects: Vec<Vec<u8>>,
    /// Regions, in the order of the program's own list.
    pub functions: Vec<ImageFunction>,
    /// Variables with a `declare` clause, in the order of the program's own list.
    pub variables: Vec<ImageVariable>,
}

/// A region's version for GPUs.
#[derive(Archive, Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
pub struct ImageFunction {
    /// The region's name in the PTX.
    pub name: String,
    /// Gangs, workers and vector length for which it was compiled; 0 is open.
    pub dims: [u16; 3],
}

/// A `declare` variable's twin.
#[derive(Archive, Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
pub struct ImageVariable {
    /// The variable's name in the PTX; for a `link` variable that of a cell with its address.
    pub name: String,
}

impl Image {
    /// Whether the image's regions can write to standard output: the device's `vprintf` is a call to the driver.
    pub fn prints(&self) -> bool {
        const CALL: &[u8] = b"vprintf";
        self.objects.iter().any(|object| object.windows(CALL.len()).any(|word| word == CALL))
    }

    /// Returns the known number of gangs of each region, in their order.
    pub fn gang_counts(&self) -> Vec<GangCount> {
        let texts = self.objects.iter().filter_map(|object| std::str::from_utf8(object).ok());
        // For an architecture whose kernels are not rewritten, because they are only analysed.
        let kernels = texts.flat_map(|text| rewrite(text, PARAMETER_SM_MIN - 1).kernels);
        let displayed: HashMap<String, GangUse> = kernels.map(|kernel| (kernel.name, kernel.gangs)).collect();
        let count = |function: &ImageFunction| {
            displayed.get(&function.name).map_or(GangCount::AsGiven, |gangs| gangs.count(function.dims[0]))
        };
        self.functions.iter().map(count).collect()
    }

    /// Returns the image's identity: a hash of its contents.
    pub fn id(&self) -> ImageId {
        let mut hash = Sha256::new();
        let mut part = |bytes: &[u8]| {
            hash.update((bytes.len() as u64).to_le_bytes());
            hash.update(bytes);
        };
        part(&(self.objects.len() as u64).to_le_bytes());
        self.objects.iter().for_each(|object| part(object));
        part(&(self.functions.len() as u64).to_le_bytes());
        for function in &self.functions {
            part(function.name.as_bytes());
            part(&function.dims.map(u16::to_le_bytes).concat());
        }
        self.variables.iter().for_each(|variable| part(variable.name.as_bytes()));
        ImageId(hash.finalize().into())
    }
}

/// The images of a process, by their identity.
#[derive(Default, Debug)]
pub struct Images(ShortRwLock<HashMap<ImageId, Arc<Image>>>);

impl Images {
    /// Adds an image.
    pub fn add(&self, image: Image) -> ImageId {
        let id = image.id();
        self.0.write().entry(id).or_insert_with(|| Arc::new(image));
        id
    }

    /// All that are known.
    pub fn ids(&self) -> Vec<ImageId> {
        self.0.read().keys().copied().collect()
    }

    /// The image with this identity.
    pub fn get(&self, id: ImageId) -> Option<Arc<Image>> {
        self.0.read().get(&id).cloned()
    }
}
