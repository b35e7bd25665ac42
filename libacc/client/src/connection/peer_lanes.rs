//! The numbers of an executor's lanes to the executors that it pushes to. Both ends of a copy get the number. So what
//! was begun for a lost lane ends with it at both, whatever each has heard when; later copies use the next lane.

use accord_fabric::peer::PeerId;
use std::collections::HashMap;

/// The lanes of one executor.
#[derive(Default)]
pub(super) struct PeerLanes {
    /// Lane numbers by process, for those that the program has named.
    numbers: HashMap<PeerId, u32>,
}

impl PeerLanes {
    /// Returns the identity of a push target, with the lane that is used from now on.
    pub(super) fn to(&mut self, peer: PeerId) -> PeerId {
        peer.on_lane(*self.numbers.entry(peer.process()).or_default())
    }

    /// Records that the executor reports a lost lane. Reports about unknown lanes are ignored.
    pub(super) fn lost(&mut self, peer: PeerId) {
        if let Some(number) = self.numbers.get_mut(&peer.process()).filter(|number| **number == peer.lane()) {
            // After the last number there is no further lane, and copies fail.
            *number = number.saturating_add(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use accord_types::NodeId;

    fn peer(node: u32) -> PeerId {
        PeerId::executor(NodeId(node), 0).unwrap()
    }

    /// For any reports of the executor, each lane follows the previous one, and only once that is lost.
    #[test]
    fn the_next_lane_comes_when_the_last_one_is_lost() {
        for seed in 1..500u64 {
            let mut state = seed;
            let mut random = |below: u32| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                u32::try_from((state >> 33) % u64::from(below)).unwrap()
            };
            let (mut lanes, mut model) = (PeerLanes::default(), HashMap::<u32, u32>::new());
            for _ in 0..60 {
                let (node, lane) = (random(3), random(4));
                if random(2) == 0 {
                    let expected = *model.entry(node).or_default();
                    assert_eq!(lanes.to(peer(node)), peer(node).on_lane(expected), "seed {seed}");
                } else {
                    lanes.lost(peer(node).on_lane(lane));
                    if let Some(number) = model.get_mut(&node).filter(|number| **number == lane) {
                        *number += 1;
                    }
                }
            }
        }
    }
}
