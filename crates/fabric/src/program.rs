//! The program whose regions a session runs.

/// A program, with all that an executor needs to start its executable again. `os_text` encodes paths, `argv[0]` and the
/// environment.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ProgramSpec {
    /// Path of the executable.
    pub exe: String,
    /// Identity of the executable's contents: the ELF build id in hex, or `sha256:` and a hash of the file.
    pub build_id: String,
    /// `argv[0]`.
    pub argv0: String,
    /// Working directory.
    pub cwd: String,
    /// The environment that workers get, `NAME=value` each.
    pub env: Vec<String>,
    /// Whether CPU devices present themselves as NVIDIA devices (`ACCORD_EMULATE=nvidia`).
    pub emulate_gpu: bool,
    /// Whether every launch and copy is reported (`ACCORD_TRACE`).
    pub trace: bool,
}
