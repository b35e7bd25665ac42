//! Host memory that the agent keeps for suspended jobs, so that a suspension finds its pages ready.
//!
//! A file of it is passed to one process only, and its pages are freed when the process has resumed: the process could keep
//! its mapping, and another job's memory must not come there. Threads provide new files meanwhile.

use crate::inventory::free_memory;
use crate::suspend_memory::KEPT_MIN;
use accord_device::KeptFile;
use accord_types::short_lock::{ShortGuard, ShortLock};
use accord_types::threads;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar};
use std::time::{Duration, Instant};

/// Bytes of a file. A suspension takes whole files.
const FILE_BYTES: u64 = 1 << 30;
/// Most threads that provide files: one fills some 2 GB/s, and jobs need the processors, too.
const THREADS_MAX: usize = 4;
/// The pause after a file that could not be created.
const RETRY_PAUSE: Duration = Duration::from_secs(10);

/// The memory that is kept.
#[derive(Debug)]
pub(crate) struct KeptRoom {
    begun: Instant,
    /// Bytes of the files here and of suspended work, together; whole large pages.
    bytes: u64,
    files: ShortLock<FreeFiles>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct FreeFiles {
    free: Vec<KeptFile>,
    /// Files of work that is not suspended any more.
    spent: Vec<SpentFile>,
    /// Bytes of the files that threads provide.
    coming: u64,
    /// Bytes that suspended work has taken.
    taken: u64,
    report: FillReport,
}

/// The agent's last message about the files.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum FillReport {
    #[default]
    None,
    /// There was too little memory.
    Short,
    /// All memory is ready.
    Ready,
}

/// Host memory of suspended work, counted until this is dropped. The process may still use the files then.
#[derive(Debug)]
pub(super) struct TakenRoom {
    /// The kept memory, if there is some, and the bytes that were taken from it.
    kept: Option<(Arc<KeptRoom>, u64)>,
    files: Vec<KeptFile>,
    /// Bytes that the work takes.
    bytes: u64,
}

impl TakenRoom {
    /// Takes `bytes`, in files as far as there are some if `with_files`.
    pub(super) fn new(kept: Option<&Arc<KeptRoom>>, bytes: u64, with_files: bool) -> Self {
        let (files, kept) = match kept {
            None => (Vec::new(), None),
            Some(kept) => {
                let (files, counted) = kept.take(bytes, with_files);
                (files, Some((kept.clone(), counted)))
            }
        };
        Self { kept, files, bytes }
    }

    /// Returns the bytes that the work takes.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the bytes of other memory than files.
    pub(super) fn ordinary(&self) -> u64 {
        self.bytes.saturating_sub(self.files.iter().map(KeptFile::bytes).sum())
    }

    /// Returns the files' descriptors.
    pub(super) fn descriptors(&self) -> Vec<OwnedFd> {
        self.files.iter().filter_map(|file| file.descriptor().try_clone_to_owned().ok()).collect()
    }

    /// Frees the files, as the work goes on.
    pub(super) fn free(mut self) {
        self.give_back(SpentFile::Free);
    }

    fn give_back(&mut self, spent: fn(KeptFile) -> SpentFile) {
        if let Some((kept, counted)) = self.kept.take() {
            kept.give_back(counted, std::mem::take(&mut self.files).into_iter().map(spent));
        }
    }
}

impl Drop for TakenRoom {
    fn drop(&mut self) {
        self.give_back(SpentFile::Close);
    }
}

/// A file that its process does not need any more.
#[derive(Debug)]
enum SpentFile {
    /// The process goes on, and may have the file.
    Free(KeptFile),
    /// The process has ended, or lost its lane and may need the file.
    Close(KeptFile),
}

/// The next step of a thread.
enum FillStep {
    /// Provides a file of so many bytes.
    Create(u64),
    /// Frees a file, which takes long.
    End(SpentFile),
    Wait,
}

impl FreeFiles {
    fn bytes(&self) -> u64 {
        self.free.iter().map(KeptFile::bytes).sum()
    }

    /// Returns the next step, so that all files have `wanted` bytes.
    fn step(&mut self, wanted: u64) -> FillStep {
        if let Some(file) = self.spent.pop() {
            return FillStep::End(file);
        }
        let (wanted, there) = (wanted.saturating_sub(self.taken), self.bytes() + self.coming);
        let missing = wanted.saturating_sub(there).min(FILE_BYTES) / KEPT_MIN * KEPT_MIN;
        if missing > 0 {
            self.coming += missing;
            return FillStep::Create(missing);
        }
        // Suspended work has taken other memory.
        let surplus = if there > wanted { self.free.pop() } else { None };
        surplus.map_or(FillStep::Wait, |file| FillStep::End(SpentFile::Close(file)))
    }
}

