//! Makes a correct program of random choices: impossible operations are omitted or replaced, and racing ones wait. So
//! any subset of the choices is a program, too, and a failure can be shrunk.

use super::op::{ARRAYS, Act, Affine, BLOCKS, HOWS, Op, QUEUES, RegionKind, SCALARS, SHAPES, SYNC, Section};
use super::spec::{DEVICES, HOST, Spec, queue_of, thread};
use accord_test_tier::splitmix64;

/// Pseudo-random numbers from a seed.
pub(crate) struct Numbers(pub(crate) u64);

impl Numbers {
    pub(crate) fn next(&mut self) -> u64 {
        splitmix64(&mut self.0)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
}

/// A choice, which its number determines.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Choice {
    number: u64,
    /// The pair of arrays for a sequence that passes a few variables between queues.
    pair: Option<usize>,
}

/// One in this many sequences is such a close one: faults between queues need several operations on one variable in a
/// row.
const CLOSE_ONE_IN: u64 = 2;

/// Returns the choices of a sequence.
pub(crate) fn choices(seed: u64, count: usize) -> Vec<Choice> {
    let mut numbers = Numbers(seed);
    let pair = seed.is_multiple_of(CLOSE_ONE_IN).then(|| CLOSE_PAIRS[numbers.below(CLOSE_PAIRS.len())]);
    (0..count).map(|_| Choice { number: numbers.next(), pair }).collect()
}

/// The abilities of a sequence's devices.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Abilities {
    /// Number of devices, at most [`DEVICES`].
    pub(crate) devices: usize,
    /// Whether `acc_memcpy_d2d` is available.
    pub(crate) across: bool,
}

struct Planner {
    spec: Spec,
    ops: Vec<Op>,
    abilities: Abilities,
    /// Whether the sequence concerns one pair of arrays. It then omits waits that the runtime makes unnecessary.
    close: bool,
}

/// Returns the program.
pub(crate) fn plan(choices: &[Choice], abilities: Abilities) -> Vec<Op> {
    let mut planner = Planner { spec: Spec::new(), ops: Vec::new(), abilities, close: false };
    for choice in choices {
        planner.choose(&mut Numbers(choice.number), choice.pair);
    }
    planner.end();
    planner.ops
}

/// Small arrays are cheaper to copy, so they occur more often.
const SHAPES_BY_WEIGHT: [usize; 12] = [0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 4, 5];
/// Few enough that operations meet.
const PAIRS_IN_USE: usize = 3;
/// Pairs for close sequences, mostly of 32 bytes.
const CLOSE_PAIRS: [usize; 6] = [0, 0, 0, 0, 1, 3];
/// Actions of a close sequence, numbered as in [`Planner::choose`]: mostly regions that copy, after a slow one.
const CLOSE_ACTS: [usize; 28] =
    [0, 4, 4, 4, 9, 19, 21, 21, 21, 21, 21, 21, 21, 21, 24, 24, 24, 24, 24, 25, 25, 25, 25, 26, 27, 27, 29, 36];

