//! Memory of other processes, mapped for one device: a mirror of each range, with each piece at its offset in the range.

use super::context::Context;
use super::memory::location;
use accord_device::failure::shut_down;
use accord_device::ipc::{Held, ImportMemory, PieceKey};
use accord_device::memory_handle::{MemoryHandle, PAGE};
use accord_types::turn_lock::TurnLock;
use accord_types::{DevicePtr, Error, ErrorCode};
use cudarc::driver::sys::{
    CUdeviceptr, CUipcMem_flags, CUipcMemHandle, CUmemAccess_flags, CUmemAccessDesc,
    CUmemAllocationHandleType as HandleType,
};
use std::collections::{BTreeMap, HashMap};
use std::ffi::c_char;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::{Arc, MutexGuard};

/// Most pieces of one mirror.
const PIECES_MAX: usize = 1 << 16;

/// The importer that brings a range's pieces, and the range.
type Key = (u64, u64);

/// One device's imports of other processes' memory.
pub(crate) struct Imports {
    context: Arc<Context>,
    state: TurnLock<Mirrors>,
}

#[derive(Default)]
struct Mirrors {
    mirrors: HashMap<Key, Mirror>,
    closed: bool,
}

struct Mirror {
    start: CUdeviceptr,
    len: u64,
    /// Whether the mirror is an opened allocation of the other driver, its only piece. Otherwise it is addresses of this device, with pieces mapped there.
    opened: bool,
    /// Pieces by their offset.
    pieces: BTreeMap<u64, Piece>,
}

struct Piece {
    id: u64,
    len: u64,
    /// Number of copies in progress.
    uses: usize,
    /// Whether to unmap the piece after them.
    stale: bool,
}

impl Imports {
    pub(crate) fn new(context: Arc<Context>) -> Arc<Self> {
        Arc::new(Self { context, state: TurnLock::default() })
    }

    /// The device ends.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        for mirror in state.mirrors.values_mut() {
            mirror.drop_all(&self.context);
        }
        state.prune(&self.context);
    }

    /// Whether nothing is imported.
    pub(crate) fn is_empty(&self) -> bool {
        self.lock().mirrors.is_empty()
    }

    fn lock(&self) -> MutexGuard<'_, Mirrors> {
        self.state.take()
    }
}

impl ImportMemory for Imports {
    fn device_name(&self) -> String {
        format!("GPU {}", self.context.device)
    }

    fn missing(&self, importer: u64, handle: &MemoryHandle) -> Option<Vec<(u64, u64, u64)>> {
        let mut state = self.lock();
        if state.closed {
            return None;
        }
        let Some(mirror) = state.mirrors.get_mut(&(importer, handle.range)) else {
            return Some(handle.pieces().collect());
        };
        if mirror.len != handle.range_len {
            return None;
        }
        let mut missing = Vec::new();
        for (offset, id, len) in handle.pieces() {
            if mirror.pieces.get(&offset).is_some_and(|piece| piece.id == id && piece.len == len && !piece.stale) {
                continue;
            }
            // The owner has unmapped all other pieces there, though its message has not arrived yet.
            let first = mirror.pieces.range(..=offset).next_back().map_or(offset, |(at, _)| *at);
            let others: Vec<_> = mirror
                .pieces
                .range(first..offset + len)
                .filter(|(at, piece)| **at + piece.len > offset)
                .map(|(at, _)| *at)
                .collect();
            for at in others {
                if !mirror.drop_idle(&self.context, at) {
                    return None;
                }
            }
            missing.push((offset, id, len));
        }
        Some(missing).filter(|missing| mirror.pieces.len() + missing.len() <= PIECES_MAX)
    }

    fn map(&self, importer: u64, handle: &MemoryHandle, piece: (u64, u64, u64), key: &PieceKey) -> Result<(), Error> {
        let mut state = self.lock();
        if state.closed {
            return Err(shut_down());
        }
        match key {
            PieceKey::Descriptor(descriptor) => state.map(&self.context, (importer, handle), piece, descriptor),
            PieceKey::Allocation(name) => state.open(&self.context, (importer, handle), piece, *name),
        }
    }

    fn hold(&self, importer: u64, handle: &MemoryHandle) -> Option<Held> {
        let mut state = self.lock();
        let key = (importer, handle.range);
        let mirror = state.mirrors.get_mut(&key)?;
        let here = |(offset, id, len)| {
            mirror.pieces.get(&offset).is_some_and(|piece: &Piece| piece.id == id && piece.len == len && !piece.stale)
        };
        if !handle.pieces().all(here) {
            return None;
        }
        let offsets: Vec<_> = handle.pieces().map(|(offset, ..)| offset).collect();
        for offset in &offsets {
            if let Some(piece) = mirror.pieces.get_mut(offset) {
                piece.uses += 1;
            }
        }
        Some(Held { address: DevicePtr(mirror.start + handle.offset), range: key, offsets })
    }

    fn release(&self, held: &Held) -> Vec<u64> {
        let mut state = self.lock();
        let Some(mirror) = state.mirrors.get_mut(&held.range) else { return Vec::new() };
        let mut gone = Vec::new();
        for &offset in &held.offsets {
            let Some(piece) = mirror.pieces.get_mut(&offset) else { continue };
            piece.uses -= 1;
            let (stale, id) = (piece.stale, piece.id);
            if stale && mirror.drop_idle(&self.context, offset) {
                gone.push(id);
            }
        }
        state.prune(&self.context);
        gone
    }

