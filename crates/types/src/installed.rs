//! Paths of the parts of an installation, or of a build, relative to its programs.

use std::path::{Path, PathBuf};

/// Returns the possible paths of `libacc.so` for a program in `folder`: in a build the same folder, in an installation
/// its `lib`.
pub fn libacc_places(folder: &Path) -> [PathBuf; 3] {
    ["libacc.so", "../lib/libacc.so", "../lib/accord/libacc.so"].map(|place| folder.join(place))
}