impl KeptRoom {
    /// Starts to provide `bytes`.
    ///
    /// # Errors
    /// Returns the system's error if there is no thread.
    pub(crate) fn start(bytes: u64) -> io::Result<Arc<Self>> {
        let (files, changed) = (ShortLock::default(), Condvar::new());
        let this = Arc::new(Self { begun: Instant::now(), bytes: bytes / KEPT_MIN * KEPT_MIN, files, changed });
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        for _ in 0..cores.min(THREADS_MAX) {
            let room = this.clone();
            threads::spawn("accord-kept", move || room.fill())?;
        }
        Ok(this)
    }

    /// Returns the bytes that are ready.
    pub(super) fn ready(&self) -> u64 {
        self.files.lock().bytes()
    }

    /// Takes files for `bytes`, or as many as are ready, and counts the bytes. Returns the count, too.
    fn take(&self, bytes: u64, with_files: bool) -> (Vec<KeptFile>, u64) {
        let (mut taken, mut len) = (Vec::new(), 0);
        let mut files = self.files.lock();
        while with_files
            && len < bytes
            && let Some(file) = files.free.pop()
        {
            len += file.bytes();
            taken.push(file);
        }
        let counted = bytes.max(len);
        files.taken += counted;
        drop(files);
        self.changed.notify_all();
        (taken, counted)
    }

    fn give_back(&self, bytes: u64, spent: impl Iterator<Item = SpentFile>) {
        let mut files = self.files.lock();
        files.taken -= bytes;
        files.spent.extend(spent);
        drop(files);
        self.changed.notify_all();
    }

    /// Provides files for ever.
    fn fill(&self) {
        let mut files = self.files.lock();
        loop {
            match files.step(self.bytes) {
                FillStep::Create(len) => {
                    drop(files);
                    let created = create(len);
                    files = self.files.lock();
                    files.coming -= len;
                    match created {
                        Ok(file) => {
                            files.free.push(file);
                            files = self.report(files);
                        }
                        Err(error) => {
                            let earlier = std::mem::replace(&mut files.report, FillReport::Short);
                            drop(files);
                            if earlier != FillReport::Short {
                                tracing::warn!(
                                    "{} MiB of host memory can't be kept for suspended jobs now: {error}; keep less (--suspend-memory)",
                                    len >> 20
                                );
                            }
                            files = ShortGuard::wait_timeout(self.files.lock(), &self.changed, RETRY_PAUSE).0;
                        }
                    }
                }
                FillStep::End(file) => {
                    drop(files);
                    match file {
                        SpentFile::Free(file) => file.free(),
                        SpentFile::Close(file) => drop(file),
                    }
                    files = self.files.lock();
                }
                FillStep::Wait => files = ShortGuard::wait(files, &self.changed),
            }
        }
    }

    /// Logs that all memory is ready, at first and after there was too little.
    fn report<'a>(&'a self, mut files: ShortGuard<'a, FreeFiles>) -> ShortGuard<'a, FreeFiles> {
        let bytes = files.bytes();
        if files.report == FillReport::Ready || files.coming > 0 || bytes < self.bytes {
            return files;
        }
        files.report = FillReport::Ready;
        drop(files);
        let took = self.begun.elapsed().as_millis();
        tracing::info!("{} MiB of host memory are kept for suspended jobs, provided in {took} ms", bytes >> 20);
        self.files.lock()
    }
}

/// Creates a file, unless it would take more than half of what is free.
fn create(len: u64) -> io::Result<KeptFile> {
    if free_memory() / 2 < len {
        return Err(io::ErrorKind::OutOfMemory.into());
    }
    KeptFile::create(len)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn await_ready(room: &KeptRoom, bytes: u64) {
        let begun = Instant::now();
        while room.ready() != bytes {
            assert!(begun.elapsed() < Duration::from_secs(60), "{} of {bytes} bytes are ready", room.ready());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn memory_is_provided_again_as_far_as_suspended_work_leaves_some() {
        let room = KeptRoom::start(3 * KEPT_MIN + 7).unwrap();
        await_ready(&room, 3 * KEPT_MIN);
        let whole = TakenRoom::new(Some(&room), 1, true);
        assert_eq!((whole.bytes(), whole.ordinary(), whole.descriptors().len()), (1, 0, 1), "a whole file is taken");
        let rest = TakenRoom::new(Some(&room), KEPT_MIN, true);
        assert_eq!((rest.ordinary(), rest.descriptors().len()), (KEPT_MIN, 0), "none is ready");
        whole.free();
        await_ready(&room, 2 * KEPT_MIN);
        // Other memory counts, too.
        let other = TakenRoom::new(Some(&room), 2 * KEPT_MIN, false);
        await_ready(&room, 0);
        drop((rest, other));
        await_ready(&room, 3 * KEPT_MIN);
    }
}
