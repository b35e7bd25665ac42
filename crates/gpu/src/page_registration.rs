//! Page-locks arrays of the program that are copied repeatedly, so that the device's engines can access them. All devices of the process share the locked
//! pages. See docs/design/cuda.md ("Page-locked arrays") for the conditions and invariants.

use super::context::Context;
use super::device_stream::DeviceStream;
use super::driver::DriverError;
use super::registrations::{Job, Pages, RegisteredPart, Registrations, Release};
use super::shared::Shared;
use accord_device::replaced_pages::{RANGES, RANGES_MAX};
use accord_types::HostRange;
use accord_types::short_lock::{ShortGuard, ShortLock, ShortRwLock};
use accord_types::threads;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, OnceLock, Weak};
use std::time::{Duration, Instant};

/// The part of the machine's memory that may be locked, as a divisor.
const SHARE_MAX: usize = 2;
/// Longest pause after a piece.
const PAUSE_MAX: Duration = Duration::from_millis(20);
/// Longest sleep, so that a lost device never becomes a hang.
const CHECK_INTERVAL: Duration = Duration::from_millis(200);
/// Longest time for which a fork waits for memory that is being unlocked.
const FORK_WAIT: Duration = Duration::from_secs(5);
/// Pages queried from the kernel at a time.
const PAGES_AT_ONCE: usize = 16 << 10;

/// The stream of a copy: its device, and its index there.
struct User(Weak<Shared>, u32);

impl User {
    fn stream(&self) -> Option<Arc<dyn DeviceStream>> {
        self.0.upgrade()?.all_streams().into_iter().find(|stream| stream.index() == self.1)
    }
}

impl PartialEq for User {
    fn eq(&self, other: &Self) -> bool {
        self.0.ptr_eq(&other.0) && self.1 == other.1
    }
}

type PageRegistrations = Registrations<Arc<Context>, User>;

/// Registered memory without holders, which stays locked until this is dropped.
pub(crate) struct Unregistration(Option<super::registrations::Unregistration<Arc<Context>, User>>);

/// The state that the devices of a process share.
struct Process {
    id: u32,
    known: ShortRwLock<PageRegistrations>,
    /// The number of ranges in `known`. A copy that reads 0 under its stream's lock is ordered before any registration,
    /// which takes the streams' locks first.
    count: AtomicUsize,
    /// Whether the driver can't lock any memory.
    off: AtomicBool,
    work: ShortLock<Work>,
    changed: Condvar,
    devices: ShortLock<Vec<Weak<Shared>>>,
}

#[derive(Default)]
struct Work {
    /// Whether the thread that locks memory runs.
    running: bool,
    /// Number of forks in progress, during which no memory is locked.
    forks: u32,
}

fn process() -> &'static Process {
    static PROCESS: OnceLock<Process> = OnceLock::new();
    PROCESS.get_or_init(|| {
        // SAFETY: no preconditions.
        let (page, pages) = unsafe { (libc::sysconf(libc::_SC_PAGESIZE), libc::sysconf(libc::_SC_PHYS_PAGES)) };
        let page = usize::try_from(page).unwrap_or(4096);
        let memory = page.saturating_mul(usize::try_from(pages).unwrap_or(0));
        // SAFETY: the functions have no preconditions. The C library removes them when this library is unloaded.
        unsafe { libc::pthread_atfork(Some(before_fork), Some(after_fork), None) };
        Process {
            id: std::process::id(),
            known: ShortRwLock::new(Registrations::new(page, memory / SHARE_MAX, RANGES_MAX)),
            count: AtomicUsize::new(0),
            off: AtomicBool::new(false),
            work: ShortLock::default(),
            changed: Condvar::new(),
            devices: ShortLock::default(),
        }
    })
}

/// Returns the usable state of the program's memory at `range`. Called with the lock of the `stream` of `device` held,
/// or on its turn. The copy with position `seq` then uses the memory directly if possible.
pub(crate) fn usable_pages(device: &Arc<Shared>, stream: u32, seq: u64, range: HostRange) -> Pages {
    let process = process();
    if process.count.load(Ordering::Acquire) == 0 {
        return Pages::Unregistered;
    }
    if RANGES.any() {
        process.forget_replaced();
    }
    process.read(|known| known.usable_pages(range, Some((User(Arc::downgrade(device), stream), seq))))
}

/// Registers a device that has started: its copies must be issued before any memory is locked.
pub(crate) fn add_device(shared: &Arc<Shared>) {
    let mut devices = process().devices.lock();
    devices.retain(|known| known.strong_count() > 0);
    devices.push(Arc::downgrade(shared));
}