impl Planner {
    fn choose(&mut self, n: &mut Numbers, pair: Option<usize>) {
        self.close = pair.is_some();
        let device = if self.close && !n.one_in(4) { 0 } else { n.below(self.abilities.devices) };
        let queue = if n.one_in(5) { SYNC } else { n.below(QUEUES) as i32 };
        let array = 2 * SHAPES_BY_WEIGHT[n.below(SHAPES_BY_WEIGHT.len())] + n.below(2);
        let s = match pair {
            Some(pair) if n.one_in(6) => Section { array: 2 * pair + n.below(2), lo: n.below(3), n: 1 + n.below(5) },
            Some(pair) => Section { array: 2 * pair + n.below(2), lo: 0, n: BLOCKS },
            None => Self::section(n, array),
        };
        let by = Affine { m: n.below(5) as i32 + 1, c: n.below(1000) as i32 };
        // A close sequence has one scalar.
        let scalars = if self.close { 1 } else { SCALARS };
        let (x, c, routine, flag) = (n.below(scalars), n.below(100_000) as i32, n.one_in(3), n.one_in(2));
        let here = self.inside(device, s);
        let partner = self.inside(device, s.partner());
        let what = if self.close { CLOSE_ACTS[n.below(CLOSE_ACTS.len())] } else { n.below(40) };
        let act = match what {
            0..4 => Act::Enter { s: here.unwrap_or(s), copy_in: !n.one_in(4), routine },
            4..7 => match here.filter(|s| self.dynamic(device, *s) > 0) {
                Some(s) => Act::Exit { s, out: !n.one_in(4), finalize: n.one_in(4), routine },
                None => return self.put(n, Op { device, queue: SYNC, act: Act::HostFill { s, c } }),
            },
            7 => {
                let act = Act::Region { s: here.unwrap_or(s), kind: RegionKind::ALL[n.below(4)] };
                return self.put(n, Op { device, queue: SYNC, act });
            }
            8 => {
                let Some((device, ..)) = self.spec.regions.last().copied() else { return };
                return self.end_region(n, device);
            }
            9..14 => match here {
                Some(s) => Act::Update { s, out: flag, routine },
                None => Act::Copied { s, by },
            },
            14..16 => here.map_or(Act::CopiedOut { s, c }, |s| Act::Fill { s, c }),
            16..19 => here.map_or(Act::Copied { s, by }, |s| Act::Change { s, by }),
            19..21 => match (here, partner) {
                (Some(one), Some(other)) => match both(one, other.partner()) {
                    Some(s) if n.one_in(2) => Act::Add { s },
                    Some(s) => Act::Within { s },
                    None => return,
                },
                (None, Some(other)) => Act::CopiedIn { s: other.partner() },
                _ => Act::Copied { s: here.unwrap_or(s), by },
            },
            21..24 => Act::Copied { s: here.unwrap_or(s), by },
            24 => Act::CopiedOut { s: here.unwrap_or(s), c },
            25 => Act::Scalar { x, by },
            26 => match here {
                Some(s) => Act::ByValue { s, x },
                None => return self.put(n, Op { device, queue: SYNC, act: Act::HostScalar { x, c } }),
            },
            27 => {
                let rounds = 1 << n.below(18);
                return self.put(n, Op { device, queue: queue.max(0), act: Act::Spin { rounds } });
            }
            28 => return self.wait(n, thread(device, queue.max(0))),
            29 => {
                let other = n.below(QUEUES) as i32;
                let act = if n.one_in(4) {
                    Act::WaitAllAsync { how: n.below(2) }
                } else {
                    Act::WaitAsync { other, how: n.below(2) }
                };
                return self.put(n, Op { device, queue: queue.max(0), act });
            }
            30 => match (here, self.inside(1 - device, s)) {
                (Some(one), Some(other)) if self.abilities.across => match both(one, other) {
                    Some(s) => Act::Across { s, to: 1 - device },
                    None => return,
                },
                _ => return,
            },
            31..35 => match here {
                Some(s) if flag => Act::ToDevice { s },
                Some(s) => Act::FromDevice { s },
                None => return,
            },
            35 => return self.put(n, Op { device, queue: SYNC, act: Act::HostFill { s, c } }),
            36 => return self.check(n, s),
            37 => return self.check_scalar(n, x),
            38 => {
                let present = here.is_some();
                return self.put(n, Op { device, queue: SYNC, act: Act::Present { s: here.unwrap_or(s), present } });
            }
            _ => return self.through_pointer(n, (device, queue), s, by),
        };
        let act = self.that_changes(act);
        self.put(n, Op { device, queue, act });
    }

    /// Makes a region change its variable, because a region that leaves it unchanged at first and changes it later is
    /// not supported (docs/design/data.md).
    fn that_changes(&self, act: Act) -> Act {
        let more = |by: Affine| Affine { c: by.c + 1, ..by };
        match act {
            Act::Copied { s, by } if !self.spec.changes(s, by) => Act::Copied { s, by: more(by) },
            Act::Scalar { x, by } if !self.spec.changes_scalar(x, by) => Act::Scalar { x, by: more(by) },
            _ => act,
        }
    }

    /// Returns mostly all of an array, of few arrays.
    fn section(n: &mut Numbers, array: usize) -> Section {
        let array = array % (2 * PAIRS_IN_USE) + if n.one_in(3) { 2 * (SHAPES - PAIRS_IN_USE) } else { 0 };
        if n.one_in(2) {
            return Section { array, lo: 0, n: BLOCKS };
        }
        let lo = n.below(BLOCKS);
        Section { array, lo, n: 1 + n.below(BLOCKS - lo) }
    }

    /// Returns the present part of a section, or all that is present if none of it is.
    fn inside(&self, device: usize, s: Section) -> Option<Section> {
        let entry = self.spec.present[device][s.array]?;
        Some(both(entry.s, s).unwrap_or(entry.s))
    }

    fn dynamic(&self, device: usize, s: Section) -> u32 {
        self.spec.present[device][s.array].map_or(0, |entry| entry.dynamic)
    }

    /// Appends an operation, after the waits that it needs.
    fn put(&mut self, n: &mut Numbers, op: Op) {
        self.detach_from(n, &op);
        let forgetful = n.one_in(3) || self.close;
        for _ in 0..=DEVICES * QUEUES {
            let Some(first) = self.spec.conflicts(&op, forgetful).first().copied() else { break };
            let own = thread(op.device, op.queue);
            let (device, queue) = queue_of(first);
            let together = own != HOST && device == op.device;
            if together && !n.one_in(3) {
                let act = Act::WaitAsync { other: queue, how: n.below(2) };
                self.push(Op { act, ..op });
                if !self.spec.conflicts(&op, forgetful).contains(&first) {
                    continue;
                }
                // The calling thread reads.
            }
            self.wait(n, first);
        }
        self.push(op);
    }

