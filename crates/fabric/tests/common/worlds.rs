//! Worlds of two ranks. Both ranks are in this process, with queues between them; or this process is one rank of MPI, and every lane goes to
//! the other rank and back.

use accord_fabric::transport::SharedLane;
use accord_fabric::transport::mpi::{FindReceiveBuffer, MpiFabric, MpiObject, ReceivedItem, SendBuffer, World};
use std::collections::VecDeque;
use std::io;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;

/// Set within a job: the path of the object with MPI.
pub(crate) const OBJECT: &str = "ACCORD_TEST_MPI";

/// An item in flight to a rank.
enum InFlight {
    Came(ReceivedItem),
    /// Exposed bytes: the sending rank, the tag of the buffer, the bytes, and the sender's id.
    Lent(u32, u16, SendBuffer, u64),
}

type Messages = Arc<Mutex<VecDeque<InFlight>>>;

/// A world whose ranks are threads.
struct Queues {
    rank: u32,
    queues: Vec<Messages>,
}

impl Queues {
    fn put(&self, to: u32, what: InFlight) -> io::Result<()> {
        self.queues[to as usize].lock().unwrap().push_back(what);
        Ok(())
    }
}

impl World for Queues {
    fn rank(&self) -> u32 {
        self.rank
    }

    fn size(&self) -> u32 {
        self.queues.len().try_into().unwrap()
    }

    fn send(&mut self, to: u32, message: Vec<u8>) -> io::Result<()> {
        self.put(to, InFlight::Came(ReceivedItem::Message(self.rank, message)))
    }

    fn send_exposed(&mut self, to: u32, tag: u16, bytes: SendBuffer, id: u64) -> io::Result<()> {
        self.put(to, InFlight::Lent(self.rank, tag, bytes, id))
    }

    fn sending(&self) -> (usize, usize) {
        (0, 0)
    }

    /// The queues deliver at once.
    fn moves_exposed(&self) -> bool {
        false
    }

    fn receive(&mut self, space: FindReceiveBuffer<'_>) -> io::Result<Option<ReceivedItem>> {
        let next = self.queues[self.rank as usize].lock().unwrap().pop_front();
        Ok(match next {
            Some(InFlight::Lent(from, tag, bytes, id)) => {
                space(from, tag, bytes.len())?.fill(bytes);
                self.put(from, InFlight::Came(ReceivedItem::Sent(id)))?;
                Some(ReceivedItem::Filled(tag))
            }
            Some(InFlight::Came(received)) => Some(received),
            None => None,
        })
    }
}

pub(crate) fn is_job() -> bool {
    std::env::var_os(OBJECT).is_some()
}

/// Whether the first mpirun in `PATH` is Open MPI's.
pub(crate) fn is_open_mpi() -> Result<bool, String> {
    let version = Command::new("mpirun").arg("--version").output().map_err(|error| format!("no mpirun: {error}"))?;
    Ok(String::from_utf8_lossy(&version.stdout).contains("Open MPI"))
}

/// Returns the object that `scripts/build-mpi` has built for the first MPI in `PATH`, if any.
pub(crate) fn find_object() -> Result<PathBuf, String> {
    let name = if is_open_mpi()? { "openmpi" } else { "mpich" };
    let path =
        PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/mpi")).join(name).join("libaccord_mpi.so");
    let path =
        path.canonicalize().map_err(|error| format!("no MPI ({}: {error}); build it: make mpi", path.display()))?;
    MpiObject::load(&path).map_err(|error| error.to_string())?;
    Ok(path)
}

/// Returns the fabric of this process's rank.
fn job() -> &'static MpiFabric {
    static JOB: OnceLock<MpiFabric> = OnceLock::new();
    JOB.get_or_init(|| {
        let object = PathBuf::from(std::env::var_os(OBJECT).unwrap());
        MpiFabric::start(move || MpiObject::load(&object)?.join()).unwrap()
    })
}

/// Returns both ranks of a world.
pub(crate) fn two_ranks() -> [MpiFabric; 2] {
    let queues = [Messages::default(), Messages::default()];
    [0, 1].map(|rank| {
        let queues = queues.to_vec();
        MpiFabric::start(move || Ok(Box::new(Queues { rank, queues }))).unwrap()
    })
}

fn two() -> &'static [MpiFabric; 2] {
    static TWO: OnceLock<[MpiFabric; 2]> = OnceLock::new();
    TWO.get_or_init(two_ranks)
}

/// Returns both ends of a lane.
pub(crate) fn ends() -> (SharedLane, SharedLane) {
    /// Held from opening a lane to accepting it, because lanes are accepted in the order of opening.
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().unwrap();
    let (opens, takes) = if is_job() { (job(), job()) } else { (&two()[0], &two()[1]) };
    let near = opens.connect(1).unwrap();
    (near, takes.accept().unwrap().0)
}

/// Opens a lane back for each accepted one, and forwards bytes between both, until the other rank ends.
pub(crate) fn serve_as_other_rank() {
    while let Ok((lane, from)) = job().accept() {
        let back = job().connect(from).unwrap();
        for (from, to) in [(lane.clone(), back.clone()), (back, lane)] {
            thread::spawn(move || pass_on(&from, &to));
        }
    }
}

/// Forwards all bytes of one lane, and its end, to the other.
fn pass_on(from: &SharedLane, to: &SharedLane) {
    let mut bytes = vec![0; 128 << 10];
    loop {
        match from.read(&mut bytes) {
            Ok(0) => break,
            Ok(n) if to.send(&bytes[..n]).is_ok() => {}
            Ok(_) => return from.shutdown(),
            Err(_) => return to.shutdown(),
        }
    }
    if to.finish().is_err() {
        from.shutdown();
    }
}
