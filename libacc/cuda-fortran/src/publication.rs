//! The registration of the program's code for GPUs with OpenACC's runtime, in GCC's form: a host table of regions and variables,
//! and the PTX with the names of their twins.
//!
//! The objects of a program are linked on the device as one image, so that kernels reach other sources' procedures and variables.

use crate::acc;
use std::collections::HashSet;
use std::ffi::CStr;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A region with its kernel's name in the PTX.
pub(crate) struct PublishedKernel {
    pub(crate) region: usize,
    pub(crate) name: &'static CStr,
}

/// A variable with its name in the PTX.
pub(crate) struct PublishedVariable {
    pub(crate) host: usize,
    pub(crate) bytes: usize,
    pub(crate) name: &'static CStr,
}

/// The host table: start and end of the regions, start and end of the variables. libacc finds the table's object by its
/// address, so that it must be in the object's own memory.
static TABLE: Table = [const { AtomicUsize::new(0) }; 4];
/// The host table of the code that events need.
static CLOCK_TABLE: Table = [const { AtomicUsize::new(0) }; 4];

type Table = [AtomicUsize; 4];

/// A PTX text with its final zero byte: address and size.
#[repr(C)]
struct Text(usize, usize);

/// A variable: address and size.
#[repr(C)]
struct Variable(usize, usize);

/// A kernel: the address of its name, and the dimensions that the compiler has fixed, which kernels have not.
#[repr(C)]
struct Function(usize, usize);

/// Address and length of a list.
#[repr(C)]
struct List(usize, usize);

impl List {
    /// Describes a list that is never freed.
    fn new<T>(list: Vec<T>) -> Self {
        let list = Vec::leak(list);
        Self(list.as_ptr().addr(), list.len())
    }

    fn range<T>(list: Vec<T>) -> [usize; 2] {
        let bytes = size_of::<T>() * list.len();
        let Self(start, _) = Self::new(list);
        [start, start + bytes]
    }
}

/// Registers kernels and variables with the PTX of their sources, once for each program. What is registered is never freed.
pub(crate) fn publish(texts: &[&'static CStr], kernels: &[PublishedKernel], variables: &[PublishedVariable]) {
    if texts.is_empty() {
        return;
    }
    register(&TABLE, texts, kernels, variables);
}

/// Registers the kernel of events with its PTX, once for each program.
pub(crate) fn publish_clock(text: &'static CStr, kernel: &PublishedKernel) {
    register(&CLOCK_TABLE, &[text], std::slice::from_ref(kernel), &[]);
}

fn register(
    table: &'static Table,
    texts: &[&'static CStr],
    kernels: &[PublishedKernel],
    variables: &[PublishedVariable],
) {
    // Sources may bring the same library.
    let mut known = HashSet::new();
    let texts = texts.iter().filter(|text| known.insert(**text));
    let texts = texts.map(|text| Text(text.as_ptr().addr(), text.to_bytes_with_nul().len())).collect();
    let name = |name: &'static CStr| name.as_ptr().addr();
    let functions = List::range(kernels.iter().map(|kernel| kernel.region).collect());
    let hosts = List::range(variables.iter().map(|variable| Variable(variable.host, variable.bytes)).collect());
    for (cell, value) in table.iter().zip(functions.into_iter().chain(hosts)) {
        cell.store(value, Ordering::Relaxed);
    }
    let lists = vec![
        List::new::<Text>(texts),
        List::new(variables.iter().map(|variable| name(variable.name)).collect()),
        List::new(kernels.iter().map(|kernel| Function(name(kernel.name), 0)).collect()),
    ];
    let List(data, _) = List::new(lists);
    // SAFETY: table and lists have the layout of the first version of nvptx's images, and are never changed again.
    unsafe { acc::register_image(table.as_ptr().addr(), data) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_have_gccs_layout() {
        assert_eq!(
            (size_of::<Text>(), size_of::<Variable>(), size_of::<Function>(), size_of::<List>()),
            (16, 16, 16, 16)
        );
        let [start, end] = List::range(vec![Variable(1, 2), Variable(3, 4)]);
        assert_eq!(end - start, 32);
        // SAFETY: the list was leaked above.
        assert_eq!(unsafe { *(start as *const [usize; 4]) }, [1, 2, 3, 4]);
    }
}
