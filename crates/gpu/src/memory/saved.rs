//! A device's memory while it is in host memory.

use super::host_room;
use super::staging::Staging;
use super::{Memory, Piece, SavedPiece};
use crate::driver::DriverError;
use crate::numa::NumaAffinity;
use accord_device::KeptMemory;
use accord_types::SuspendRefusal;
use std::collections::BTreeMap;
use std::sync::Weak;
use std::time::{Duration, Instant};

/// The longest wait for device memory that others are about to free.
const MEMORY_TIMEOUT: Duration = Duration::from_secs(10);
const RETRY_INTERVAL: Duration = Duration::from_millis(50);

impl Memory {
    /// Returns the bytes that [`Memory::save`] moves.
    ///
    /// # Errors
    /// Returns the reason if the memory can't leave the device.
    pub(crate) fn saved_bytes(&self) -> Result<u64, SuspendRefusal> {
        if self.allocations.as_ref().is_some_and(|allocations| !allocations.is_empty()) {
            return Err(SuspendRefusal::DriverMemory);
        }
        self.settle();
        let state = self.lock();
        if state.exporters.iter().any(|exporter| Weak::strong_count(exporter) > 0) {
            return Err(SuspendRefusal::SharedMemory);
        }
        Ok(state.pieces.values().map(|piece| piece.len).sum())
    }

    /// Moves all memory to host memory, that of `kept` as far as it suffices. Nothing uses the memory, and the context is current.
    ///
    /// # Errors
    /// Returns the reason if that is impossible. The memory is as before then.
    pub(crate) fn save(&self, numa: &NumaAffinity, kept: &mut KeptMemory) -> Result<(), SuspendRefusal> {
        let failed = |error: DriverError| SuspendRefusal::Failed(error.code);
        let driver = self.context.driver;
        let mut state = self.lock();
        if state.pieces.is_empty() {
            return Ok(());
        }
        let needed = state.pieces.values().map(|piece| piece.len).sum();
        let pieces: Vec<(u64, usize)> =
            state.pieces.iter().map(|(start, piece)| (*start, piece.len as usize)).collect();
        let requests = pieces.iter().map(|(_, len)| (*len, kept.take(*len))).collect();
        // Dropped after the copies have ended.
        let mut rooms = BTreeMap::new();
        let mut staging = Staging::new(&self.context, numa).map_err(failed)?;
        for (at, room) in host_room::rooms(numa, requests) {
            let room = room.ok_or(SuspendRefusal::HostMemory { needed, left: 0 })?;
            let ((start, len), to) = (pieces[at], room.start());
            rooms.insert(start, room);
            staging.begin_out(start, len, to).map_err(failed)?;
        }
        if rooms.len() < pieces.len() {
            return Err(SuspendRefusal::Failed(0));
        }
        staging.finish().map_err(failed)?;
        for (start, piece) in std::mem::take(&mut state.pieces) {
            let Some(room) = rooms.remove(&start) else { continue };
            // SAFETY: nothing uses the piece. Both calls fail only when the context is gone, and the memory with it.
            unsafe {
                let _ = driver.cuMemUnmap(start, piece.len as usize);
                let _ = driver.cuMemRelease(piece.handle);
            }
            state.saved.insert(start, SavedPiece { piece, room });
        }
        Ok(())
    }

    /// Brings all memory back to its addresses. The context is current.
    ///
    /// # Errors
    /// Returns the reason if that is impossible. The memory is in host memory then.
    pub(crate) fn restore(&self, numa: &NumaAffinity) -> Result<(), SuspendRefusal> {
        let driver = self.context.driver;
        let until = Instant::now() + MEMORY_TIMEOUT;
        let mut state = self.lock();
        if state.saved.is_empty() {
            return Ok(());
        }
        let needed = state.saved.values().map(|saved| saved.piece.len).sum();
        let mut mapped: Vec<(u64, u64)> = Vec::new();
        let copied = Staging::new(&self.context, numa).and_then(|mut staging| {
            for (&start, SavedPiece { piece, room }) in &state.saved {
                let made = loop {
                    match self.make(start, piece.len, piece.exportable, &state) {
                        Err(error) if error.code == DriverError::OUT_OF_MEMORY && Instant::now() < until => {
                            std::thread::sleep(RETRY_INTERVAL);
                        }
                        made => break made,
                    }
                };
                mapped.push((start, made?));
                staging.begin_in(room.start(), piece.len as usize, start)?;
            }
            staging.finish()
        });
        if let Err(error) = copied {
            for (start, handle) in mapped {
                let len = state.saved.get(&start).map_or(0, |saved| saved.piece.len);
                // SAFETY: no copy is in progress, because `staging` was dropped.
                unsafe {
                    let _ = driver.cuMemUnmap(start, len as usize);
                    let _ = driver.cuMemRelease(handle);
                }
            }
            return Err(match error.code {
                DriverError::OUT_OF_MEMORY => SuspendRefusal::DeviceMemory { needed },
                code => SuspendRefusal::Failed(code),
            });
        }
        let mut rooms = Vec::new();
        for (start, handle) in mapped {
            if let Some(SavedPiece { piece, room }) = state.saved.remove(&start) {
                state.pieces.insert(start, Piece { handle, ..piece });
                rooms.push(room);
            }
        }
        drop(state);
        host_room::free(rooms);
        Ok(())
    }
}
