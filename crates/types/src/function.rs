//! Regions and global variables, named so that any process can find them.

use std::fmt;

/// A loaded object of the program: its executable or a shared object.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ObjectSpec {
    /// Path by which the program found the file.
    pub path: String,
    /// Identity of its contents: the ELF build id in hex, or `sha256:` and a hash of the file where there is none.
    pub build_id: String,
    /// Whether the file is the program's executable, which a worker has loaded already.
    pub executable: bool,
}

/// A region: the host version of a compute construct, which GCC always emits.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct FunctionSpec {
    /// The object that holds it.
    pub object: ObjectSpec,
    /// Offset of its code from the object's load address.
    pub offset: u64,
    /// Its symbol, where known (`main._omp_fn.0`); for messages and traces.
    pub name: String,
    /// Its version for GPUs, if the program was compiled with one.
    pub kernel: Option<ImageRef>,
}

/// A global variable with a `declare` clause: present on the device as long as its object is loaded.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct GlobalSpec {
    /// The object that holds it.
    pub object: ObjectSpec,
    /// Offset of the variable from the object's load address.
    pub offset: u64,
    /// Size in bytes.
    pub len: u64,
    /// Its twin for GPUs, if the program was compiled with one.
    pub variable: Option<ImageRef>,
}

/// Identity of an object's GPU code: a hash of its contents, the same in every process.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ImageId(pub [u8; 32]);

impl fmt::Display for ImageId {
    /// Writes the first 16 hex digits, which identify an image in messages.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0[..8].iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for ImageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ImageId({self})")
    }
}

/// A function or a variable of an image, by its place in the image's list of those.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ImageRef {
    /// The image.
    pub image: ImageId,
    /// Place in the list, from 0.
    pub index: u32,
}