    fn push(&mut self, op: Op) {
        self.spec.apply(&op);
        self.ops.push(op);
    }

    /// Makes the host wait for a queue.
    fn wait(&mut self, n: &mut Numbers, waited: usize) {
        let (device, queue) = queue_of(waited);
        let act = if n.one_in(5) { Act::WaitAll } else { Act::Wait { how: n.below(HOWS) } };
        self.push(Op { device, queue, act });
    }

    fn end_region(&mut self, n: &mut Numbers, device: usize) {
        self.put(n, Op { device, queue: SYNC, act: Act::EndRegion });
    }

    fn check(&mut self, n: &mut Numbers, s: Section) {
        let mut lo = s.lo;
        while lo < s.lo + s.n {
            let value = self.spec.host_value(s.array, lo);
            let more = (lo..s.lo + s.n).take_while(|block| self.spec.host_value(s.array, *block) == value).count();
            if let Some(value) = value {
                let s = Section { lo, n: more, ..s };
                self.put(n, Op { device: 0, queue: SYNC, act: Act::Check { s, value } });
            }
            lo += more;
        }
    }

    fn check_scalar(&mut self, n: &mut Numbers, x: usize) {
        if let Some(value) = self.spec.scalar_value(x) {
            self.put(n, Op { device: 0, queue: SYNC, act: Act::CheckScalar { x, value } });
        }
    }

    /// Appends a region that accesses an array through a present pointer.
    fn through_pointer(&mut self, n: &mut Numbers, (device, queue): (usize, i32), s: Section, by: Affine) {
        let array = s.array;
        let Some(entry) = self.spec.present[device][array].filter(|entry| entry.s.lo == 0) else { return };
        let op = |act| Op { device, queue, act };
        // The variable has the host's value, and there is one variable for both devices.
        let elsewhere = self.spec.held[1 - device][array / 2];
        match self.spec.held[device][array / 2] {
            None if elsewhere.is_none_or(|held| held.array == array) => self.put(n, op(Act::Hold { array })),
            None => return,
            Some(held) if held.array != array => return,
            Some(_) => {}
        }
        if !self.spec.held[device][array / 2].is_some_and(|held| held.attached) {
            self.put(n, op(Act::Attach { array }));
        } else if n.one_in(3) {
            self.put(n, op(Act::Renew { array }));
        }
        let s = both(entry.s, s).unwrap_or(entry.s);
        self.put(n, op(Act::Through { s, by }));
        if n.one_in(3) {
            self.put(n, op(Act::Detach { array }));
            self.put(n, op(Act::Drop { array }));
        }
    }

    /// Detaches pointers to data that may be deleted.
    fn detach_from(&mut self, n: &mut Numbers, op: &Op) {
        let (device, array) = match (op.act, self.spec.regions.last()) {
            (Act::Exit { s, .. }, _) => (op.device, s.array),
            (Act::EndRegion, Some((device, s, _))) => (*device, s.array),
            _ => return,
        };
        if self.spec.held[device][array / 2].is_some_and(|held| held.attached && held.array == array) {
            self.put(n, Op { device, queue: op.queue, act: Act::Detach { array } });
            self.put(n, Op { device, queue: op.queue, act: Act::Drop { array } });
        }
    }

    /// Checks all values, and deletes all data.
    fn end(&mut self) {
        let n = &mut Numbers(7);
        while let Some((device, ..)) = self.spec.regions.last().copied() {
            self.end_region(n, device);
        }
        for device in 0..self.abilities.devices {
            self.push(Op { device, queue: SYNC, act: Act::WaitAll });
        }
        let used: Vec<usize> = self.ops.iter().filter_map(|op| op.act.section()).map(|s| s.array / 2).collect();
        let arrays = (0..ARRAYS).filter(|array| used.contains(&(array / 2)));
        arrays.for_each(|array| self.check(n, Section { array, lo: 0, n: BLOCKS }));
        (0..SCALARS).for_each(|x| self.check_scalar(n, x));
        for device in 0..DEVICES {
            for array in 0..ARRAYS {
                let Some(entry) = self.spec.present[device][array] else { continue };
                let exit = Act::Exit { s: entry.s, out: true, finalize: true, routine: false };
                self.put(n, Op { device, queue: SYNC, act: exit });
                self.check(n, entry.s);
                let gone = Act::Present { s: entry.s, present: false };
                self.put(n, Op { device, queue: SYNC, act: gone });
            }
            for array in (0..ARRAYS).step_by(2) {
                if self.spec.held[device][array / 2].is_some() {
                    self.put(n, Op { device, queue: SYNC, act: Act::Drop { array } });
                }
            }
        }
    }
}

/// Returns the intersection of two sections of an array.
fn both(one: Section, other: Section) -> Option<Section> {
    let lo = one.lo.max(other.lo);
    let end = (one.lo + one.n).min(other.lo + other.n);
    (lo < end).then(|| Section { lo, n: end - lo, ..one })
}
