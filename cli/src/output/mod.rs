//! Forms of output: tables for people, JSON for programs.

mod size;
mod table;

pub(crate) use size::{age, bytes};
pub(crate) use table::Table;
