//! The directives, as GCC's code asks for them.
#![expect(unused_variables)]

use crate::{LocalThread, Runtime};
use accord_types::Result;

/// The three arrays of a `GOACC_*` call.
pub struct Entries<'a> {
    /// Addresses (or values, by kind). Written for `use_device` only.
    pub hosts: &'a mut [usize],
    /// Sizes, biases or counts, by kind.
    pub sizes: &'a [usize],
    /// Map kinds: kind in the low byte, log2 of the alignment in the high byte.
    pub kinds: &'a [u16],
}

/// Where a compute construct ran, or has to run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Placement {
    /// On the device: launched, and for a synchronous construct finished.
    Device,
    /// The caller runs the host version itself, between
    /// [`LocalThread::begin_host_region`] and [`LocalThread::end_host_region`].
    Host,
}

impl Runtime {
    /// A compute construct (OpenACC 3.3, 2.5). `flags` is the `dev` word of the call, `function` the
    /// address of the region's host version, `tags` the launch tags with their operands and the final 0.
    ///
    /// # Errors
    /// Those of the specification for its clauses, and those of the device.
    pub fn parallel(
        &self,
        t: &mut LocalThread,
        flags: i32,
        function: usize,
        entries: &mut Entries<'_>,
        tags: &[u32],
    ) -> Result<Placement> {
        todo!()
    }

    /// Start of a `data` or `host_data` region (2.6.5, 2.8).
    ///
    /// # Errors
    /// As [`Runtime::parallel`]. The region is on the stack only if there was none.
    pub fn data_start(&self, t: &mut LocalThread, flags: i32, entries: &mut Entries<'_>) -> Result<()> {
        todo!()
    }

    /// End of the innermost `data` region of this thread.
    ///
    /// # Errors
    /// As [`Runtime::parallel`].
    pub fn data_end(&self, t: &mut LocalThread) -> Result<()> {
        todo!()
    }

    /// `enter data` (2.6.6).
    ///
    /// # Errors
    /// As [`Runtime::parallel`].
    pub fn enter_data(
        &self,
        t: &mut LocalThread,
        flags: i32,
        entries: &mut Entries<'_>,
        async_: i32,
        waits: &[i32],
    ) -> Result<()> {
        todo!()
    }

    /// `exit data` (2.6.6).
    ///
    /// # Errors
    /// As [`Runtime::parallel`].
    pub fn exit_data(
        &self,
        t: &mut LocalThread,
        flags: i32,
        entries: &mut Entries<'_>,
        async_: i32,
        waits: &[i32],
    ) -> Result<()> {
        todo!()
    }

    /// `enter data` or `exit data`, told apart by the entries (compilers before GCC 12).
    ///
    /// # Errors
    /// As [`Runtime::parallel`].
    pub fn enter_exit_data(
        &self,
        t: &mut LocalThread,
        flags: i32,
        entries: &mut Entries<'_>,
        async_: i32,
        waits: &[i32],
    ) -> Result<()> {
        todo!()
    }

    /// `update` (2.14.4).
    ///
    /// # Errors
    /// As [`Runtime::parallel`].
    pub fn update(
        &self,
        t: &mut LocalThread,
        flags: i32,
        entries: &mut Entries<'_>,
        async_: i32,
        waits: &[i32],
    ) -> Result<()> {
        todo!()
    }

    /// `wait` (2.16.3). No `waits` means all queues.
    ///
    /// # Errors
    /// The first failure of what was waited for.
    pub fn wait(&self, t: &mut LocalThread, async_: i32, waits: &[i32]) -> Result<()> {
        todo!()
    }

    /// `declare` of local variables, at the start and at the end of their scope (2.13).
    ///
    /// # Errors
    /// As [`Runtime::parallel`].
    pub fn declare(&self, t: &mut LocalThread, flags: i32, entries: &mut Entries<'_>) -> Result<()> {
        todo!()
    }
}
