//! Tests the devices that the coordinator names, one after the other.

use super::device_tests::{Testing, UNREPORTED_MAX, WAITING_MAX};
use super::effect::{AgentReport, Effect};
use super::state::Node;
use accord_types::DeviceVerdict;

impl Node {
    /// Queues a device's test for the coordinator. A running test for another order does not answer this one.
    pub fn test_soon(&mut self, ordinal: u32, number: u64) {
        let Testing { under_way, waiting, .. } = &mut self.testing;
        if *under_way == Some((ordinal, number)) {
            return;
        }
        if let Some(order) = waiting.iter_mut().find(|(waits, _)| *waits == ordinal) {
            order.1 = number;
        } else if waiting.len() < WAITING_MAX {
            waiting.push_back((ordinal, number));
        }
    }

    /// Records the verdict of a test.
    pub fn tested(&mut self, ordinal: u32, number: u64, verdict: DeviceVerdict) {
        let Testing { under_way, verdicts, .. } = &mut self.testing;
        let order = (ordinal, number);
        if *under_way == Some(order) {
            *under_way = None;
            verdicts.retain(|((known, _), _)| *known != ordinal);
            if verdicts.len() >= UNREPORTED_MAX {
                verdicts.pop_front();
            }
            verdicts.push_back((order, verdict));
        }
    }

    /// Adds the next test, and the verdicts for the coordinator.
    pub(super) fn attend_testing(&mut self, effects: &mut Vec<Effect>) {
        let is_in = self.is_in();
        let Testing { under_way, waiting, verdicts } = &mut self.testing;
        if under_way.is_none()
            && let Some(next) = waiting.pop_front()
        {
            *under_way = Some(next);
            effects.push(Effect::Test(next.0, next.1));
        }
        if is_in {
            let words =
                verdicts.drain(..).map(|((ordinal, number), verdict)| AgentReport::Tested(ordinal, number, verdict));
            effects.extend(words.map(Effect::Send));
        }
    }

    /// Checks the tests, see [`Node::check_invariants`].
    pub(super) fn check_testing(&self) -> Result<(), String> {
        let counts = (self.testing.waiting.len(), self.testing.verdicts.len());
        let is_bounded = counts.0 <= WAITING_MAX && counts.1 <= UNREPORTED_MAX;
        is_bounded.then_some(()).ok_or_else(|| format!("tests that wait, and verdicts to be told: {counts:?}"))
    }
}
