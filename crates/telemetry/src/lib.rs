//! What happened when: spans collected by a program, traces as files, timelines as pictures.
//!
//! A program's [`Collector`] takes the spans of all its devices, whose clocks are aligned
//! before they get here. At the program's end it becomes a [`Trace`], written in Chrome's trace
//! format (for `chrome://tracing` or Perfetto). The traces of a job's ranks are merged by
//! putting them side by side, and [`timeline`] draws any number of them as one SVG.
#![forbid(unsafe_code)]

mod chrome;
mod collector;
pub mod log;
pub mod timeline;
pub mod times;
mod trace;

pub use chrome::{read, write};
pub use collector::{Collector, SPANS_MAX};
pub use trace::{Trace, TraceDevice, trace_path};
