//! Measurements of a node's own paths and devices.

use crate::PathTimes;

/// Measurements of a node. `None`, or a missing device or pair, means that the measurement failed.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct NodeFigures {
    /// Times of copies from host memory to host memory.
    pub host_copy: Option<PathTimes>,
    /// Times of the devices, by ordinal.
    pub devices: Vec<DeviceFigures>,
    /// Times of copies from one device to another, within one process.
    pub pairs: Vec<DevicePair>,
    /// The reason for missing measurements; empty if none is missing.
    pub note: String,
    /// Whether the measurements are from an earlier start of an agent on the same hardware and software.
    pub kept: bool,
    /// Times of a lane between two processes of the machine.
    pub lane_here: Option<PathTimes>,
    /// The version of Accord on the node.
    pub agent_version: String,
    /// Whether the node's MPI is GPU-aware, as far as that was tested: in an MPI job, on a node with GPUs.
    pub gpu_aware: Option<GpuAware>,
}

/// Whether an MPI copies directly from and to GPU memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum GpuAware {
    /// GPU memory is copied directly.
    Yes,
    /// Bytes are staged in host memory, for this reason.
    No(String),
    /// Not tested (`--mpi-gpus off`); has the effect of [`GpuAware::No`].
    Untried,
}

/// Times of one device's copies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DeviceFigures {
    /// Ordinal of the device.
    pub ordinal: u32,
    /// Times of copies from host memory.
    pub to_device: PathTimes,
    /// Times of copies to host memory.
    pub from_device: PathTimes,
    /// Time of an empty region and the wait for it, in nanoseconds.
    pub launch_ns: u64,
}

/// Times of copies between two devices of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DevicePair {
    /// The source's ordinal.
    pub from: u32,
    /// The target's ordinal.
    pub to: u32,
    /// Times within one process.
    pub times: PathTimes,
}

impl NodeFigures {
    /// Returns the figures of the device with an ordinal.
    pub fn device(&self, ordinal: u32) -> Option<&DeviceFigures> {
        self.devices.iter().find(|device| device.ordinal == ordinal)
    }

    /// Returns the times of a copy from one device to another, and `true`. If the pair was not measured, returns the
    /// median of all pairs and `false`.
    pub fn pair(&self, from: u32, to: u32) -> Option<(PathTimes, bool)> {
        let exact = self.pairs.iter().find(|pair| (pair.from, pair.to) == (from, to));
        match exact {
            Some(pair) => Some((pair.times, true)),
            None => PathTimes::median(self.pairs.iter().map(|pair| &pair.times)).map(|times| (times, false)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pair_that_was_not_measured_is_like_the_others() {
        let times = |ns| PathTimes::new(ns, ns, 1);
        let pair = |from, to, ns| DevicePair { from, to, times: times(ns) };
        let figures =
            NodeFigures { pairs: vec![pair(0, 1, 5), pair(1, 2, 7), pair(2, 3, 6)], ..NodeFigures::default() };
        assert_eq!(figures.pair(1, 2), Some((times(7), true)));
        assert_eq!(figures.pair(2, 1), Some((times(6), false)));
        assert_eq!(NodeFigures::default().pair(0, 1), None);
    }
}
