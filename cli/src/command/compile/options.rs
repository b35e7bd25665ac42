//! Options of the wrappers themselves, among the compiler's.

use crate::failure::{Failure, Result};
use std::ffi::OsString;

/// The treatment of `kernels` constructs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Kernels {
    /// GCC's own treatment.
    Gcc,
    /// GCC's `--param openacc-kernels=decompose`.
    Decompose,
    /// Parallel regions where independence is promised or proven.
    #[default]
    Parallel,
    /// The same decisions, as host loops in another order.
    Check,
}

impl Kernels {
    /// Parses the value of `--kernels=NAME`.
    pub(super) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "gcc" => Self::Gcc,
            "decompose" => Self::Decompose,
            "parallel" => Self::Parallel,
            "check" => Self::Check,
            _ => return None,
        })
    }
}

/// Options of the wrappers themselves.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct WrapperOptions {
    pub(super) show: bool,
    pub(super) modules: bool,
    pub(super) quiet: bool,
    pub(super) kernels: Kernels,
    /// Whether to print all decisions on `kernels` loops.
    pub(super) info: bool,
    pub(super) no_implicit_reductions: bool,
    /// Whether pointers are promised not to overlap.
    pub(super) no_alias: bool,
}

impl WrapperOptions {
    /// Removes the wrappers' options from the arguments.
    pub(super) fn take(arguments: &mut Vec<OsString>) -> Result<Self> {
        let mut own = Self::default();
        let mut unknown = None;
        arguments.retain(|argument| {
            match argument.to_str() {
                Some("--accord-show") => own.show = true,
                Some("--accord-modules") => own.modules = true,
                Some("--accord-no-lint") => own.quiet = true,
                Some("-Minfo" | "-Minfo=accel" | "-Minfo=all") => own.info = true,
                Some("--no-implicit-reductions") => own.no_implicit_reductions = true,
                Some("--assume-no-alias") => own.no_alias = true,
                Some(option) if option.starts_with("--kernels=") => match Kernels::named(&option["--kernels=".len()..])
                {
                    Some(kernels) => own.kernels = kernels,
                    None => unknown = Some(option.to_owned()),
                },
                Some(other) if other.starts_with("--accord-") => unknown = Some(other.to_owned()),
                _ => return true,
            }
            false
        });
        match unknown {
            Some(option) => Err(Failure::new(format!("there is no option {option}; see accord help cc"))),
            None => Ok(own),
        }
    }
}
