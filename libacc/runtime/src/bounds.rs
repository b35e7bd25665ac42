//! `ACCORD_CHECK=bounds`: whether regions have written beside the blocks of device memory. Bytes beside each block hold a pattern, which is compared
//! after each region, and before data is copied or freed.

use crate::issue::Issue;
use crate::memory::{Damage, GuardedBlock, pattern};
use crate::plan::{Plan, STORE_MAX, Step};
use crate::ports::HostMemory;
use accord_types::{Count, DevicePtr, Error, ErrorCode, HostRange, QueueId, Result};
use std::collections::BTreeMap;

/// Most blocks whose surrounding bytes are read at once. Each has fewer than two pages of them.
const BLOCKS_AT_ONCE: usize = 256;

/// The remedy of an access outside of data.
pub(crate) const REMEDY: &str =
    "check the region's indices and the bounds of its loops against the lengths in its data clauses";

impl Issue<'_> {
    /// Writes the pattern around the plan's new blocks, and waits for that.
    ///
    /// # Errors
    /// Returns the errors of the device.
    pub(crate) fn lay_patterns(&self, plan: &Plan) -> Result<()> {
        if plan.patterns.is_empty() {
            return Ok(());
        }
        let blocks: Vec<GuardedBlock> = {
            let state = self.device.lock();
            plan.patterns.iter().filter_map(|start| state.memory.guarded(*start)).collect()
        };
        self.fill(&blocks).map_err(|error| self.device.place(error))?;
        let mut state = self.device.lock();
        blocks.iter().for_each(|block| state.memory.has_pattern(block));
        Ok(())
    }

    fn fill(&self, blocks: &[GuardedBlock]) -> Result<()> {
        let client = self.device.client();
        for (from, len) in blocks.iter().flat_map(GuardedBlock::pads) {
            let bytes: Vec<u8> = (from.0..from.0 + len).map(pattern).collect();
            for (piece, at) in bytes.chunks(STORE_MAX).zip((0..).step_by(STORE_MAX)) {
                client.store(QueueId::SYNC, from.offset(at), piece)?;
            }
        }
        client.wait(&[QueueId::SYNC])
    }

    /// Checks the pattern around all blocks of the device. `region` is the function of the region that has just ended, if one has.
    ///
    /// # Errors
    /// Returns `acc_error_execution` for the first block beside which something was written, and the errors of the device.
    pub(crate) fn check_bounds(&self, region: Option<usize>) -> Result<()> {
        let mut first = DevicePtr(0);
        loop {
            let blocks = self.device.lock().memory.with_pattern(first, BLOCKS_AT_ONCE);
            let Some(last) = blocks.last() else { return Ok(()) };
            first = last.start.offset(1);
            self.check_blocks(&blocks, region)?;
        }
    }

    /// Checks the pattern around the blocks that the plan copies or frees.
    ///
    /// # Errors
    /// Returns the errors of [`Issue::check_bounds`].
    pub(crate) fn check_bounds_before(&self, plan: &Plan) -> Result<()> {
        if !self.device.rules.checks_bounds {
            return Ok(());
        }
        let copied = plan.before.iter().flat_map(Step::addresses);
        let blocks: BTreeMap<u64, GuardedBlock> = {
            let state = self.device.lock();
            let all = copied.chain(plan.releases.blocks.iter().copied());
            let blocks = all.filter_map(|address| state.memory.pattern_around(address));
            blocks.map(|block| (block.serial, block)).collect()
        };
        let blocks: Vec<GuardedBlock> = blocks.into_values().collect();
        blocks.chunks(BLOCKS_AT_ONCE).try_for_each(|blocks| self.check_blocks(blocks, None))
    }

    fn check_blocks(&self, blocks: &[GuardedBlock], region: Option<usize>) -> Result<()> {
        let found = self.damage(blocks).map_err(|error| self.device.place(error))?;
        found.map_or(Ok(()), |(block, damage)| {
            Err(self.device.place(written_outside(self.host, region, &block, damage)))
        })
    }

    /// Returns the first of the blocks beside which something was written.
    fn damage(&self, blocks: &[GuardedBlock]) -> Result<Option<(GuardedBlock, Damage)>> {
        let pads = || blocks.iter().flat_map(GuardedBlock::pads);
        let total: usize = pads().map(|(_, len)| len as usize).sum();
        let buffer = self.host.allocate(total.max(1));
        if buffer == 0 {
            let cause = format!("the program has no {} for the check of bounds", Count(total, "byte"));
            return Err(Error::new(ErrorCode::OutOfMemory, cause).remedy("unset ACCORD_CHECK"));
        }
        let client = self.device.client();
        let mut at = buffer;
        for (src, len) in pads().filter(|(_, len)| *len > 0) {
            let len = len as usize;
            client.copy_out(QueueId::SYNC, src, HostRange { start: at, len })?;
            at += len;
        }
        // After an error copies may still be running, so that the buffer is not freed.
        client.wait(&[QueueId::SYNC])?;
        let mut bytes = vec![0; total];
        self.host.read(buffer, &mut bytes);
        self.host.free(buffer);
        let mut rest = &bytes[..];
        for block in blocks {
            let [ahead, behind] = block.pads().map(|(_, len)| {
                let (pad, after) = rest.split_at(len as usize);
                rest = after;
                pad
            });
            // Another thread may have freed the block, and its pages may be another one's.
            let is_same = || self.device.lock().memory.guarded(block.start) == Some(*block);
            if let Some(damage) = block.damage(ahead, behind)
                && is_same()
            {
                return Ok(Some((*block, damage)));
            }
        }
        Ok(None)
    }
}

/// Returns the notice that guard pages are missing.
pub(crate) fn no_guards() -> Error {
    let cause = "ACCORD_CHECK=bounds: there are no addresses left for guard pages, or too many blocks: of what is mapped from now on, only writes within its \
                 own pages are noticed";
    Error::new(ErrorCode::OutOfMemory, cause)
        .remedy("raise ACCORD_CPU_MEMORY, by which a device has addresses, or use smaller data")
}

/// Returns the error for bytes that were written beside a block.
fn written_outside(host: &dyn HostMemory, region: Option<usize>, block: &GuardedBlock, damage: Damage) -> Error {
    let name = region.and_then(|function| host.function(function).ok()).map(|function| function.name);
    let writer = name.map_or_else(
        || "since the last region ended, the program or a region of another thread".to_owned(),
        |name| format!("region {name}"),
    );
    let range = block.range();
    let array = host.describe(range).unwrap_or_else(|| format!("{:#x}", range.start));
    let (bytes, distance, side) = match damage {
        Damage::Behind { bytes, distance } => (bytes, distance, "behind the end of"),
        Damage::Ahead { bytes, distance } => (bytes, distance, "ahead of"),
    };
    let cause = format!(
        "{writer} has written outside of data: {} beside {array}, from {distance} bytes {side} its {} on",
        Count(bytes, "byte"),
        Count(block.bytes as usize, "byte"),
    );
    Error::new(ErrorCode::Execution, cause).remedy(REMEDY)
}
