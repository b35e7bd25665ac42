//! Random programs without races, against what the specification says of them: counters, values on both
//! sides, and nothing left at the end.

use super::world::kind::*;
use super::world::{NO_TAGS, SYNC, World};
use proptest::prelude::*;

const ADD_ONE: usize = 0x40_1000;
const ASYNC_1: &[u32] = &[0x2000_0001, 0];

/// Host addresses and sizes: small ones, which are part of a launch's arguments, and large ones.
const ARRAYS: [(usize, usize); 5] =
    [(0x10_0000, 8), (0x10_0008, 200), (0x20_0000, 4096), (0x30_0000, 5000), (0x40_0000, 100_000)];

/// One array as the specification defines it. All of its bytes are equal.
#[derive(Clone, Copy, Default)]
struct Model {
    host: u8,
    device: u8,
    structured: u32,
    dynamic: u32,
}

impl Model {
    fn present(&self) -> bool {
        self.structured + self.dynamic > 0
    }
}

#[derive(Clone, Debug)]
enum Act {
    Enter(usize),
    Exit { array: usize, out: bool, finalize: bool },
    Start { arrays: Vec<usize>, out: bool },
    End,
    Launch { array: usize, out: bool },
    UpdateSelf(usize),
    UpdateDevice(usize),
    Write(usize, u8),
    Async(bool),
}

fn act() -> impl Strategy<Value = Act> {
    let array = 0..ARRAYS.len();
    prop_oneof![
        3 => array.clone().prop_map(Act::Enter),
        3 => (array.clone(), any::<bool>(), prop::bool::weighted(0.2))
            .prop_map(|(array, out, finalize)| Act::Exit { array, out, finalize }),
        2 => (prop::collection::vec(array.clone(), 1..4), any::<bool>()).prop_map(|(arrays, out)| Act::Start { arrays, out }),
        2 => Just(Act::End),
        4 => (array.clone(), any::<bool>()).prop_map(|(array, out)| Act::Launch { array, out }),
        1 => array.clone().prop_map(Act::UpdateSelf),
        1 => array.clone().prop_map(Act::UpdateDevice),
        1 => (array, any::<u8>()).prop_map(|(array, value)| Act::Write(array, value)),
        1 => any::<bool>().prop_map(Act::Async),
    ]
}

/// The program under test and its model.
struct Run {
    w: World,
    models: [Model; ARRAYS.len()],
    regions: Vec<(Vec<usize>, bool)>,
    queue: i32,
}

impl Run {
    fn new() -> Self {
        let w = World::new();
        w.kernel(ADD_ONE, |k| {
            let len = u64::from_ne_bytes(k.read(k.slots[1], 8).try_into().unwrap()) as usize;
            let bytes: Vec<_> = k.read(k.slots[0], len).iter().map(|byte| byte.wrapping_add(1)).collect();
            k.write(k.slots[0], &bytes);
        });
        Self { w, models: Default::default(), regions: Vec::new(), queue: SYNC }
    }

    /// Handles what the program may only access once the queue is empty.
    fn drain(&mut self) {
        self.w.runtime.wait_all(&mut self.w.t).unwrap();
    }

    fn step(&mut self, act: &Act) {
        match act {
            Act::Enter(array) => {
                let (host, len) = ARRAYS[*array];
                self.w.enter_async(&[(TO, len, host)], self.queue).unwrap();
                let model = &mut self.models[*array];
                if !model.present() {
                    model.device = model.host;
                }
                model.dynamic += 1;
            }
            Act::Exit { array, out, finalize } => {
                let (host, len) = ARRAYS[*array];
                let kind = match (out, finalize) {
                    (false, false) => RELEASE,
                    (false, true) => DELETE,
                    (true, false) => FROM,
                    (true, true) => FORCE_FROM,
                };
                self.w.exit_async(&[(kind, len, host)], self.queue).unwrap();
                let model = &mut self.models[*array];
                if model.dynamic > 0 {
                    model.dynamic = if *finalize { 0 } else { model.dynamic - 1 };
                    if !model.present() && *out {
                        model.host = model.device;
                    }
                }
            }
            Act::Start { arrays, out } => {
                self.drain();
                let kind = if *out { TOFROM } else { TO };
                let list: Vec<_> = arrays.iter().map(|array| (kind, ARRAYS[*array].1, ARRAYS[*array].0)).collect();
                self.w.data_start(&list).unwrap();
                for array in arrays {
                    let model = &mut self.models[*array];
                    if !model.present() {
                        model.device = model.host;
                    }
                    model.structured += 1;
                }
                self.regions.push((arrays.clone(), *out));
            }
            Act::End => {
                let Some((arrays, out)) = self.regions.pop() else { return };
                self.drain();
                self.w.data_end();
                for array in arrays {
                    let model = &mut self.models[array];
                    model.structured -= 1;
                    if !model.present() && out {
                        model.host = model.device;
                    }
                }
            }
            Act::Launch { array, out } => {
                let (host, len) = ARRAYS[*array];
                let kind = if *out { TOFROM } else { TO };
                // The length is a temporary in the frame: the next call overwrites it.
                self.w.put_u64(0x7f00_0000, len as u64);
                let tags = if self.queue == SYNC { NO_TAGS } else { ASYNC_1 };
                self.w.parallel(ADD_ONE, &[(kind, len, host), (TO, 8, 0x7f00_0000)], tags).unwrap();
                self.w.put_u64(0x7f00_0000, 1 << 40);
                let model = &mut self.models[*array];
                if model.present() {
                    model.device = model.device.wrapping_add(1);
                } else if *out {
                    model.host = model.host.wrapping_add(1);
                }
            }
            Act::UpdateSelf(array) | Act::UpdateDevice(array) => {
                let (host, len) = ARRAYS[*array];
                let model = &mut self.models[*array];
                let (rt, t) = (&self.w.runtime, &mut self.w.t);
                let result = if matches!(act, Act::UpdateSelf(_)) {
                    rt.update_self(t, host, len, self.queue).map(|()| model.host = model.device)
                } else {
                    rt.update_device(t, host, len, self.queue).map(|()| model.device = model.host)
                };
                assert_eq!(result.is_ok(), model.present());
            }
            Act::Write(array, value) => {
                self.drain();
                self.w.put(ARRAYS[*array].0, &vec![*value; ARRAYS[*array].1]);
                self.models[*array].host = *value;
            }
            Act::Async(on) => {
                self.drain();
                self.queue = if *on { 1 } else { SYNC };
            }
        }
    }

    fn check(&mut self, values: bool) {
        for (model, (host, len)) in self.models.iter().zip(ARRAYS) {
            assert_eq!(self.w.present(host, len), model.present());
            if model.present() {
                assert_eq!(self.w.counters(host), (model.structured, model.dynamic));
            }
            if values {
                assert_eq!(self.w.get(host, len), vec![model.host; len], "host {host:#x}");
                if model.present() {
                    assert_eq!(self.w.on_device(host, len), vec![model.device; len], "device {host:#x}");
                }
            }
        }
        let state = self.w.runtime.devices[0].lock();
        state.table.check_invariants();
        state.memory.check_invariants();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_programs_do_what_the_specification_says(acts in prop::collection::vec(act(), 1..60)) {
        let mut run = Run::new();
        for act in &acts {
            run.step(act);
            run.check(false);
        }
        run.drain();
        run.check(true);
        while !run.regions.is_empty() {
            run.step(&Act::End);
        }
        for array in 0..ARRAYS.len() {
            run.step(&Act::Exit { array, out: true, finalize: true });
        }
        run.drain();
        run.check(true);
        run.w.assert_empty();
    }
}
