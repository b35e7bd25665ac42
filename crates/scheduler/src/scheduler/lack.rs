//! What the nodes lack for a job that can never start on them.

use crate::demand::{Layout, PartDemand};
use crate::request::Locality;
use crate::units::{milli_text, size_text};
use std::fmt;

/// Granularity of sizes in texts, in bytes.
const MIB: u64 = 1 << 20;

/// The lack of the nodes that a job may use, for its first choice and without any other job.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Lack {
    /// Too few fitting devices work.
    Devices {
        /// The model.
        model: String,
        /// The number that the job needs.
        needed: u64,
        /// The number that there is.
        there: u64,
    },
    /// No node with such devices has enough memory. The memory of CPU devices is their node's.
    HostMemory {
        /// The model.
        model: String,
        /// The least bytes of one node's memory that the job needs.
        needed: u64,
        /// The most bytes that such a node has.
        most: u64,
    },
    /// No node with such devices has enough cores.
    Cores {
        /// The model.
        model: String,
        /// The least thousandths of one node's cores that the job needs.
        needed: u64,
        /// The most that such a node has.
        most: u64,
    },
    /// There is enough of each, but not in one place or not on enough nodes.
    Together,
}

/// Returns how many devices of a part one node must have at least.
pub(super) fn together(layout: Layout, part: &PartDemand) -> u32 {
    match layout {
        Layout::Nodes(nodes) => part.count.least / nodes.max(1),
        Layout::Chunks(_) | Layout::Any(Locality::Local) => part.count.least,
        Layout::Any(_) => 1,
    }
}

impl fmt::Display for Lack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = |model: &str| if model.is_empty() { "such devices".to_owned() } else { model.to_owned() };
        match self {
            Self::Devices { model, needed, there } => {
                write!(f, "it needs {needed} of {}, and {there} of those that it may use work", named(model))
            }
            Self::HostMemory { model, needed, most } => {
                let (needed, most) = (size_text(needed.next_multiple_of(MIB)), size_text(most / MIB * MIB));
                write!(
                    f,
                    "it takes {needed} of the memory of one node, and no node with {} has more than ",
                    named(model)
                )?;
                write!(f, "{most}")
            }
            Self::Cores { model, needed, most } => {
                let (needed, most) = (milli_text(*needed), milli_text(*most));
                write!(f, "it takes {needed} cores of one node, and no node with {} has more than {most}", named(model))
            }
            Self::Together => f.write_str("no node has what it needs in one place, or too few nodes have"),
        }
    }
}
