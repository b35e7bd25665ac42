//! Spans collected by a program, traces as files, and timelines as pictures.
//!
//! A program's [`Collector`] takes the spans of all its devices, whose clocks are aligned before. At the program's end
//! it becomes a [`Trace`], written in Chrome's trace format (for `chrome://tracing` or Perfetto). [`timeline`] draws
//! the traces of any number of ranks as one SVG.
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
