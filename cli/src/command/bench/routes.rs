//! The routes of the measured ways.

use crate::cluster::{Cluster, DeviceRow};
use crate::viewpoint;
use accord_types::DeviceType;

/// Names of the ways' routes.
pub(super) struct Routes<'a> {
    pub(super) cluster: &'a Cluster,
    own: String,
    kind: Option<DeviceType>,
}

impl<'a> Routes<'a> {
    /// Creates the routes of a program that uses devices of this type.
    pub(super) fn new(cluster: &'a Cluster, kind: Option<DeviceType>) -> Self {
        Self { cluster, own: viewpoint::node_name(), kind }
    }

    pub(super) fn device(&self, number: u32) -> Option<&DeviceRow> {
        self.cluster.device(self.kind?, number)
    }

    pub(super) fn to(&self, device: u32) -> String {
        self.device(device).map_or_else(unknown, |device| self.cluster.way_to(&self.own, device).name())
    }

    pub(super) fn between(&self, from: u32, to: u32) -> String {
        let ends = self.device(from).zip(self.device(to));
        ends.map_or_else(unknown, |(from, to)| self.cluster.way_between(&self.own, from, to).name())
    }
}

fn unknown() -> String {
    "unknown".to_owned()
}
