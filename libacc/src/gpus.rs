//! This machine's GPUs, as the program's session uses them.

use crate::images;
use crate::ptx::TARGET_NVPTX;
use crate::{elf, loader, output, settings};
use accord_device::{SameHostPeers, registry};
use accord_types::{DeviceInfo, NodeId, Result};
use std::sync::Arc;

/// Whether the program can use GPUs. One whose regions were not compiled for them can't: they run on CPU devices.
pub(crate) fn usable() -> bool {
    let has_code = images::registered().iter().any(|image| image.target == TARGET_NVPTX);
    let needs_code = || loader::objects().iter().any(|object| object.uses_openacc() && elf::regions(&object.file) > 0);
    settings::emulated().is_none() && (has_code || !needs_code())
}

/// The GPUs that the driver shows to this process. To look for them can take a second.
pub(crate) fn inventory(node_name: &str) -> Vec<DeviceInfo> {
    let found = registry::find(NodeId(0), node_name);
    if settings::debug()
        && let Some(note) = found.note
    {
        output::print(&format!("accord: GPUs: {note}\n"));
    }
    found.devices
}

/// Whether a GPU is among those that the driver shows to this process, whatever its number is here.
pub(crate) fn is_among(info: &DeviceInfo, shown: &[DeviceInfo]) -> bool {
    let found = shown.iter().any(|gpu| gpu.uuid == info.uuid);
    if !found && settings::debug() {
        output::print(&format!(
            "accord: GPU {} of this node ({}) can't be used by this process; the node's agent drives it\n",
            info.id.ordinal, info.uuid
        ));
    }
    found
}

/// Processes of this machine that drive GPUs of the session; none if `ACCORD_IPC` says so, or there can't be any.
///
/// # Errors
/// Returns `acc_error_invalid_argument` for a value without a meaning.
pub(crate) fn same_host_peers(in_cluster: bool) -> Result<Option<Arc<SameHostPeers>>> {
    let on = settings::ipc()? && in_cluster && usable();
    Ok(on.then(|| {
        SameHostPeers::new(|why| {
            if settings::debug() {
                output::print(&format!("accord: copies go over the network: {why}\n"));
            }
        })
    }))
}