/// Requests that an array of the program be locked, in the background and not certainly.
pub(crate) fn ask(shared: &Shared, range: HostRange) {
    let process = process();
    if process.off.load(Ordering::Acquire) {
        return;
    }
    let asked = process.change(|known| known.ask(range, number(shared), Arc::clone(&shared.context)));
    if !asked {
        return;
    }
    if !process.runs() {
        process.change(PageRegistrations::refuse);
    }
}

/// Releases an array that a device has requested. The caller drops the result once the copies in progress in
/// [`Unregistration::streams`] are done.
pub(crate) fn release(shared: &Shared, range: HostRange) -> Option<Unregistration> {
    let process = process();
    if process.count.load(Ordering::Acquire) == 0 {
        return None;
    }
    let mut answer = process.change(|known| known.release(range, number(shared)));
    loop {
        match answer {
            Release::Keep => return None,
            Release::Unregister(unlock) => return Some(Unregistration(Some(unlock))),
            Release::Busy(start) => {
                let mut work = process.work();
                while process.read(|known| known.is_changing(start)) {
                    work = ShortGuard::wait(work, &process.changed);
                }
                drop(work);
                answer = process.change(|known| known.settle(start));
            }
        }
    }
}

/// Releases all arrays of a device that ends and whose streams are empty.
pub(crate) fn release_all(shared: &Shared) {
    if process().count.load(Ordering::Acquire) > 0 {
        for range in process().read(|known| known.held_by(number(shared))) {
            drop(release(shared, range));
        }
    }
}

fn number(shared: &Shared) -> u32 {
    shared.context.device.cast_unsigned()
}

impl Unregistration {
    /// Returns the streams with copies of the memory in flight, and the last copy of each.
    pub(crate) fn streams(&self) -> impl Iterator<Item = (Arc<dyn DeviceStream>, u64)> {
        let uses = self.0.iter().flat_map(|unlock| &unlock.uses);
        uses.filter_map(|(user, seq)| Some((user.stream()?, *seq)))
    }
}

impl Drop for Unregistration {
    /// Unlocks the memory.
    fn drop(&mut self) {
        let Some(unlock) = self.0.take() else { return };
        for (user, _) in &unlock.uses {
            if let (Some(device), Some(stream)) = (user.0.upgrade(), user.stream())
                && let Ok(_current) = device.context.enter()
            {
                // The wait ends: the driver's streams don't wait for the host.
                stream.drain();
            }
        }
        if let Ok(_current) = unlock.owner.enter() {
            unregister(&unlock.owner, unlock.range);
        }
        process().change(|known| known.unregistered(unlock.range.start));
        process().notify();
    }
}

