//! Records which addresses belong to which device of the session. No two devices share any, on whatever machine, so an address in device
//! memory identifies its device.
//!
//! Decides only: a starting device is requested to place its memory here, and reports where it has it.

use accord_types::short_lock::{ShortGuard, ShortLock};
use accord_types::{AddressRange, DevicePtr, Error, ErrorCode, Rank, Result};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Ranges begin at multiples of this, so that people can tell them apart; at multiples of less in a small window.
const STEP_MAX: u64 = 1 << 36;
/// A window has at least so many places where a range may begin.
const PLACES: u64 = 512;
/// A device gets no more than this part of the addresses that are left, unless its memory needs more.
const SHARE: u64 = 64;

/// The device addresses of a session.
pub(crate) struct AddressSpace {
    state: ShortLock<Places>,
    /// The window that contains all ranges.
    window: AddressRange,
    /// Ranges begin at multiples of this.
    step: u64,
    /// Where the search for a place begins.
    first: u64,
    /// Determines where a search begins after a refusal.
    seed: u64,
    /// Whether a driver has placed some device's memory outside the window.
    unmapped_pointers: AtomicBool,
    /// All slabs so far lie between these two.
    slabs_from: AtomicU64,
    slabs_to: AtomicU64,
}

#[derive(Default)]
struct Places {
    devices: Vec<Option<Owned>>,
    /// Places that a device has refused since it last started.
    refused: Vec<(usize, AddressRange)>,
    /// Allocations of drivers that chose their addresses, by their start, with their device.
    slabs: BTreeMap<u64, (u64, usize)>,
}

struct Owned {
    range: AddressRange,
    /// The device's name in messages; empty until it has started.
    name: String,
    /// Whether it was shut down since; other devices' memory may be placed here.
    ended: bool,
}

impl AddressSpace {
    /// Creates the space of a session of so many devices. Ranks of a job begin to search at different places: their
    /// executors may be in one process, whose driver gives an address to one of them only. After a refusal, the next
    /// search begins at a place that `seed` determines. Programs of other jobs in that process search too, and should
    /// have other seeds.
    pub(crate) fn new(devices: usize, rank: Option<Rank>, seed: u64, window: AddressRange) -> Self {
        let (rank, ranks) = rank.map_or((0, 1), |rank| (u64::from(rank.rank), u64::from(rank.size).max(1)));
        let step = (window.len / PLACES).next_power_of_two().clamp(AddressRange::PAGE, STEP_MAX);
        let first = window.start.0 + window.len / step * (rank % ranks) / ranks * step;
        let space = Self {
            state: ShortLock::default(),
            window,
            step,
            first,
            seed,
            unmapped_pointers: AtomicBool::new(false),
            slabs_from: AtomicU64::new(u64::MAX),
            slabs_to: AtomicU64::new(0),
        };
        space.lock().devices.resize_with(devices, || None);
        space
    }

    /// Returns the place for the memory of a starting device: the previous one, if it may be requested.
    /// The device prefers `wanted` addresses and needs `memory`.
    ///
    /// # Errors
    /// Returns `acc_error_device_init` if there are no addresses left.
    pub(crate) fn place(&self, device: usize, wanted: u64, memory: u64) -> Result<AddressRange> {
        let mut state = self.lock();
        // What a driver has placed outside the window can't be requested.
        state.devices[device].take_if(|owned| !owned.range.is_proper() || !self.window.contains(owned.range));
        if let Some(owned) = &mut state.devices[device] {
            owned.ended = false;
            return Ok(owned.range);
        }
        let mut taken: Vec<AddressRange> = state.devices.iter().flatten().map(|owned| owned.range).collect();
        let left = self.window.len.saturating_sub(taken.iter().map(|range| range.len).sum());
        let devices = taken.len();
        let refused = state.refused.iter().filter(|(other, _)| *other == device).map(|(_, range)| *range);
        let first = self.search_from(device, refused.clone().count());
        taken.extend(refused);
        taken.sort_by_key(|range| range.start);
        let pages = |bytes: u64| bytes.max(1).checked_next_multiple_of(AddressRange::PAGE);
        let least = pages(memory);
        let most = pages(wanted.min(memory.max(left / SHARE)));
        let found = [most, least]
            .into_iter()
            .flatten()
            .find_map(|len| self.gap(&taken, first, len).or_else(|| self.gap(&taken, self.window.start.0, len)));
        let Some(range) = found else {
            let cause = format!(
                "no {memory} addresses are left for its memory: {} devices of this program have {} of {}",
                devices,
                self.window.len - left,
                self.window.len
            );
            let error = Error::new(ErrorCode::DeviceInit, cause);
            return Err(error.remedy("use fewer devices in one process, and more processes"));
        };
        state.devices[device] = Some(Owned { range, name: String::new(), ended: false });
        Ok(range)
    }

