//! The scarcity of each model: the demand of tasks that need it, relative to its devices.

use crate::placement::mix::Mix;
use crate::placement::state::Models;
use std::collections::BTreeMap;

/// Number of steps that distribute demand for several models.
const STEPS: u32 = 1000;
/// Binary digits after the point of a scarcity and of a share.
pub(crate) const SCARCITY_BITS: u32 = 16;
const SHARE_BITS: u32 = 31;
/// The largest scarcity: 1.5.
const SCARCITY_MAX: u64 = 3 << (SCARCITY_BITS - 1);
/// A step moves this part of a share, times its model's load: 1/16.
const STEP_BITS: u32 = 4;

/// The scarcity of each model, in 1/65,536; 1 if tasks that need the model demand all of it.
#[derive(Clone, Debug)]
pub(crate) struct Scarcities([u64; Models::MAX]);

impl Default for Scarcities {
    fn default() -> Self {
        Self([0; Models::MAX])
    }
}

/// The demand of tasks with the same set of models: its part of all demand, and its distribution.
struct Constrained {
    demand: u64,
    shares: Vec<(usize, u64)>,
}

impl Scarcities {
    /// Computes the scarcities. `capacities` are the milli of each model's devices, including busy ones.
    ///
    /// The mix is scaled to the whole cluster. Demand for several models moves away from the loaded ones step by step.
    pub(crate) fn new(mix: &Mix, capacities: &[u64; Models::MAX]) -> Self {
        let all: u64 = capacities.iter().sum();
        let (mut total, mut by_models) = (0u128, BTreeMap::<Models, u128>::new());
        for (task, count) in mix.device_kinds() {
            let volume = u128::from(count) * u128::from(task.volume());
            total += volume;
            if !task.models.is_any() {
                *by_models.entry(task.models).or_default() += volume;
            }
        }
        let mut constrained: Vec<Constrained> = Vec::new();
        for (models, volume) in by_models {
            let allowed = |model: &usize| capacities[*model] > 0 && models.allow(*model as u8);
            let capacity: u64 = (0..Models::MAX).filter(allowed).map(|model| capacities[model]).sum();
            let share = |model| (model, ((u128::from(capacities[model]) << SHARE_BITS) / u128::from(capacity)) as u64);
            let shares: Vec<_> = (0..Models::MAX).filter(allowed).map(share).collect();
            if !shares.is_empty() {
                let demand = (volume * u128::from(all) / total) as u64;
                constrained.push(Constrained { demand, shares });
            }
        }
        let mut scarcities = Self::loads(&constrained, capacities);
        if constrained.iter().any(|of| of.shares.len() > 1) {
            for _ in 0..STEPS {
                for of in &mut constrained {
                    of.shift(&scarcities);
                }
                scarcities = Self::loads(&constrained, capacities);
            }
        }
        scarcities
    }

    /// Returns the load of each model's devices.
    fn loads(constrained: &[Constrained], capacities: &[u64; Models::MAX]) -> Self {
        let mut loads = [0u128; Models::MAX];
        for of in constrained {
            for (model, share) in &of.shares {
                loads[*model] += u128::from(of.demand) * u128::from(*share);
            }
        }
        let mut scarcities = Self::default();
        for (model, scarcity) in scarcities.0.iter_mut().enumerate() {
            if loads[model] > 0 {
                *scarcity =
                    ((loads[model] >> (SHARE_BITS - SCARCITY_BITS)) / u128::from(capacities[model].max(1))) as u64;
            }
        }
        scarcities
    }

    /// Returns the scarcity of a model, at most [`SCARCITY_MAX`].
    pub(crate) fn of(&self, model: u8) -> u64 {
        self.0.get(usize::from(model)).map_or(0, |scarcity| (*scarcity).min(SCARCITY_MAX))
    }
}

impl Constrained {
    /// Moves demand away from loaded models. The sum of all shares stays 1.
    fn shift(&mut self, loads: &Scarcities) {
        let mut sum = 0;
        for (model, share) in &mut self.shares {
            let load = loads.0[*model].min((1 << (SCARCITY_BITS + STEP_BITS)) - 1);
            *share -= ((*share >> STEP_BITS) * load) >> SCARCITY_BITS;
            sum += *share;
        }
        for (_, share) in &mut self.shares {
            *share = (*share << SHARE_BITS) / sum.max(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::placement::state::Task;

    fn scarcities(tasks: &[(u64, &[u8])], capacities: &[u64]) -> Vec<u64> {
        let mut mix = Mix::default();
        for (count, models) in tasks {
            for _ in 0..*count {
                let models = Models::only(models.iter().copied());
                mix.arrived(&Task { devices: 1, share: 1000, models, ..Task::default() });
            }
        }
        let mut all = [0; Models::MAX];
        all[..capacities.len()].copy_from_slice(capacities);
        let scarcities = Scarcities::new(&mix, &all);
        // In percent.
        (0..capacities.len()).map(|model| (scarcities.of(model as u8) * 100) >> SCARCITY_BITS).collect()
    }

    #[test]
    fn demand_without_models_makes_nothing_scarce() {
        assert_eq!(scarcities(&[(10, &[])], &[8000, 8000]), [0, 0]);
    }

    #[test]
    fn a_model_is_as_scarce_as_what_must_have_it() {
        // A quarter of all demand needs the first model, which is half of all devices.
        let of = scarcities(&[(30, &[]), (10, &[0])], &[8000, 8000]);
        assert!((49..=50).contains(&of[0]) && of[1] == 0, "{of:?}");
    }

    #[test]
    fn demand_for_several_models_goes_where_less_is_asked_for() {
        let of = scarcities(&[(10, &[]), (10, &[0]), (20, &[0, 1])], &[8000, 8000]);
        assert!(of[0].abs_diff(of[1]) <= 2 && of[0].abs_diff(75) <= 2, "{of:?}");
    }

    #[test]
    fn a_model_that_no_node_has_is_left_out() {
        assert_eq!(scarcities(&[(1, &[5])], &[8000]), [0]);
    }
}
