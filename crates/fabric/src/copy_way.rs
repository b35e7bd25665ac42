//! Chooses the way of a copy between two devices: the possible way that takes least time, see docs/design/devices.md.
//!
//! The choice is a function without state or clock and allocates nothing, because it runs for each copy.

use accord_types::{Cost, NodeFigures, PathTimes, Source};
use std::fmt;

/// A way for a copy's bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum CopyWay {
    /// One process drives both devices, and copies between them.
    Peer = 0,
    /// The source's process maps the target's memory, and the source device writes there.
    Mapped = 1,
    /// MPI copies from device memory to device memory.
    DeviceMpi = 2,
    /// The bytes leave the source device, cross a lane, and enter the target device.
    Lane = 3,
}

/// The number of ways.
pub const WAYS: usize = 4;
/// All ways. Of two ways that take the same time, [`CopyWays::choose`] takes the earlier one.
pub const ALL: [CopyWay; WAYS] = [CopyWay::Peer, CopyWay::Mapped, CopyWay::DeviceMpi, CopyWay::Lane];

/// Most bytes that GPUs of two nodes copy through the host and a lane, which takes no longer than MPI for them
/// (docs/design/mpi.md).
const BY_HOST_MAX: u64 = 4 << 10;
/// Most bytes that are not offered to MPI without a posted receive, because the extra round trip takes longer than a
/// copy through the host.
const NOT_OFFERED_MAX: u64 = 64 << 10;
const _: () = assert!(BY_HOST_MAX <= NOT_OFFERED_MAX);

impl CopyWay {
    /// Whether copies of so many bytes may take this way.
    pub const fn takes(self, bytes: u64) -> bool {
        !matches!(self, Self::DeviceMpi) || bytes > BY_HOST_MAX
    }

    /// Whether copies of so many bytes may take this way if the target has posted no receive for them.
    pub(crate) const fn takes_offered(self, bytes: u64) -> bool {
        !matches!(self, Self::DeviceMpi) || bytes > NOT_OFFERED_MAX
    }

    /// Returns the way's name in programs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Peer => "peer",
            Self::Mapped => "mapped",
            Self::DeviceMpi => "device-mpi",
            Self::Lane => "lane",
        }
    }

    /// Returns the cost without measurements. For all lengths the order is: peer copies, mapped memory, MPI, lanes.
    pub const fn usual(self) -> Cost {
        match self {
            Self::Peer => Cost::default_of(10_000, 15_000, 50_000_000_000),
            Self::Mapped => Cost::default_of(60_000, 70_000, 40_000_000_000),
            Self::DeviceMpi => Cost::default_of(80_000, 90_000, 20_000_000_000),
            Self::Lane => Cost::default_of(150_000, 250_000, 2_000_000_000),
        }
    }
}

impl fmt::Display for CopyWay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Peer => "copy within one process",
            Self::Mapped => "memory of the other process, mapped (IPC)",
            Self::DeviceMpi => "MPI from device memory",
            Self::Lane => "lane",
        })
    }
}

/// Returns measured times as a cost.
pub fn measured(times: PathTimes) -> Cost {
    Cost { times, source: Source::Measured }
}

/// Returns the cost of writing into mapped memory of another process. It is that of a copy within one process, and a
/// short message each for the target's readiness and the completion.
pub fn into_mapped(pair: Option<Cost>, path: Option<Cost>) -> Option<Cost> {
    let (pair, path) = (pair?, path?);
    Some(Cost { source: pair.source.max(path.source), ..pair }.after(2 * path.times.small_ns))
}

/// Returns the cost of a copy over a lane: a short message once the target is ready, then out of one device, over the
/// lane, and into the other.
pub fn over_lane(out: Option<Cost>, path: Option<Cost>, into: Option<Cost>) -> Option<Cost> {
    let path = path?;
    Some(out?.then(path).then(into?).after(path.times.small_ns))
}

/// The possible ways of a copy, with their costs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CopyWays([Option<Cost>; WAYS]);

impl CopyWays {
    /// Returns the possible ways with their costs without measurements.
    pub fn usual(possible: impl IntoIterator<Item = CopyWay>) -> Self {
        possible.into_iter().fold(Self::default(), |ways, way| ways.with(way, way.usual()))
    }

    /// Adds a way at this cost.
    #[must_use]
    pub fn with(mut self, way: CopyWay, cost: Cost) -> Self {
        self.0[way as usize] = Some(cost);
        self
    }