    fn search_from(&self, device: usize, refusals: usize) -> u64 {
        if refusals == 0 {
            return self.first;
        }
        let mut hasher = DefaultHasher::new();
        (self.seed, device, refusals).hash(&mut hasher);
        self.window.start.0 + hasher.finish() % (self.window.len / self.step) * self.step
    }

    /// Returns the first gap of `len` addresses from `from` on between those taken, which are sorted.
    fn gap(&self, taken: &[AddressRange], from: u64, len: u64) -> Option<AddressRange> {
        let mut start = from;
        for range in taken.iter().filter(|range| range.end() > from) {
            if start.checked_add(len)? <= range.start.0 {
                break;
            }
            start = start.max(range.end().checked_next_multiple_of(self.step)?);
        }
        let found = AddressRange { start: DevicePtr(start), len };
        (found.is_proper() && self.window.contains(found)).then_some(found)
    }

    /// Records that a device has started, with its memory in `range`, which may differ from what was requested.
    ///
    /// # Errors
    /// Returns `acc_error_device_init` if another device has some of these addresses. Then [`AddressSpace::place`]
    /// gives it another place.
    pub(crate) fn settle(&self, device: usize, range: AddressRange, name: String) -> Result<()> {
        let mut state = self.lock();
        let in_the_way = |owned: &Owned| owned.range.overlaps(range);
        let others = state
            .devices
            .iter()
            .enumerate()
            .filter(|(index, _)| *index != device)
            .filter_map(|(_, owned)| owned.as_ref());
        if let Some(other) = others.filter(|other| !other.ended).find(|other| in_the_way(other)) {
            let cause = format!(
                "its memory came to lie at {} to {:#x}, where that of {} is",
                range.start,
                range.end(),
                if other.name.is_empty() { "another device" } else { &other.name }
            );
            if let Some(asked) = state.devices[device].take() {
                state.refused.push((device, asked.range));
            }
            return Err(Error::new(ErrorCode::DeviceInit, cause).remedy("start the program again"));
        }
        if !self.window.contains(range) {
            self.unmapped_pointers.store(true, Ordering::Relaxed);
        }
        // The device that was there before gets another place when it starts.
        state.devices.iter_mut().for_each(|owned| drop(owned.take_if(|owned| owned.ended && in_the_way(owned))));
        state.refused.retain(|(other, _)| *other != device);
        state.devices[device] = Some(Owned { range, name, ended: false });
        Ok(())
    }

    /// Records that a device without a range of its own has started: its driver reports the place of each allocation.
    pub(crate) fn settle_without(&self, device: usize, name: String) {
        let range = AddressRange { start: DevicePtr(0), len: 0 };
        self.lock().devices[device] = Some(Owned { range, name, ended: false });
    }

    /// Records memory that a driver has given to a device.
    ///
    /// # Errors
    /// Returns `acc_error_out_of_memory` if another device has some of these addresses.
    pub(crate) fn add_slab(&self, device: usize, slab: AddressRange) -> Result<()> {
        let mut state = self.lock();
        let others = state.devices.iter().flatten();
        let other = others.into_iter().find(|other| other.range.overlaps(slab)).map(|other| other.name.clone());
        let before = state.slabs.range(..slab.end()).next_back();
        let before = before.filter(|(start, (len, _))| *start + len > slab.start.0).map(|(_, (_, device))| *device);
        let other = other.or_else(|| before.and_then(|other| Some(state.devices[other].as_ref()?.name.clone())));
        if let Some(other) = other {
            let cause = format!("memory came to lie at {} to {:#x}, where that of {other} is", slab.start, slab.end());
            return Err(Error::new(ErrorCode::OutOfMemory, cause));
        }
        state.slabs.insert(slab.start.0, (slab.len, device));
        self.slabs_from.fetch_min(slab.start.0, Ordering::Relaxed);
        self.slabs_to.fetch_max(slab.end(), Ordering::Relaxed);
        Ok(())
    }

