//! The users' actions, chosen by a seed.

use accord_test_tier::splitmix64;
use std::fmt;

/// Pseudo-random numbers from a seed.
pub(crate) struct Numbers(u64);

impl Numbers {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns a number below `bound`.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        splitmix64(&mut self.0) % bound
    }

    pub(crate) fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[usize::try_from(self.below(of.len() as u64)).unwrap()]
    }
}

/// The way in which a program requests devices.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RequestMethod {
    /// By `ACCORD_DEVICES`.
    Variable,
    /// `accord run --devices`, with two programs in sequence and two in parallel.
    Command,
    /// `accord run -np 2 --devices-per-rank`.
    RunRanks,
    /// `mpirun -np 2` with `ACCORD_DEVICES`.
    Mpirun,
    /// Ranks on all hosts, as started by `srun`, with `ACCORD_DEVICES`.
    RanksOfSlurm,
    /// Without a request.
    Nothing,
}

/// The fate of a job.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Fate {
    Ends,
    /// The job and all its processes get SIGINT shortly after the start, whether it waits or runs.
    Withdrawn,
    /// The job gets SIGKILL once it runs.
    Killed,
    /// The job gets SIGTERM once it runs.
    Terminated,
    /// The job and all its processes get SIGINT once it runs.
    Interrupted,
    /// The job runs for longer than its limit.
    OverLimit,
    /// The job's user holds it, and releases it.
    Held,
    /// The job's user cancels it once it runs.
    Cancelled,
}

/// One job of a user.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) way: RequestMethod,
    pub(crate) fate: Fate,
    pub(crate) request: Request,
    /// The host that it starts on.
    pub(crate) host: usize,
    /// Duration of its regions in milliseconds, unless something ends it before.
    pub(crate) lasts: u64,
}

/// A request, and what its program may hold.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    pub(crate) text: &'static str,
    /// The fewest and the most devices.
    pub(crate) counts: (u64, u64),
    pub(crate) take: Take,
}

/// The part of a device that a program takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Take {
    Exclusive,
    /// Thousandths of its time, and MiB of its memory.
    Shared(u64, u64),
    /// The program has no request.
    Nothing,
}

const fn request(text: &'static str, least: u64, most: u64, take: Take) -> Request {
    Request { text, counts: (least, most), take }
}

const REQUESTS: [Request; 14] = [
    request("1:cpu", 1, 1, Take::Exclusive),
    request("1:cpu local", 1, 1, Take::Exclusive),
    request("2:cpu", 2, 2, Take::Exclusive),
    request("2:cpu near", 2, 2, Take::Exclusive),
    request("2:cpu spread", 2, 2, Take::Exclusive),
    request("3:cpu nodes=3", 3, 3, Take::Exclusive),
    request("1-3:cpu", 1, 3, Take::Exclusive),
    request("6:cpu else 2:cpu", 2, 6, Take::Exclusive),
    request("1:nvidia else 1:cpu", 1, 1, Take::Exclusive),
    request("1:cpu:50%", 1, 1, Take::Shared(500, 0)),
    request("2:cpu:25%", 2, 2, Take::Shared(250, 0)),
    request("1:cpu:16M", 1, 1, Take::Shared(0, 16)),
    request("1:cpu:24M:30%", 1, 1, Take::Shared(300, 24)),
    request("1:cpu priority=5", 1, 1, Take::Exclusive),
];

/// Requests whose counts are per rank. `accord run` takes them without the last word, as its option implies it.
const PER_RANK: [Request; 2] =
    [request("1:cpu per-rank", 1, 1, Take::Exclusive), request("1:cpu:25% per-rank", 1, 1, Take::Shared(250, 0))];

const NOTHING: Request = request("", 0, u64::MAX, Take::Nothing);

const FATES: [Fate; 12] = [
    Fate::Ends,
    Fate::Ends,
    Fate::Ends,
    Fate::Ends,
    Fate::Ends,
    Fate::Withdrawn,
    Fate::Killed,
    Fate::Terminated,
    Fate::Interrupted,
    Fate::OverLimit,
    Fate::Held,
    Fate::Cancelled,
];

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {:?} {:?} on h{} for {} ms", self.way, self.fate, self.text(), self.host, self.lasts)
    }
}

impl Plan {
    /// Returns the next job of a user. `with_mpi` says whether there is an `mpirun`.
    pub(crate) fn next(numbers: &mut Numbers, hosts: usize, with_mpi: bool) -> Self {
        let way = numbers.pick(&[
            RequestMethod::Variable,
            RequestMethod::Variable,
            RequestMethod::Variable,
            RequestMethod::Command,
            RequestMethod::Command,
            RequestMethod::RunRanks,
            RequestMethod::Mpirun,
            RequestMethod::RanksOfSlurm,
            RequestMethod::Nothing,
        ]);
        let way = if !with_mpi && matches!(way, RequestMethod::RunRanks | RequestMethod::Mpirun) {
            RequestMethod::RanksOfSlurm
        } else {
            way
        };
        let request = match way {
            RequestMethod::Variable | RequestMethod::Command => numbers.pick(&REQUESTS),
            RequestMethod::RunRanks | RequestMethod::Mpirun | RequestMethod::RanksOfSlurm => numbers.pick(&PER_RANK),
            RequestMethod::Nothing => NOTHING,
        };
        let fate = match numbers.pick(&FATES) {
            // A program without a request is no job.
            Fate::OverLimit | Fate::Held | Fate::Cancelled if way == RequestMethod::Nothing => Fate::Ends,
            // The choice of the process that gets the signal would be undefined.
            fate if way == RequestMethod::RanksOfSlurm && fate != Fate::Killed => Fate::Ends,
            // Ranks that don't use MPI outlive a killed mpirun.
            Fate::Killed if way == RequestMethod::Mpirun => Fate::Terminated,
            fate => fate,
        };
        let host = usize::try_from(numbers.below(hosts as u64)).unwrap();
        Self { way, fate, request, host, lasts: 50 + numbers.below(450) }
    }

    /// Returns the request's text. A job that is to exceed its limit has a short one, the others one that they can't
    /// reach.
    pub(crate) fn text(&self) -> String {
        let limit = if self.fate == Fate::OverLimit { "1s" } else { "10m" };
        format!("{} limit={limit}", self.request.text)
    }
}
