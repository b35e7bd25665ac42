//! Tests over whole sources.

mod decisions;
mod fortran;
mod generated;
mod implicit;
mod programs;
mod support;