    /// Removes a slab that returns to its driver. Returns whether there was one.
    pub(crate) fn remove_slab(&self, start: DevicePtr) -> bool {
        self.may_be_slab(start.0) && self.lock().slabs.remove(&start.0).is_some()
    }

    /// Records that a device has ended, and its slabs with it. Its range remains reserved until another device's memory is placed there.
    pub(crate) fn ended(&self, device: usize) {
        let mut state = self.lock();
        state.slabs.retain(|_, (_, owner)| *owner != device);
        state.devices[device].iter_mut().for_each(|owned| owned.ended = true);
    }

    #[inline]
    fn may_be_slab(&self, address: u64) -> bool {
        self.slabs_from.load(Ordering::Relaxed) <= address && address < self.slabs_to.load(Ordering::Relaxed)
    }

    /// Returns the device (its place in [`crate::ports::Cluster::clients`]) that has an address, or had it last before it was shut down. None if
    /// it is in no device's range.
    #[inline]
    pub(crate) fn owner(&self, address: u64) -> Option<usize> {
        if !self.window.holds(address) && !self.may_be_slab(address) && !self.unmapped_pointers.load(Ordering::Relaxed)
        {
            return None;
        }
        self.lock().owner(address)
    }

    /// Writes the name of the device that an address belongs to. Gives up instead of blocking: for signal handlers.
    pub(crate) fn name_owner(&self, address: u64, out: &mut dyn Write) -> bool {
        let Some(state) = self.state.try_lock() else { return false };
        let owner = state.owner(address).and_then(|device| state.devices[device].as_ref());
        owner.is_some_and(|owner| out.write_str(&owner.name).is_ok())
    }

    /// The error for an address of device `owner` where another's, or the program's, is meant.
    pub(crate) fn elsewhere(&self, address: usize, owner: usize, remedy: &str) -> Error {
        let name = self.lock().devices[owner].as_ref().map(|owned| owned.name.clone()).unwrap_or_default();
        Error::new(ErrorCode::InvalidArgument, format!("{address:#x} is memory of {name}")).remedy(remedy)
    }

    fn lock(&self) -> ShortGuard<'_, Places> {
        self.state.lock()
    }
}

