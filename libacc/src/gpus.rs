//! This machine's GPUs, as the program's session uses them.

use crate::images;
use crate::ptx::TARGET_NVPTX;
use crate::{elf, loader, output, settings};
use accord_device::SameHostPeers;
use accord_types::{DeviceInfo, NodeId, Result};
use std::sync::Arc;

/// Whether the program can use GPUs. If its regions were not compiled for them, they run on CPU devices.
pub(crate) fn usable() -> bool {
    let has_code = images::registered().iter().any(|image| image.target == TARGET_NVPTX);
    let needs_code = || loader::objects().iter().any(|object| object.uses_openacc() && elf::regions(&object.file) > 0);
    settings::emulated().is_none() && (has_code || !needs_code())
}

/// Returns the GPUs that the driver shows to this process. Finding them may take a second.
pub(crate) fn inventory(node_name: &str) -> Vec<DeviceInfo> {
    let found = accord_backends::find(NodeId(0), node_name);
    if settings::debug()
        && let Some(note) = found.note
    {
        output::print(&format!("accord: GPUs: {note}\n"));
    }
    found.devices
}

/// Whether the driver shows a GPU to this process, under any number.
pub(crate) fn is_among(info: &DeviceInfo, visible: &[DeviceInfo]) -> bool {
    let found = visible.iter().any(|gpu| gpu.uuid == info.uuid);
    if !found && settings::debug() {
        output::print(&format!(
            "accord: GPU {} of this node ({}) can't be used by this process; the node's agent drives it\n",
            info.id.ordinal, info.uuid
        ));
    }
    found
}

/// Returns the processes of this machine that drive GPUs of the session, or `None` if `ACCORD_IPC` is off or there can't be any.
///
/// # Errors
/// Returns `acc_error_invalid_argument` for an invalid value.
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