    fn dropped(&self, importer: u64, id: u64) -> bool {
        let mut state = self.lock();
        let mut gone = true;
        for (_, mirror) in state.mirrors.iter_mut().filter(|(key, _)| key.0 == importer) {
            if let Some(offset) = mirror.pieces.iter().find(|(_, piece)| piece.id == id).map(|(at, _)| *at) {
                gone &= mirror.drop_idle(&self.context, offset);
            }
        }
        state.prune(&self.context);
        gone
    }

    fn has(&self, importer: u64, id: u64) -> bool {
        let state = self.lock();
        let mut mirrors = state.mirrors.iter().filter(|(key, _)| key.0 == importer);
        mirrors.any(|(_, mirror)| mirror.pieces.values().any(|piece| piece.id == id))
    }

    fn forget(&self, importer: u64) {
        let mut state = self.lock();
        for (_, mirror) in state.mirrors.iter_mut().filter(|(key, _)| key.0 == importer) {
            mirror.drop_all(&self.context);
        }
        state.prune(&self.context);
    }
}

impl Mirrors {
    /// Maps a piece at its offset in its range's mirror.
    fn map(
        &mut self,
        context: &Context,
        (importer, handle): (u64, &MemoryHandle),
        (offset, id, len): (u64, u64, u64),
        descriptor: &OwnedFd,
    ) -> Result<(), Error> {
        let driver = context.driver;
        let key = (importer, handle.range);
        let at = match self.mirrors.get(&key) {
            Some(mirror) => mirror.start,
            None => {
                let mut start = 0;
                // SAFETY: `start` is valid for writing.
                unsafe { driver.cuMemAddressReserve(&raw mut start, handle.range_len as usize, PAGE as usize, 0, 0) }?;
                self.mirrors
                    .insert(key, Mirror { start, len: handle.range_len, opened: false, pieces: BTreeMap::new() });
                start
            }
        } + offset;
        let kind = HandleType::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
        let access = CUmemAccessDesc {
            location: location(context.device),
            flags: CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
        };
        let mut imported = 0;
        // SAFETY: the descriptor is open, and the driver checks its kind. The handle was checked to be inside the mirror, and no
        // piece is mapped there: `missing` has checked, and one thread at a time maps for an importer.
        unsafe {
            let shareable = std::ptr::without_provenance_mut(descriptor.as_raw_fd() as usize);
            driver.cuMemImportFromShareableHandle(&raw mut imported, shareable, kind)?;
            let mapped = driver.cuMemMap(at, len as usize, 0, imported, 0);
            let allowed = mapped.and_then(|()| {
                driver.cuMemSetAccess(at, len as usize, &raw const access, 1).inspect_err(|_| {
                    let _ = driver.cuMemUnmap(at, len as usize);
                })
            });
            // The mapping keeps the memory.
            let _ = driver.cuMemRelease(imported);
            allowed?;
        }
        if let Some(mirror) = self.mirrors.get_mut(&key) {
            mirror.pieces.insert(offset, Piece { id, len, uses: 0, stale: false });
        }
        Ok(())
    }

    /// Opens an allocation of the other process's driver, which chooses its address here.
    fn open(
        &mut self,
        context: &Context,
        (importer, handle): (u64, &MemoryHandle),
        (offset, id, len): (u64, u64, u64),
        name: [u8; PieceKey::ALLOCATION],
    ) -> Result<(), Error> {
        let key = (importer, handle.range);
        if offset != 0 || len != handle.range_len || self.mirrors.contains_key(&key) {
            return Err(Error::new(ErrorCode::ImplementationDefined, "an allocation that is not a whole range"));
        }
        let name = CUipcMemHandle { reserved: name.map(u8::cast_signed as fn(u8) -> c_char) };
        let flags = CUipcMem_flags::CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS as u32;
        let mut start = 0;
        let _current = context.enter()?;
        // SAFETY: `start` is valid for writing; the driver checks the name.
        unsafe { context.driver.cuIpcOpenMemHandle_v2(&raw mut start, name, flags) }?;
        let pieces = BTreeMap::from([(0, Piece { id, len, uses: 0, stale: false })]);
        self.mirrors.insert(key, Mirror { start, len, opened: true, pieces });
        Ok(())
    }

    /// Frees the addresses of empty mirrors.
    fn prune(&mut self, context: &Context) {
        self.mirrors.retain(|_, mirror| {
            if mirror.pieces.is_empty() && !mirror.opened {
                // SAFETY: no piece is mapped there any more.
                let _ = unsafe { context.driver.cuMemAddressFree(mirror.start, mirror.len as usize) };
            }
            !mirror.pieces.is_empty()
        });
    }
}

impl Mirror {
    /// Unmaps the piece at an offset, or marks it for the last copy that uses it. Returns `true` if it is gone.
    fn drop_idle(&mut self, context: &Context, offset: u64) -> bool {
        let Some(piece) = self.pieces.get_mut(&offset) else { return true };
        if piece.uses > 0 {
            piece.stale = true;
            return false;
        }
        let driver = context.driver;
        if self.opened {
            let Ok(_current) = context.enter() else { return true };
            // SAFETY: no copy uses the allocation. The call fails only when the context is gone, and the mapping with it.
            let _ = unsafe { driver.cuIpcCloseMemHandle(self.start) };
        } else {
            // SAFETY: no copy uses the piece. The call fails only when the context is gone, and the mapping with it.
            let _ = unsafe { driver.cuMemUnmap(self.start + offset, piece.len as usize) };
        }
        self.pieces.remove(&offset);
        true
    }

    fn drop_all(&mut self, context: &Context) {
        let offsets: Vec<_> = self.pieces.keys().copied().collect();
        for offset in offsets {
            self.drop_idle(context, offset);
        }
    }
}
