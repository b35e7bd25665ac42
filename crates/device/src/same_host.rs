//! The other processes of a session on this machine.

use crate::device::Device;
use crate::ipc::{Exporter, Importer, MappedRange};
use crate::memory_handle::MemoryHandle;
use accord_types::DevicePtr;
use accord_types::short_lock::{ShortGuard, ShortLock};
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Most processes of each kind.
const PEERS_MAX: usize = 4096;

/// Processes of this machine that share memory with this one in either direction. Each has a number that the caller chooses, for example that of its
/// node.
pub struct SameHostPeers {
    note: Arc<dyn Fn(&str) + Send + Sync>,
    state: ShortLock<OtherProcesses>,
}

#[derive(Default)]
struct OtherProcesses {
    closed: bool,
    exporters: HashMap<u32, Arc<Exporter>>,
    importers: HashMap<u32, Arc<Importer>>,
}

impl SameHostPeers {
    /// Creates the value without peers. `note` gets, once for each device and process, the reason why copies can't be direct.
    pub fn new(note: impl Fn(&str) + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self { note: Arc::new(note), state: ShortLock::default() })
    }

    /// Exports memory to a process, over a socket as for [`Exporter::start`].
    pub fn export_to(&self, peer: u32, socket: OwnedFd) {
        let Some(exporter) = Exporter::start(socket) else { return };
        let mut state = self.lock();
        if state.closed || state.exporters.len() == PEERS_MAX && !state.exporters.contains_key(&peer) {
            return exporter.close();
        }
        if let Some(old) = state.exporters.insert(peer, exporter) {
            old.close();
        }
    }

    /// Imports memory from a process, over a socket as for [`Importer::start`].
    pub fn import_from(&self, peer: u32, socket: OwnedFd) {
        let note = self.note.clone();
        let Some(importer) = Importer::start(socket, move |text| note(text)) else { return };
        let mut state = self.lock();
        if state.closed || state.importers.len() == PEERS_MAX && !state.importers.contains_key(&peer) {
            return importer.close();
        }
        if let Some(old) = state.importers.insert(peer, importer) {
            old.close();
        }
    }

    /// Whether memory can be imported from a process.
    pub fn imports_from(&self, peer: u32) -> bool {
        self.lock().importers.contains_key(&peer)
    }

    /// Returns an encoded handle to `len` bytes at `start`, for a process that imports memory. Empty if it imports none or the
    /// bytes can't be exported.
    pub fn handle(&self, peer: u32, device: &dyn Device, start: DevicePtr, len: u64) -> Vec<u8> {
        let exporter = self.lock().exporters.get(&peer).cloned();
        let handle = exporter.and_then(|exporter| exporter.handle(&device.exports()?, start, len));
        handle.map(|handle| handle.encode()).unwrap_or_default()
    }

    /// Makes a process's encoded memory handle of `len` bytes accessible to a device. Returns `None` if that is impossible.
    pub fn map(&self, peer: u32, device: &dyn Device, handle: &[u8], len: u64) -> Option<MappedRange> {
        let importer = self.lock().importers.get(&peer).cloned()?;
        let handle = MemoryHandle::decode(handle).ok()?;
        if handle.bytes() != len {
            return None;
        }
        importer.map(&device.imports()?, &handle)
    }

    /// Ends all connections.
    pub fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        let (exporters, importers) = (std::mem::take(&mut state.exporters), std::mem::take(&mut state.importers));
        drop(state);
        exporters.values().for_each(|exporter| exporter.close());
        importers.values().for_each(|importer| importer.close());
    }

    fn lock(&self) -> ShortGuard<'_, OtherProcesses> {
        self.state.lock()
    }
}