impl Process {
    fn work(&self) -> ShortGuard<'_, Work> {
        self.work.lock()
    }

    fn read<T>(&self, read: impl FnOnce(&PageRegistrations) -> T) -> T {
        read(&self.known.read())
    }

    fn change<T>(&self, change: impl FnOnce(&mut PageRegistrations) -> T) -> T {
        let mut known = self.known.write();
        let result = change(&mut known);
        self.count.store(known.len(), Ordering::Release);
        RANGES.set(known.ranges());
        result
    }

    /// Handles locked ranges at which the program has mapped other pages: the engines must not access them, and the thread unlocks them.
    #[cold]
    fn forget_replaced(&'static self) {
        // The notes on ranges are valid only with the list locked.
        self.change(|known| RANGES.take().into_iter().for_each(|start| known.replaced(start)));
        // Without a thread the range stays locked, and the host copies.
        let _ = self.runs();
    }

    /// Starts the thread unless it runs. Returns whether it runs.
    fn runs(&'static self) -> bool {
        let mut work = self.work();
        if !work.running {
            work.running = threads::spawn("accord-pages", || self.serve()).is_ok();
        }
        work.running
    }

    /// Wakes threads that wait for a range to change.
    fn notify(&self) {
        drop(self.work());
        self.changed.notify_all();
    }

    /// Waits while `lasts` holds, for a limited time, because a stream may have failed.
    fn await_change(&self, lasts: impl Fn(&PageRegistrations) -> bool) {
        let late = Instant::now() + FORK_WAIT;
        let mut work = self.work();
        while self.read(&lasts) && Instant::now() < late {
            work = ShortGuard::wait_timeout(work, &self.changed, CHECK_INTERVAL).0;
        }
    }

    /// Runs the thread: locks requested ranges, unlocks replaced ones, and ends.
    fn serve(&self) {
        loop {
            let mut work = self.work();
            while work.forks > 0 {
                work = ShortGuard::wait(work, &self.changed);
            }
            if let Some(replaced) = self.change(PageRegistrations::pick_replaced) {
                drop(work);
                drop(Unregistration(Some(replaced)));
                continue;
            }
            let Some(job) = self.read(PageRegistrations::pick) else {
                work.running = false;
                return;
            };
            drop(work);
            self.await_copies();
            let work = self.work();
            if work.forks > 0 {
                continue;
            }
            let owner = self.change(|known| known.register(job));
            drop(work);
            if let Some(owner) = owner {
                let registered = self.register(&owner, job);
                self.change(|known| known.registered(job, registered));
                self.notify();
            }
        }
    }

    /// Blocks until copies that checked before the range was requested are issued.
    fn await_copies(&self) {
        let devices: Vec<_> = {
            let devices = self.devices.lock();
            devices.iter().filter_map(Weak::upgrade).collect()
        };
        for stream in devices.iter().flat_map(|device| device.all_streams()) {
            stream.pass();
        }
    }

    fn register(&self, owner: &Context, job: Job) -> bool {
        let Ok(_current) = owner.enter() else { return false };
        let HostRange { start, len } = job.range;
        if !is_resident(start, len) {
            return false;
        }
        /// `CU_MEMHOSTREGISTER_PORTABLE`: valid for all devices of the process.
        const PORTABLE: u32 = 1;
        for piece in all(job.range) {
            let begin = Instant::now();
            let memory = std::ptr::with_exposed_provenance_mut(piece.start);
            // SAFETY: the program keeps memory that is present, and the driver checks that it is writable.
            let registered = unsafe { owner.driver.cuMemHostRegister_v2(memory, piece.len, PORTABLE) };
            if registered.is_ok() && self.work().forks == 0 && self.read(|known| known.wants(job)) {
                // The pause lets the program's calls of the driver run, which had to wait meanwhile.
                if piece.start + piece.len < start + len {
                    std::thread::sleep(begin.elapsed().min(PAUSE_MAX));
                }
                continue;
            }
            let done = piece.start - start + if registered.is_ok() { piece.len } else { 0 };
            unregister(owner, HostRange { start, len: done });
            match registered {
                // The memory is locked or pinned by the program already, or not of a kind that can be.
                Ok(())
                | Err(DriverError { code: DriverError::INVALID_VALUE | DriverError::ALREADY_REGISTERED, .. }) => {}
                Err(_) => self.off.store(true, Ordering::Release),
            }
            return false;
        }
        true
    }
}

/// The pieces of a whole lock.
fn all(range: HostRange) -> impl Iterator<Item = HostRange> {
    RegisteredPart { range, first: range.start }.pieces()
}

/// Unlocks all pieces of a range. The context is current.
fn unregister(owner: &Context, range: HostRange) {
    for piece in all(range) {
        let memory = std::ptr::with_exposed_provenance_mut(piece.start);
        // SAFETY: this process locked the piece, and it has no users. A lost context refuses the call, and its end unlocks the piece.
        let _ = unsafe { owner.driver.cuMemHostUnregister(memory) };
    }
}

/// Whether all of a range is in memory. Locking would load pages that the program has never touched.
fn is_resident(start: usize, len: usize) -> bool {
    // SAFETY: no preconditions.
    let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096);
    let step = PAGES_AT_ONCE * page;
    let mut pages = vec![0u8; PAGES_AT_ONCE];
    (0..len).step_by(step).all(|offset| {
        let part = step.min(len - offset);
        let at = std::ptr::with_exposed_provenance_mut(start + offset);
        // SAFETY: the buffer has a byte for each page of the part, and the kernel checks that the addresses are mapped.
        let known = unsafe { libc::mincore(at, part, pages.as_mut_ptr()) } == 0;
        known && pages[..part.div_ceil(page)].iter().all(|page| page & 1 != 0)
    })
}

/// Makes sure that no memory is locked during a fork. Otherwise the kernel may leave locked pages to the child, and give
/// the parent copies on its writes, which the engines would never see.
extern "C" fn before_fork() {
    let process = process();
    if process.id != std::process::id() {
        // A grandchild: no memory is locked, and threads that do not exist here may have left a mutex locked.
        return;
    }
    process.work().forks += 1;
    process.await_change(PageRegistrations::is_registering);
    for unlock in process.change(PageRegistrations::give_up) {
        drop(Unregistration(Some(unlock)));
    }
    process.await_change(PageRegistrations::is_unregistering);
}

extern "C" fn after_fork() {
    let mut work = process().work();
    work.forks = work.forks.saturating_sub(1);
    drop(work);
    process().changed.notify_all();
}