impl Places {
    fn owner(&self, address: u64) -> Option<usize> {
        let slab = self.slabs.range(..=address).next_back().filter(|(start, (len, _))| address - **start < *len);
        if let Some((_, (_, device))) = slab {
            return Some(*device);
        }
        let has = |owned: &Option<Owned>| {
            owned.as_ref().is_some_and(|owned| owned.range.holds(address) && !owned.name.is_empty())
        };
        self.devices.iter().position(has)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const GIB: u64 = 1 << 30;

    #[test]
    fn a_device_that_starts_again_is_where_it_was() {
        let space = AddressSpace::new(2, None, 0, AddressRange::WINDOW);
        let first = space.place(0, 8 * GIB, 4 * GIB).expect("room");
        let second = space.place(1, 8 * GIB, 4 * GIB).expect("room");
        assert_eq!((first.len, second.len), (8 * GIB, 8 * GIB));
        assert!(!first.overlaps(second));
        assert_eq!(space.place(0, 8 * GIB, 4 * GIB).expect("its own"), first);
        assert_eq!(space.owner(first.start.0), None, "it has not started");
        space.settle(0, first, "dev0".to_owned()).expect("as asked");
        assert_eq!(space.owner(first.end() - 1), Some(0));
        assert_eq!(space.owner(first.end()), None);
    }

    #[test]
    fn a_driver_that_takes_other_addresses_is_believed_unless_they_are_anothers() {
        let space = AddressSpace::new(3, None, 0, AddressRange::WINDOW);
        for device in 0..3 {
            space.place(device, GIB, GIB).expect("room");
        }
        let low = AddressRange { start: DevicePtr(0x4_2000_0000), len: 4 * GIB };
        space.settle(0, low, "dev0 (node h1)".to_owned()).expect("it is free");
        assert_eq!(space.owner(low.start.0 + 5), Some(0));
        assert!(space.elsewhere(5, 0, "").to_string().contains("dev0 (node h1)"));
        let mut name = String::new();
        assert!(space.name_owner(low.start.0 + 5, &mut name) && !space.name_owner(5, &mut name));
        assert_eq!(name, "dev0 (node h1)");
        let error = space.settle(1, low, "dev1 (node h2)".to_owned()).expect_err("the same");
        assert!(error.to_string().contains("dev0 (node h1)"), "{error}");
        let inside = space.place(2, GIB, GIB).expect("its own");
        assert!(space.settle(1, inside, "dev1".to_owned()).is_err(), "the third one's, which has not started");
        // When it starts again, a place that may be requested is requested.
        let again = space.place(0, GIB, GIB).expect("room");
        assert!(again.is_proper() && !again.overlaps(inside));
        space.settle(0, low, "dev0".to_owned()).expect("and its driver puts it there again");
    }

    #[test]
    fn slabs_of_a_driver_belong_to_their_device_as_long_as_they_are_there() {
        let space = AddressSpace::new(3, None, 0, AddressRange::WINDOW);
        let window = space.place(2, GIB, GIB).expect("room");
        space.settle(2, window, "dev2".to_owned()).expect("as asked");
        space.settle_without(0, "dev0".to_owned());
        space.settle_without(1, "dev1".to_owned());
        let slab = |start, len| AddressRange { start: DevicePtr(start), len };
        let (first, second) = (slab(0x7f00_0000_0000, GIB), slab(0x7f00_0000_0000 + GIB, GIB));
        space.add_slab(0, first).expect("it is free");
        space.add_slab(1, second).expect("it is free");
        let owners = [first.start.0 - 1, first.start.0, second.start.0 - 1, second.start.0, second.end()];
        assert_eq!(owners.map(|address| space.owner(address)), [None, Some(0), Some(0), Some(1), None]);
        let error = space.add_slab(0, slab(second.end() - 1, GIB)).expect_err("the second one's");
        assert!(error.to_string().contains("dev1"), "{error}");
        assert!(space.add_slab(0, slab(first.start.0 - 1, 3 * GIB)).is_err(), "around both");
        let error = space.add_slab(0, slab(window.start.0 + 5, 1)).expect_err("the third one's range");
        assert!(error.to_string().contains("dev2"), "{error}");
        assert!(space.remove_slab(first.start) && !space.remove_slab(first.start));
        assert_eq!(space.owner(first.start.0), None);
        space.add_slab(1, first).expect("free again");
        space.ended(1);
        assert_eq!((space.owner(first.start.0), space.owner(second.start.0)), (None, None));
        assert_eq!(space.owner(window.start.0), Some(2));
    }

    #[test]
    fn a_device_that_has_ended_blocks_no_other() {
        let space = AddressSpace::new(2, None, 0, AddressRange::WINDOW);
        let place = space.place(1, GIB, GIB).expect("room");
        space.settle(1, place, "dev1".to_owned()).expect("as asked");
        space.place(0, GIB, GIB).expect("room");
        assert!(space.settle(0, place, "dev0".to_owned()).is_err(), "it is there");
        space.ended(1);
        assert_eq!(space.owner(place.start.0), Some(1), "it was there last");
        space.place(0, GIB, GIB).expect("room");
        space.settle(0, place, "dev0".to_owned()).expect("it has ended");
        assert_eq!(space.owner(place.start.0), Some(0));
        let other = space.place(1, GIB, GIB).expect("room");
        assert!(!other.overlaps(place));
        space.settle(1, other, "dev1".to_owned()).expect("as asked");
        // A device that starts again has its place already.
        space.ended(0);
        assert_eq!(space.place(0, GIB, GIB).expect("its own"), place);
        assert!(space.settle(1, place, "dev1".to_owned()).is_err());
    }

    #[test]
    fn after_a_refusal_programs_search_at_different_places() {
        let asked = |seed| {
            let space = AddressSpace::new(2, None, seed, AddressRange::WINDOW);
            let first = space.place(0, 564 * GIB, 141 * GIB).expect("room");
            let other = space.place(1, GIB, GIB).expect("room");
            assert!(space.settle(0, other, "dev0".to_owned()).is_err());
            (first, space.place(0, 564 * GIB, 141 * GIB).expect("room"))
        };
        let places: Vec<_> = (0..10).map(asked).collect();
        let overlap = |one: usize, two: usize| places[one].1.overlaps(places[two].1);
        let meetings =
            (0..10).flat_map(|one| (0..one).map(move |two| (one, two))).filter(|&(one, two)| overlap(one, two));
        assert!(meetings.count() <= 3, "of 45 pairs: {places:?}");
        assert!(places.iter().all(|(first, then)| *first == places[0].0 && !first.overlaps(*then)));
    }

    #[test]
    fn a_place_that_was_refused_is_not_given_again() {
        let space = AddressSpace::new(2, None, 0, AddressRange::WINDOW);
        let other = space.place(1, GIB, GIB).expect("room");
        let mut seen = Vec::new();
        for _ in 0..5 {
            let place = space.place(0, GIB, GIB).expect("room");
            assert!(!place.overlaps(other) && !seen.contains(&place));
            seen.push(place);
            assert!(space.settle(0, other, "dev0".to_owned()).is_err());
        }
        let place = space.place(0, GIB, GIB).expect("room");
        space.settle(0, place, "dev0".to_owned()).expect("as asked");
    }

    #[test]
    fn ranks_begin_at_different_places() {
        let ranks = 96;
        let first = |rank| {
            let rank = Rank { rank, size: ranks, local_rank: rank, local_size: ranks, job: 0 };
            AddressSpace::new(1, Some(rank), 0, AddressRange::WINDOW).place(0, 564 * GIB, 141 * GIB).expect("room")
        };
        let places: Vec<_> = (0..ranks).map(first).collect();
        assert!(places.windows(2).all(|two| !two[0].overlaps(two[1])));
    }

    #[test]
    fn large_sessions_share_the_addresses() {
        let memory = 141 * GIB;
        let space = AddressSpace::new(1000, None, 0, AddressRange::WINDOW);
        let places: Vec<_> = (0..1000).map_while(|device| space.place(device, 4 * memory, memory).ok()).collect();
        assert!(places.len() >= 150, "{} devices with {memory} bytes", places.len());
        let error = space.place(places.len(), 4 * memory, memory).expect_err("all are taken");
        assert_eq!(error.code(), ErrorCode::DeviceInit);
    }

    #[test]
    fn a_small_window_has_places_for_many_devices() {
        let window = AddressRange::LOW_WINDOW;
        let space = AddressSpace::new(100, None, 0, window);
        let mut seen: Vec<AddressRange> = Vec::new();
        for device in 0..100 {
            let range = space.place(device, 2 * GIB, GIB).expect("room");
            assert!(window.contains(range) && range.is_proper());
            assert!(seen.iter().all(|other| !other.overlaps(range)));
            seen.push(range);
        }
        space.settle(7, seen[7], "dev7".to_owned()).expect("as asked");
        assert_eq!(space.owner(seen[7].start.0), Some(7));
        assert_eq!(space.owner(AddressRange::WINDOW.start.0), None);
    }

    proptest! {
        #[test]
        fn no_two_ranges_meet_and_all_are_proper(devices in prop::collection::vec((1u64..9, 0u64..1 << 44, any::<bool>()), 1..80), rank in any::<u32>(), size in 0u32..100) {
            let space = AddressSpace::new(devices.len(), (size > 0).then_some(Rank { rank: rank % size.max(1), size, local_rank: 0, local_size: 1, job: 0 }), 0, AddressRange::WINDOW);
            let mut seen: Vec<AddressRange> = Vec::new();
            for (device, (factor, memory, fails)) in devices.into_iter().enumerate() {
                let Ok(range) = space.place(device, memory.saturating_mul(factor), memory) else { continue };
                prop_assert!(range.is_proper() && range.len >= memory, "{range:?}");
                prop_assert!(seen.iter().all(|other| !other.overlaps(range)));
                seen.push(range);
                if !fails {
                    let name = format!("dev{device}");
                    prop_assert!(space.settle(device, range, name).is_ok());
                    prop_assert_eq!(space.owner(range.end() - 1), Some(device));
                }
            }
        }
    }
}
