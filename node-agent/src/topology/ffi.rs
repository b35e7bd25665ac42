//! The calls of libhwloc (2.0 and later) that find NUMA nodes, PCI devices and their names in the operating system.
//! Only this file and [`super::library`] have `unsafe` code.

use super::library::{
    hwloc_bitmap_next, hwloc_get_nbobjs_by_depth, hwloc_get_obj_by_depth, hwloc_topology_destroy, hwloc_topology_init,
    hwloc_topology_load, hwloc_topology_set_io_types_filter,
};
use accord_types::{Hardware, NearDevice, NearKind, NumaNode};
use std::ffi::{CStr, c_char, c_int, c_uint, c_ushort, c_void};
use std::ptr::{self, NonNull};

/// Returns NUMA nodes, GPUs and network interfaces; `None` if hwloc fails.
pub(super) fn numa_and_devices() -> Option<Hardware> {
    let tree = Tree::load()?;
    let numa = tree.objects(DEPTH_NUMA).map(|node| NumaNode {
        index: node.number(),
        cpus: node.cpus(),
        memory: node.local_memory(),
    });
    let mut hardware = Hardware { numa: numa.collect(), ..Hardware::default() };
    hardware.numa.sort_by_key(|node| node.index);
    for device in tree.objects(DEPTH_PCI) {
        let Some((class, pci)) = device.pci() else { continue };
        let kind = match class >> 8 {
            CLASS_DISPLAY => NearKind::Gpu,
            CLASS_NETWORK => NearKind::Network,
            _ => continue,
        };
        let names: Vec<String> = tree.names_below(device);
        hardware.devices.push(NearDevice { kind, name: names.join(","), pci, numa: device.numa() });
    }
    Some(hardware)
}

/// Levels that are not part of the tree of cores.
const DEPTH_NUMA: c_int = -3;
const DEPTH_PCI: c_int = -5;
const DEPTH_OS: c_int = -6;
/// Keep GPUs, network interfaces and the like, but not every bridge.
const FILTER_IMPORTANT: c_int = 3;
/// Upper byte of PCI class numbers.
const CLASS_NETWORK: c_ushort = 0x02;
const CLASS_DISPLAY: c_ushort = 0x03;

/// A loaded topology.
struct Tree(NonNull<c_void>);

impl Tree {
    fn load() -> Option<Self> {
        let mut raw = ptr::null_mut();
        // SAFETY: hwloc writes a new topology to `raw`, or fails.
        if unsafe { hwloc_topology_init(&raw mut raw) } != 0 {
            return None;
        }
        let tree = Self(NonNull::new(raw)?);
        // SAFETY: the topology is initialised and not loaded yet, as both calls want it.
        let loaded = unsafe {
            hwloc_topology_set_io_types_filter(tree.0.as_ptr(), FILTER_IMPORTANT) == 0
                && hwloc_topology_load(tree.0.as_ptr()) == 0
        };
        loaded.then_some(tree)
    }

    fn objects(&self, depth: c_int) -> impl Iterator<Item = &Object> {
        // SAFETY: the topology is loaded; unknown depths have no objects.
        let count = unsafe { hwloc_get_nbobjs_by_depth(self.0.as_ptr(), depth) };
        let count = c_uint::try_from(count).unwrap_or(0);
        (0..count).filter_map(move |index| {
            // SAFETY: as above. Objects live, unchanged, as long as their topology.
            unsafe { hwloc_get_obj_by_depth(self.0.as_ptr(), depth, index).cast::<Object>().as_ref() }
        })
    }

    /// Returns the operating system's names for a PCI device.
    fn names_below(&self, device: &Object) -> Vec<String> {
        let below = self.objects(DEPTH_OS).filter(|object| ptr::eq(object.parent, device));
        below.filter_map(Object::name).collect()
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        // SAFETY: the topology is initialised, and nothing that it holds outlives this.
        unsafe { hwloc_topology_destroy(self.0.as_ptr()) };
    }
}

/// The beginning of `struct hwloc_obj` (the same in all of hwloc 2).
#[repr(C)]
struct Object {
    kind: c_int,
    subtype: *const c_char,
    os_index: c_uint,
    name: *const c_char,
    total_memory: u64,
    attributes: *const c_void,
    depth: c_int,
    logical_index: c_uint,
    next_cousin: *const Self,
    previous_cousin: *const Self,
    parent: *const Self,
    sibling_rank: c_uint,
    next_sibling: *const Self,
    previous_sibling: *const Self,
    arity: c_uint,
    children: *const c_void,
    first_child: *const Self,
    last_child: *const Self,
    symmetric_subtree: c_int,
    memory_arity: c_uint,
    memory_first_child: *const Self,
    io_arity: c_uint,
    io_first_child: *const Self,
    misc_arity: c_uint,
    misc_first_child: *const Self,
    cpuset: *const c_void,
    complete_cpuset: *const c_void,
    nodeset: *const c_void,
}

/// The beginning of `struct hwloc_pcidev_attr_s`.
#[repr(C)]
struct PciAttributes {
    domain: c_ushort,
    bus: u8,
    device: u8,
    function: u8,
    class: c_ushort,
}

impl Object {
    fn number(&self) -> u32 {
        self.os_index
    }

    fn name(&self) -> Option<String> {
        let name = NonNull::new(self.name.cast_mut())?;
        // SAFETY: hwloc's names end with a zero and live as long as the object.
        Some(unsafe { CStr::from_ptr(name.as_ptr()) }.to_string_lossy().into_owned())
    }

    fn cpus(&self) -> Vec<u32> {
        members(self.cpuset)
    }

    /// Returns the bytes of a NUMA node.
    fn local_memory(&self) -> u64 {
        if self.depth != DEPTH_NUMA || self.attributes.is_null() {
            return 0;
        }
        // SAFETY: the attributes of a NUMA node begin with its local memory.
        unsafe { self.attributes.cast::<u64>().read() }
    }

    /// Returns class and address of a PCI device.
    fn pci(&self) -> Option<(c_ushort, String)> {
        if self.depth != DEPTH_PCI || self.attributes.is_null() {
            return None;
        }
        // SAFETY: the attributes of a PCI device begin like this.
        let pci = unsafe { &*self.attributes.cast::<PciAttributes>() };
        let PciAttributes { domain, bus, device, function, class } = *pci;
        Some((class, format!("{domain:04x}:{bus:02x}:{device:02x}.{function:x}")))
    }

    /// Returns the NUMA node that an I/O device is attached to, if it is exactly one.
    fn numa(&self) -> Option<u32> {
        let mut object = self;
        // I/O objects have no sets; their first ancestor with a set is their location.
        while object.nodeset.is_null() {
            // SAFETY: parents live as long as their topology; the root has none.
            object = unsafe { object.parent.as_ref() }?;
        }
        match members(object.nodeset)[..] {
            [node] => Some(node),
            _ => None,
        }
    }
}

/// Returns the members of a finite bitmap.
fn members(bitmap: *const c_void) -> Vec<u32> {
    /// More than any machine's processors: an infinite bitmap has no last member.
    const MEMBERS_MAX: usize = 1 << 16;
    if bitmap.is_null() {
        return Vec::new();
    }
    let next = |previous: c_int| {
        // SAFETY: the bitmap belongs to a loaded topology; -1 asks for the first member.
        let next = unsafe { hwloc_bitmap_next(bitmap, previous) };
        (next >= 0).then_some(next)
    };
    std::iter::successors(next(-1), |previous| next(*previous))
        .take(MEMBERS_MAX)
        .filter_map(|member| u32::try_from(member).ok())
        .collect()
}
