//! Describes placements by the numbers that decided.

use crate::placement::placer::{Candidate, Shortage};
use crate::placement::potential::{POINT, Terms};
use std::fmt;

/// Binary digits of a score after the point.
const SCORE_POINT: u32 = 7;

/// A number with `point` binary digits after the point, displayed as whole milli devices.
struct Milli(i64, u32);

impl fmt::Display for Milli {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:+}", (self.0 + (1 << (self.1 - 1))) >> self.1)
    }
}

impl fmt::Display for Terms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [fragments, pool, kept] = [self.fragments, self.pool, -self.scarcity].map(|term| Milli(term, POINT));
        write!(f, "fragments {fragments}, left by a choosy scheduler {pool}, kept for its model {kept}")
    }
}

impl fmt::Display for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { placement, alike, change } = self;
        write!(f, "node {}: {} milli ({change})", placement.node, Milli(placement.score.potential, SCORE_POINT))?;
        if placement.from > 0 {
            write!(f, ", on devices with at least {} milli free", placement.from)?;
        }
        if *alike > 1 {
            write!(f, "; {} more nodes are the same", alike - 1)?;
        }
        Ok(())
    }
}

impl fmt::Display for Shortage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lacks = [
            (self.model, "have no device of an allowed model"),
            (self.devices, "have too few devices with enough free"),
            (self.cores, "have too few free host cores"),
            (self.memory, "have too little free host memory"),
        ];
        let mut first = true;
        for (nodes, lack) in lacks.into_iter().filter(|(nodes, _)| *nodes > 0) {
            write!(f, "{}{nodes} nodes {lack}", if first { "" } else { ", " })?;
            first = false;
        }
        if first { f.write_str("no node lacks anything") } else { Ok(()) }
    }
}
