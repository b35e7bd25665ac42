//! A device's memory while it is in host memory.

use super::host_room;
use super::{Memory, Piece, SavedPiece};
use crate::driver::{Driver, DriverError};
use crate::numa::NumaAffinity;
use accord_types::SuspendRefusal;
use cudarc::driver::sys::{CUstream, CUstream_flags};
use std::collections::BTreeMap;
use std::ptr::null_mut;
use std::sync::Weak;
use std::time::{Duration, Instant};

/// The longest wait for device memory that others are about to free.
const MEMORY_TIMEOUT: Duration = Duration::from_secs(10);
const RETRY_INTERVAL: Duration = Duration::from_millis(50);

/// A stream for the copies. The context is current as long as it lives.
struct CopyStream {
    driver: &'static Driver,
    raw: CUstream,
}

impl CopyStream {
    fn new(driver: &'static Driver) -> Result<Self, DriverError> {
        let mut raw = null_mut();
        // SAFETY: `raw` is valid for writing.
        unsafe { driver.cuStreamCreate(&raw mut raw, CUstream_flags::CU_STREAM_NON_BLOCKING as u32) }?;
        Ok(Self { driver, raw })
    }

    fn wait(&self) -> Result<(), DriverError> {
        // SAFETY: the stream lives as long as `self`.
        unsafe { self.driver.cuStreamSynchronize(self.raw) }
    }
}

impl Drop for CopyStream {
    fn drop(&mut self) {
        let _ = self.wait();
        // SAFETY: the stream has no users any more.
        let _ = unsafe { self.driver.cuStreamDestroy_v2(self.raw) };
    }
}

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

    /// Moves all memory to host memory. Nothing uses it, and the context is current.
    ///
    /// # Errors
    /// Returns the reason if that is impossible. The memory is as before then.
    pub(crate) fn save(&self, numa: &NumaAffinity) -> Result<(), SuspendRefusal> {
        let failed = |error: DriverError| SuspendRefusal::Failed(error.code);
        let driver = self.context.driver;
        let mut state = self.lock();
        let needed = state.pieces.values().map(|piece| piece.len).sum();
        let mut rooms = BTreeMap::new();
        let stream = CopyStream::new(driver).map_err(failed)?;
        let pieces: Vec<(u64, u64)> = state.pieces.iter().map(|(start, piece)| (*start, piece.len)).collect();
        for (at, room) in host_room::rooms(&self.context, numa, pieces.iter().map(|(_, len)| *len).collect()) {
            // Copies that have begun end before their rooms are freed, because the stream is dropped first.
            let room = room.map_err(|error| match error.code {
                DriverError::OUT_OF_MEMORY => SuspendRefusal::HostMemory { needed, left: 0 },
                code => SuspendRefusal::Failed(code),
            })?;
            let (start, len) = pieces[at];
            // SAFETY: both ranges have this length, and stay until the stream is empty.
            let copied = unsafe { driver.cuMemcpyDtoHAsync_v2(room.start(), start, len as usize, stream.raw) };
            rooms.insert(start, room);
            copied.map_err(failed)?;
        }
        if rooms.len() < pieces.len() {
            return Err(SuspendRefusal::Failed(0));
        }
        stream.wait().map_err(failed)?;
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
    pub(crate) fn restore(&self) -> Result<(), SuspendRefusal> {
        let driver = self.context.driver;
        let until = Instant::now() + MEMORY_TIMEOUT;
        let mut state = self.lock();
        let needed = state.saved.values().map(|saved| saved.piece.len).sum();
        let mut mapped: Vec<(u64, u64)> = Vec::new();
        let copied = CopyStream::new(driver).and_then(|stream| {
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
                // SAFETY: both ranges have this length, and stay until the stream is empty.
                unsafe { driver.cuMemcpyHtoDAsync_v2(start, room.start(), piece.len as usize, stream.raw) }?;
            }
            stream.wait()
        });
        if let Err(error) = copied {
            for (start, handle) in mapped {
                let len = state.saved.get(&start).map_or(0, |saved| saved.piece.len);
                // SAFETY: the stream was empty when it was dropped.
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
