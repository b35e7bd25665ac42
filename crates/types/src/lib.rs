//! The types that every part of Accord shares.
//!
//! Nothing here does I/O, reads a clock or touches memory, except locks and threads, which all parts take from here.
//! Identities are newtypes, so that a queue number cannot be passed for a device number.
#![forbid(unsafe_code)]

pub mod backoff;
mod check;
pub mod connection_slots;
mod count;
mod device;
mod device_fault;
mod device_use;
pub mod entropy;
mod error;
mod figures;
mod float_control;
mod function;
mod hardware;
mod ids;
pub mod incarnation;
pub mod installed;
mod job;
pub mod kernel_launch;
mod kernel_limits;
mod launch;
mod launcher;
pub mod liveness;
mod memory_claim;
mod native_range;
mod natural;
pub mod nearest;
pub mod node_labels;
pub mod os_text;
mod path_times;
mod pointer;
mod printable;
mod queue;
pub mod sandbox;
pub mod scarce;
pub mod service_account;
mod session;
mod session_key;
pub mod settings;
pub mod short_lock;
pub mod signal;
pub mod spin_policy;
pub mod status_line;
pub mod texts;
pub mod threads;
mod trace;
pub mod turn_lock;
pub mod unknown_settings;
pub mod version;

pub use check::Check;
pub use count::Count;
pub use device::{ATTRIBUTES_MAX, DeviceInfo, DeviceKind, DeviceType};
pub use device_fault::{DeviceFault, DeviceVerdict};
pub use device_use::DeviceUse;
pub use error::{Error, ErrorCode, ErrorPlace, Result};
pub use figures::{DeviceFigures, DevicePair, GpuAware, NodeFigures};
pub use float_control::FloatControl;
pub use function::{FunctionSpec, GlobalSpec, ImageId, ImageRef, ObjectSpec};
pub use hardware::{Hardware, NearDevice, NearKind, NumaNode};
pub use ids::{DeviceId, DeviceNum, NodeId, QueueId, Seq, SessionId, StreamId, TransferId};
pub use job::{HeldDevice, HeldJob, JobGrant, JobToken, NoToken, QueuedJob};
pub use kernel_limits::{KernelLimit, KernelLimits};
pub use launch::{ArgBlock, LaunchDims, ONE_THREAD};
pub use memory_claim::MemoryClaim;
pub use native_range::{NativeContext, NativeRange};
pub use natural::natural_order;
pub use path_times::{Cost, MEDIUM, PathTimes, SMALL, Source};
pub use pointer::{AddressRange, DevicePtr, HostRange, ReadWhen};
pub use printable::{printable, printable_lines};
pub use queue::{AsyncArg, streams_max};
pub use session::{Lease, LeasedDevice, OrderPolicy, Rank, SessionGrant, SessionRequest};
pub use session_key::SessionKey;
pub use trace::{Span, SpanKind, SpanSink};
