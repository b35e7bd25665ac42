//! Gathers the data of `accord explain image`: the GPU code that constructors of the program and its shared objects have
//! registered. Starts no device, and runs nothing of the program's `main`.

use crate::host_table::{self, LINK, parts_of_host_table, variables};
use crate::images::{self, Image};
use crate::loader::LoadedObject;
use crate::ptx::{PtxImage, TARGET_NVPTX};
use crate::{elf, loader, output};
use accord_device::image::{HostRegion, HostVariable, ProgramImage, ProgramObject, encode_program};
use accord_types::Result;
use std::path::Path;

/// Writes the description of this process's GPU code; whether that worked.
pub(crate) fn describe(file: &Path) -> bool {
    let written = std::panic::catch_unwind(|| {
        let bytes = encode_program(&objects()).map_err(|error| error.to_string())?;
        std::fs::write(file, bytes).map_err(|error| format!("can't write {}: {error}", file.display()))
    });
    match written {
        Ok(Ok(())) => true,
        Ok(Err(why)) => {
            output::print(&format!("accord: {why}\n"));
            false
        }
        // The hook has reported the panic.
        Err(_) => false,
    }
}

/// The executable, and the shared objects with regions.
fn objects() -> Vec<ProgramObject> {
    let images = images::registered();
    let describe = |object: LoadedObject| {
        let own = images.iter().find(|image| image.target == TARGET_NVPTX && object.span.contains(&image.table));
        ProgramObject {
            executable: object.executable,
            openacc: object.uses_openacc(),
            regions: elf::regions(&object.file),
            // SAFETY: the image is registered, and its object loaded.
            image: own.map(|image| unsafe { read(&object, image) }.map_err(|error| error.to_string())),
            path: object.path,
        }
    };
    let all = loader::objects().into_iter().map(describe);
    all.filter(|object| object.executable || object.regions > 0 || object.image.is_some()).collect()
}

/// # Safety
/// The image must be registered, and stay registered during the call.
unsafe fn read(object: &LoadedObject, image: &Image) -> Result<ProgramImage> {
    // SAFETY: the caller's promise covers the host table.
    let (functions, hosts) = unsafe { host_table::hosts(image.table) }.unwrap_or_default();
    // SAFETY: the caller's promise.
    let contents = unsafe { PtxImage::read(image, functions.len(), hosts.len())?.contents() };
    let names = elf::region_names(&object.file);
    let region = |address: usize| {
        let offset = address.wrapping_sub(object.base) as u64;
        HostRegion { offset, name: names.get(&offset).cloned() }
    };
    let range = parts_of_host_table(image.table).map_or(0..0, |[_, variables]| variables);
    Ok(ProgramImage {
        image: contents,
        regions: functions.into_iter().map(region).collect(),
        variables: variables(range)
            .map(|(_, size)| HostVariable { bytes: (size & !LINK) as u64, link: size & LINK != 0 })
            .collect(),
    })
}
