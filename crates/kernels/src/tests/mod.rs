//! Tests over whole sources.

mod decisions;
mod generated;
mod implicit;
mod programs;
