//! The connection of a program to an executor, without I/O, clock or threads: [`Machine`]. docs/design/processes.md
//! describes its decisions. `remote` has the lanes and threads around it; the simulation in `crates/sim` has others.

mod completion_actions;
mod credit;
mod earlier_copies;
mod effects;
mod flush_policy;
mod lane_queue;
mod machine;
mod peer_lanes;
mod queries_ahead;
mod queues;
mod transfers;
mod waits;
mod watch;

pub use crate::host_copy::{Changed, Unchanged};
pub use completion_actions::{Completion, Piece, StorableCopy, StoreDecision, pieces};
pub use credit::Need;
pub use effects::{CopyLine, Effect, Effects};
pub use flush_policy::{Flush, FlusherStep};
pub use machine::{AppendDecision, CopyIn, CopyInPlan, CopyOut, Machine, PositionQueries, Positions, Requested};
pub use queues::{DeviceState, MayStall};
pub use transfers::{ASKED_LANES, Bytes, EAGER_LANES, Job, TRANSFERS_MAX};
pub use waits::{AwaitedEvent, Reply, WaitId, WaitStep};
pub use watch::{POLL_INTERVAL, WatchStep};
