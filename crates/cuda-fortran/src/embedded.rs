//! What a program's object contains for GPUs.

/// The code of a source for GPUs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum GpuCode {
    /// PTX texts, which the device links together.
    Ptx(Vec<String>),
    /// None, for this reason, which a launch on a GPU reports.
    None(String),
}
