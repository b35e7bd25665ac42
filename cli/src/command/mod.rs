//! One file per command.

pub(crate) mod run;
pub(crate) mod trace;
