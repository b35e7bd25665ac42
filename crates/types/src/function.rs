//! Regions and global variables, named so that any process can find them.

/// A loaded object of the program: its executable or a shared object.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ObjectSpec {
    /// Where the program found the file.
    pub path: String,
    /// Identity of its contents: the ELF build id in hex, or `size-mtime` where there is none.
    pub build_id: String,
    /// It is the program's executable, which a worker has loaded already.
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
}