    /// Returns the ways between devices of two processes of one machine. Costs come from the node's measurements where there
    /// are any.
    pub fn of_one_machine(figures: &NodeFigures) -> Self {
        let middle = |of: fn(&accord_types::DeviceFigures) -> &PathTimes| {
            PathTimes::median(figures.devices.iter().map(of)).map(measured)
        };
        let lane = figures.lane_here.map(measured);
        let pair = PathTimes::median(figures.pairs.iter().map(|pair| &pair.times)).map(measured);
        let by_lane = over_lane(middle(|device| &device.from_device), lane, middle(|device| &device.to_device));
        Self::usual([CopyWay::Mapped, CopyWay::Lane])
            .with_known(CopyWay::Mapped, into_mapped(pair, lane))
            .with_known(CopyWay::Lane, by_lane)
    }

    /// Sets the cost of a way, unless `cost` is `None`.
    #[must_use]
    pub fn with_known(self, way: CopyWay, cost: Option<Cost>) -> Self {
        cost.map_or(self, |cost| self.with(way, cost))
    }

    /// Returns the cost of a way, if it is possible.
    pub fn cost(&self, way: CopyWay) -> Option<Cost> {
        self.0[way as usize]
    }

    /// Returns the way for so many bytes, or `None` if none is possible. Measured and unmeasured ways are compared by their
    /// usual order only.
    pub fn choose(&self, bytes: u64) -> Option<Choice> {
        let possible = || ALL.iter().filter_map(|&way| Some((way, self.cost(way)?)));
        let known = |cost: Cost| cost.source != Source::Default;
        let (mut way, mut cost) = possible().next()?;
        for (other, other_cost) in possible().skip(1) {
            if known(cost) && known(other_cost) && other_cost.times.ns(bytes) < cost.times.ns(bytes) {
                (way, cost) = (other, other_cost);
            }
        }
        let reason = match possible().count() {
            1 => Reason::OnlyOne,
            _ if possible().all(|(_, cost)| known(cost)) => Reason::Least,
            _ => Reason::Usual,
        };
        Some(Choice { way, ns: cost.times.ns(bytes), source: cost.source, reason })
    }
}

/// The chosen way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Choice {
    /// The way.
    pub way: CopyWay,
    /// The expected time.
    pub ns: u64,
    /// The source of that figure.
    pub source: Source,
    /// The reason of the choice.
    pub reason: Reason,
}

