//! How threads take slots: the steps of `crates/gpu/src/staging/slot_pool.rs`.

use super::machine::{Machine, World};
use super::scheduler::step;
use super::slots::{Pool, SMALL};
use accord_device::stream::SlotStep;
use accord_types::Result;

impl Machine {
    /// Takes a slot, if one is available now.
    pub(super) fn try_take(&mut self, pool: Pool) -> Result<Option<usize>> {
        let mut queries = 0;
        let slot = loop {
            match self.pools.of(pool).step(queries) {
                SlotStep::Take(slot) => break slot,
                SlotStep::Query(_) if self.gpu.lost => return Err(self.driver_failed()),
                SlotStep::Query(slot) if self.gpu.has_happened(slot) => match self.pools.of(pool).reuse(queries) {
                    Some(slot) => break slot,
                    None => return Ok(None),
                },
                SlotStep::Query(_) => queries += 1,
                SlotStep::Make(count) => {
                    let first = if pool == Pool::Small { 0 } else { SMALL };
                    let slots = self.pools.of(pool).rules();
                    let made = first + slots.made();
                    slots.add(made..made + count);
                }
                SlotStep::Wait => return Ok(None),
            }
        };
        self.verify_free(slot);
        Ok(Some(slot))
    }

    fn verify_free(&mut self, slot: usize) {
        if self.pools.hold(slot) {
            self.violate(format!("slot {slot} has two holders"));
        }
        if !self.gpu.lost && self.gpu.has_access(None, |action| action.slot() == Some(slot)) {
            self.violate(format!("slot {slot} is taken while the device uses it"));
        }
    }
}

/// Takes a slot, and waits for one.
pub(super) async fn take(world: &World) -> Result<usize> {
    loop {
        if let Some(slot) = world.lock().try_take(Pool::Large)? {
            return Ok(slot);
        }
        let oldest = world.lock().pools.of(Pool::Large).rules().oldest();
        step().await;
        let Some(slot) = oldest else { continue };
        let waited = await_slot(world, slot).await;
        world.lock().pools.of(Pool::Large).rules().give_back(slot);
        waited?;
    }
}

/// Waits until the device has passed a slot's event.
pub(super) async fn await_slot(world: &World, slot: usize) -> Result<()> {
    loop {
        let mut machine = world.lock();
        if machine.gpu.lost {
            return Err(machine.driver_failed());
        }
        if machine.gpu.has_happened(slot) {
            return Ok(());
        }
        drop(machine);
        step().await;
    }
}
