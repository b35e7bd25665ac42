//! Suspends a GPU's work of this process: callers wait, and the memory goes to host memory.
//!
//! The context stays, with modules, streams and slots, and with the addresses of the memory.

use super::shared::Shared;
use accord_device::KeptMemory;
use accord_types::SuspendRefusal;
use accord_types::short_lock::assert_none_held;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// The interval at which the streams are asked whether their work has ended.
const POLL_INTERVAL: Duration = Duration::from_micros(200);

impl Shared {
    /// Holds all work back that callers put in from now on.
    ///
    /// # Errors
    /// Returns `HandedOut` if other code of the process may put work in.
    pub(crate) fn hold_work(&self) -> Result<(), SuspendRefusal> {
        self.held_work.hold();
        if self.handed_out.load(Ordering::SeqCst) || self.company.is_some_and(|has_company| has_company()) {
            return Err(SuspendRefusal::HandedOut);
        }
        // Callers that have not seen the change hold a lock.
        self.all_streams().iter().for_each(|stream| stream.pass());
        Ok(())
    }

    /// Waits for the end of the work that was put in before. Copies of the process's other GPUs may still use the memory.
    ///
    /// # Errors
    /// Returns `Busy` if it does not end in time.
    pub(crate) fn settle(&self, until: Instant) -> Result<(), SuspendRefusal> {
        assert_none_held();
        if self.failure.check().is_err() {
            return Ok(());
        }
        let _current = self.context.enter().map_err(|error| SuspendRefusal::Failed(error.code))?;
        for stream in self.all_streams() {
            stream.flush_held_back();
            while !stream.is_idle() {
                if Instant::now() >= until {
                    return Err(SuspendRefusal::Busy);
                }
                std::thread::sleep(POLL_INTERVAL);
            }
        }
        Ok(())
    }

    /// Ends all uses of the memory. No stream of the process has work, which might wait for a use. Returns the bytes of the memory.
    ///
    /// # Errors
    /// Returns `Busy` if a use does not end in time, and the reason if the memory can't leave the device.
    pub(crate) fn end_memory_uses(&self, until: Instant) -> Result<u64, SuspendRefusal> {
        if self.failure.check().is_err() {
            return Ok(0);
        }
        let _current = self.context.enter().map_err(|error| SuspendRefusal::Failed(error.code))?;
        if !self.memory_uses.suspend(until) {
            return Err(SuspendRefusal::Busy);
        }
        if !self.imports.is_empty() {
            return Err(SuspendRefusal::SharedMemory);
        }
        self.memory.saved_bytes()
    }

    /// Moves the memory to host memory, that of `kept` as far as it suffices.
    ///
    /// # Errors
    /// Returns the reason if that is impossible. The memory is as before then.
    pub(crate) fn save_memory(&self, kept: &mut KeptMemory) -> Result<(), SuspendRefusal> {
        if self.failure.check().is_err() {
            return Ok(());
        }
        let _current = self.context.enter().map_err(|error| SuspendRefusal::Failed(error.code))?;
        self.memory.save(&self.numa, kept)
    }

    /// Brings the memory back to its addresses.
    ///
    /// # Errors
    /// Returns the reason if that is impossible. The memory is in host memory then.
    pub(crate) fn restore_memory(&self) -> Result<(), SuspendRefusal> {
        if self.failure.check().is_err() {
            return Ok(());
        }
        let _current = self.context.enter().map_err(|error| SuspendRefusal::Failed(error.code))?;
        self.memory.restore(&self.numa)
    }

    /// Lets callers put work in again.
    pub(crate) fn let_work(&self) {
        self.memory_uses.resume();
        self.held_work.release();
    }

    /// Blocks while work is held back. The device may fail meanwhile, which the caller finds.
    pub(crate) fn await_work(&self) {
        assert_none_held();
        while self.held_work.is_held() && self.failure.check().is_ok() {
            self.held_work.wait();
        }
    }
}
