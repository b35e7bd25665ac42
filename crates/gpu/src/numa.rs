//! Runs threads near a device: on the processors of its NUMA node, as far as this process may use them.

use std::mem::size_of;

/// The processors near a device. `None` if unknown; no thread is bound then.
#[derive(Clone, Default)]
pub(crate) struct NumaAffinity(Option<libc::cpu_set_t>);

impl NumaAffinity {
    /// The processors of a NUMA node that this thread may use.
    pub(crate) fn node(node: Option<u32>) -> Self {
        let list = |node| std::fs::read_to_string(format!("/sys/devices/system/node/node{node}/cpulist")).ok();
        let cpus = node.and_then(list).map(|text| parse(&text)).unwrap_or_default();
        let Some(allowed) = affinity() else { return Self(None) };
        // SAFETY: a set of no processors is all zeros.
        let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
        let mut count = 0;
        for cpu in cpus.into_iter().filter(|cpu| *cpu < libc::CPU_SETSIZE as usize) {
            // SAFETY: the number is inside of the sets.
            unsafe {
                if libc::CPU_ISSET(cpu, &allowed) {
                    libc::CPU_SET(cpu, &mut set);
                    count += 1;
                }
            }
        }
        // A set of all allowed processors is no restriction.
        // SAFETY: no preconditions.
        Self((count > 0 && count < unsafe { libc::CPU_COUNT(&allowed) }).then_some(set))
    }

    /// Returns the number of processors, if known.
    pub(crate) fn count(&self) -> Option<usize> {
        // SAFETY: no preconditions.
        self.0.as_ref().and_then(|set| usize::try_from(unsafe { libc::CPU_COUNT(set) }).ok())
    }

    /// Binds this thread permanently; it is one of Accord's own.
    pub(crate) fn bind(&self) {
        if let Some(set) = &self.0 {
            set_affinity(set);
        }
    }

    /// Runs `act` near the device, then restores the thread's processors. Memory first touched by `act` is near it too.
    pub(crate) fn visit<T>(&self, act: impl FnOnce() -> T) -> T {
        struct RestoreAffinity(libc::cpu_set_t);
        impl Drop for RestoreAffinity {
            fn drop(&mut self) {
                set_affinity(&self.0);
            }
        }
        let _back = self.0.as_ref().and_then(|set| {
            let before = affinity()?;
            set_affinity(set);
            Some(RestoreAffinity(before))
        });
        act()
    }
}

/// Returns the processors on which this thread may run.
fn affinity() -> Option<libc::cpu_set_t> {
    // SAFETY: a set of no processors is all zeros, and valid for writing.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        (libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut set) == 0).then_some(set)
    }
}

fn set_affinity(set: &libc::cpu_set_t) {
    // SAFETY: the call affects only this thread. If it is forbidden the thread stays unbound.
    unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), set) };
}

/// The numbers in the kernel's form of a list: `0-3,8,10-11`.
fn parse(text: &str) -> Vec<usize> {
    let number = |text: &str| text.trim().parse::<usize>().ok();
    let range = |part: &str| match part.split_once('-') {
        Some((first, last)) => Some(number(first)?..=number(last)?),
        None => number(part).map(|one| one..=one),
    };
    text.split(',').filter_map(range).flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed() -> Vec<usize> {
        let set = affinity().expect("the kernel says");
        // SAFETY: the numbers are inside of the set.
        (0..libc::CPU_SETSIZE as usize).filter(|cpu| unsafe { libc::CPU_ISSET(*cpu, &set) }).collect()
    }

    #[test]
    fn the_kernels_lists_are_read() {
        assert_eq!(parse("0-3,8,10-11\n"), [0, 1, 2, 3, 8, 10, 11]);
        assert_eq!(parse("\n"), []);
        assert_eq!(parse("x,3-y,5"), [5]);
    }

    #[test]
    fn an_unknown_node_binds_nothing() {
        let before = allowed();
        for node in [None, Some(4000)] {
            let near = NumaAffinity::node(node);
            assert_eq!(near.count(), None);
            near.visit(|| assert_eq!(allowed(), before));
            near.bind();
            assert_eq!(allowed(), before);
        }
    }

    #[test]
    fn a_thread_comes_back_from_a_visit() {
        let before = allowed();
        if before.len() < 2 {
            println!("skipped: there is one processor");
            return;
        }
        // SAFETY: an empty set is all zeros, and the number is within the set's size.
        let near = unsafe {
            let mut set: libc::cpu_set_t = std::mem::zeroed();
            libc::CPU_SET(before[1], &mut set);
            NumaAffinity(Some(set))
        };
        assert_eq!(near.count(), Some(1));
        near.visit(|| assert_eq!(allowed(), [before[1]]));
        assert_eq!(allowed(), before);
        let bound = std::thread::spawn(move || {
            near.bind();
            allowed()
        });
        assert_eq!(bound.join().expect("it ends"), [before[1]]);
    }
}
