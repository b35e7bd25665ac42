//! The epoch of the agent's coordinator: an agent does not obey a coordinator that another one has replaced.

use std::sync::atomic::{AtomicU64, Ordering};

/// The highest epoch of a coordinator that has accepted this agent; 0 if none had a state file.
#[derive(Debug, Default)]
pub(crate) struct CoordinatorEpoch(AtomicU64);

impl CoordinatorEpoch {
    /// Returns the epoch.
    pub(super) fn known(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Records a coordinator's epoch. A coordinator without a state file has epoch 0.
    ///
    /// # Errors
    /// Returns the reason if the epoch is lower than an earlier one, so that the coordinator is not obeyed.
    pub(super) fn take_over(&self, epoch: u64) -> Result<(), String> {
        let known = self.0.fetch_max(epoch, Ordering::Relaxed);
        if epoch > 0 && epoch < known {
            return Err(format!(
                "it was started before the coordinator that this agent obeys (epoch {epoch}, not {known}); stop it"
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_coordinator_of_a_lower_epoch_is_not_obeyed() {
        let epoch = CoordinatorEpoch::default();
        assert_eq!([5, 5, 7, 0].map(|next| epoch.take_over(next).is_ok()), [true; 4]);
        assert!(epoch.take_over(6).unwrap_err().contains("(epoch 6, not 7)"));
        assert_eq!(epoch.known(), 7);
    }
}
