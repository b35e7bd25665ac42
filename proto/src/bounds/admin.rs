//! Bounds of the messages of administrators.

use super::{Bounded, PAGE_ITEMS_MAX, within};
use crate::convert::Malformed;
use crate::v1;
use accord_types::texts::{NAME_MAX, WORDS_MAX};

impl Bounded for v1::DrainNodeRequest {
    fn check(&self) -> Result<(), Malformed> {
        let Self { version: _, node_name, drain: _, ordinal: _, in_ms: _, end: _, reason } = self;
        within(node_name.len(), NAME_MAX, "DrainNodeRequest.node_name is too long")?;
        within(reason.len(), WORDS_MAX, "DrainNodeRequest.reason is too long")
    }
}

impl Bounded for v1::QuarantineRequest {
    fn check(&self) -> Result<(), Malformed> {
        let Self { version: _, node_name, ordinal: _, release: _, reason } = self;
        within(node_name.len(), NAME_MAX, "QuarantineRequest.node_name is too long")?;
        within(reason.len(), WORDS_MAX, "QuarantineRequest.reason is too long")
    }
}

impl Bounded for v1::QuarantineReply {
    fn check(&self) -> Result<(), Malformed> {
        let Self { jobs } = self;
        within(jobs.len(), PAGE_ITEMS_MAX, "QuarantineReply.jobs is too long")
    }
}

impl Bounded for v1::WatchDrainRequest {
    fn check(&self) -> Result<(), Malformed> {
        let Self { version: _, node_name, ordinal: _ } = self;
        within(node_name.len(), NAME_MAX, "WatchDrainRequest.node_name is too long")
    }
}

impl Bounded for v1::DrainNodeReply {
    fn check(&self) -> Result<(), Malformed> {
        let Self { sessions, jobs } = self;
        within(sessions.len(), PAGE_ITEMS_MAX, "DrainNodeReply.sessions is too long")?;
        within(jobs.len(), PAGE_ITEMS_MAX, "DrainNodeReply.jobs is too long")
    }
}
