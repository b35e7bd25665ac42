//! Where the parts of an installation, or of a build, are: seen from its programs.

use std::path::{Path, PathBuf};

/// Returns the possible paths of `libacc.so`, by the folder of a program: beside it in a build, in `lib` of the same
/// installation else.
pub fn libacc_places(folder: &Path) -> [PathBuf; 3] {
    ["libacc.so", "../lib/libacc.so", "../lib/accord/libacc.so"].map(|place| folder.join(place))
}