/// The reason for a way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reason {
    /// No other way is possible.
    OnlyOne,
    /// The way takes least time.
    Least,
    /// Not all ways were measured, and this is the first in the usual order.
    Usual,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OnlyOne => "there is no other way",
            Self::Least => "it takes least",
            Self::Usual => "not all ways were measured, and it is the usual one",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use accord_types::{DeviceFigures, DevicePair};

    const LENGTHS: [u64; 9] = [0, 1, 8, 4_096, 64 << 10, (64 << 10) + 1, 1 << 20, 1 << 30, u64::MAX];

    fn measured(small_ns: u64, medium_ns: u64, rate: u64) -> Cost {
        super::measured(PathTimes::new(small_ns, medium_ns, rate))
    }

    #[test]
    fn without_measurements_copies_go_as_they_always_did() {
        let first = |possible: &[CopyWay]| {
            let ways = CopyWays::usual(possible.iter().copied());
            let all = LENGTHS.map(|bytes| ways.choose(bytes).map(|choice| choice.way));
            assert!(all.iter().all(|way| *way == all[0]), "the same for all lengths: {all:?}");
            all[0]
        };
        // Every set of possible ways.
        for set in 0..1u32 << WAYS {
            let possible: Vec<CopyWay> = ALL.into_iter().filter(|way| set >> *way as u32 & 1 == 1).collect();
            assert_eq!(first(&possible), possible.first().copied());
        }
    }

    #[test]
    fn fastest_measured_copy_way_is_chosen() {
        let ways = CopyWays::default()
            .with(CopyWay::Mapped, measured(65_000, 66_000, 11_000_000_000))
            .with(CopyWay::Lane, measured(40_000, 70_000, 2_000_000_000));
        let way = |bytes| ways.choose(bytes).map(|choice| (choice.way, choice.reason));
        assert_eq!(way(8), Some((CopyWay::Lane, Reason::Least)));
        assert_eq!(way(1 << 20), Some((CopyWay::Mapped, Reason::Least)));
        let choice = ways.choose(8).unwrap();
        assert_eq!((choice.ns, choice.source), (40_000, Source::Measured));
    }

    #[test]
    fn unmeasured_copy_way_does_not_displace_the_usual_one() {
        let slow = measured(1_000_000, 2_000_000, 1_000);
        let ways = CopyWays::usual([CopyWay::Lane]).with(CopyWay::Mapped, slow);
        assert_eq!(ways.choose(8).unwrap().way, CopyWay::Mapped);
        let ways = CopyWays::usual([CopyWay::Mapped]).with(CopyWay::Lane, measured(1, 2, u64::MAX));
        assert_eq!(ways.choose(8).unwrap().way, CopyWay::Mapped);
        assert_eq!(ways.choose(8).unwrap().reason, Reason::Usual);
    }

    #[test]
    fn random_measurements_choose_the_fastest_possible_way() {
        let mut seed = 1u64;
        let mut random = |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) % below
        };
        for _ in 0..20_000 {
            let mut ways = CopyWays::default();
            for way in ALL {
                if random(3) > 0 {
                    ways = ways.with(way, measured(random(1 << 20), random(1 << 20), random(1 << 34)));
                }
            }
            let bytes = LENGTHS[random(9) as usize];
            let costs = ALL.iter().filter_map(|&way| ways.cost(way)).map(|cost| cost.times.ns(bytes));
            let choice = ways.choose(bytes);
            assert_eq!(choice.map(|choice| choice.ns), costs.min(), "{ways:?} {bytes}");
            assert!(choice.is_none_or(|choice| ways.cost(choice.way).is_some()));
            assert_eq!(ways.choose(bytes), choice);
        }
    }

    #[test]
    fn a_lane_takes_what_its_parts_take_and_a_word_before() {
        let part = |small, rate| Some(measured(small, 10 * small, rate));
        let whole = over_lane(part(3, 900), part(20, 500), part(4, 800)).unwrap();
        assert_eq!((whole.times, whole.source), (PathTimes::new(47, 290, 500), Source::Estimated));
        assert_eq!(over_lane(part(3, 900), None, part(4, 800)), None);
        let guess = Some(Cost { source: Source::Default, ..part(20, 500).unwrap() });
        assert_eq!(over_lane(part(3, 900), guess, part(4, 800)).unwrap().source, Source::Default);
    }

    #[test]
    fn mapped_memory_takes_a_copy_and_two_words() {
        let whole = into_mapped(Some(measured(8, 80, 900)), Some(measured(20, 200, 500))).unwrap();
        assert_eq!((whole.times, whole.source), (PathTimes::new(48, 120, 900), Source::Estimated));
    }

    #[test]
    fn a_node_that_has_measured_only_a_part_leaves_what_is_usual() {
        let times = |ns| PathTimes::new(ns, ns * 2, 1 << 30);
        let device = DeviceFigures { ordinal: 0, to_device: times(5_000), from_device: times(6_000), launch_ns: 1 };
        let slow = DevicePair { from: 0, to: 1, times: PathTimes::new(90_000, 95_000, 1 << 34) };
        let figures = NodeFigures {
            devices: vec![device],
            lane_here: Some(times(10_000)),
            pairs: vec![slow],
            ..NodeFigures::default()
        };
        let way = |figures: &NodeFigures, bytes| CopyWays::of_one_machine(figures).choose(bytes).unwrap().way;
        assert_eq!((way(&figures, 8), way(&figures, 1 << 28)), (CopyWay::Lane, CopyWay::Mapped));
        for part in [
            NodeFigures { devices: Vec::new(), ..figures.clone() },
            NodeFigures { pairs: Vec::new(), ..figures.clone() },
            NodeFigures { lane_here: None, ..figures.clone() },
            NodeFigures::default(),
        ] {
            assert_eq!((way(&part, 8), way(&part, 1 << 28)), (CopyWay::Mapped, CopyWay::Mapped), "{part:?}");
        }
    }

    #[test]
    fn the_only_way_is_taken_and_called_so() {
        let choice = CopyWays::usual([CopyWay::Lane]).choose(8).unwrap();
        assert_eq!((choice.way, choice.reason), (CopyWay::Lane, Reason::OnlyOne));
        assert_eq!(CopyWays::default().choose(8), None);
    }
}
