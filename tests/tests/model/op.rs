//! The calls of a program in sequence, in the driver's format and as C.

/// Arrays come in pairs with the same shape; all elements of a block are equal.
pub(crate) const SHAPES: usize = 6;
pub(crate) const ARRAYS: usize = 2 * SHAPES;
pub(crate) const BLOCKS: usize = 8;
pub(crate) const SCALARS: usize = 4;
/// Elements of a block, as in the driver: from 4 bytes to 48 KB.
pub(crate) const SIZES: [usize; SHAPES] = [1, 16, 100, 600, 3000, 12000];
/// Number of the device's queues, including `acc_async_sync`.
pub(crate) const QUEUES: usize = 4;
pub(crate) const SYNC: i32 = -2;

/// Blocks `lo..lo + n` of an array.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Section {
    pub(crate) array: usize,
    pub(crate) lo: usize,
    pub(crate) n: usize,
}

impl Section {
    pub(crate) fn blocks(self) -> std::ops::Range<usize> {
        self.lo..self.lo + self.n
    }

    pub(crate) fn bytes(self) -> usize {
        self.n * SIZES[self.array / 2] * size_of::<i32>()
    }

    /// Returns the same blocks of the other array with its shape.
    pub(crate) fn partner(self) -> Self {
        Self { array: self.array ^ 1, ..self }
    }
}

/// `a[i] = a[i] * m + c`
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Affine {
    pub(crate) m: i32,
    pub(crate) c: i32,
}

/// Number of ways in which the program waits.
pub(crate) const HOWS: usize = 3;

/// The action of an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Act {
    Enter {
        s: Section,
        copy_in: bool,
        routine: bool,
    },
    Exit {
        s: Section,
        out: bool,
        finalize: bool,
        routine: bool,
    },
    Region {
        s: Section,
        kind: RegionKind,
    },
    EndRegion,
    Update {
        s: Section,
        out: bool,
        routine: bool,
    },
    Fill {
        s: Section,
        c: i32,
    },
    Change {
        s: Section,
        by: Affine,
    },
    /// The partner becomes three times itself plus this section.
    Add {
        s: Section,
    },
    Copied {
        s: Section,
        by: Affine,
    },
    CopiedIn {
        s: Section,
    },
    CopiedOut {
        s: Section,
        c: i32,
    },
    Scalar {
        x: usize,
        by: Affine,
    },
    ByValue {
        s: Section,
        x: usize,
    },
    Spin {
        rounds: i32,
    },
    Wait {
        how: usize,
    },
    WaitAll,
    WaitAsync {
        other: i32,
        how: usize,
    },
    WaitAllAsync {
        how: usize,
    },
    Across {
        s: Section,
        to: usize,
    },
    ToDevice {
        s: Section,
    },
    FromDevice {
        s: Section,
    },
    Within {
        s: Section,
    },
    Hold {
        array: usize,
    },
    Attach {
        array: usize,
    },
    Detach {
        array: usize,
    },
    Renew {
        array: usize,
    },
    Through {
        s: Section,
        by: Affine,
    },
    Drop {
        array: usize,
    },
    HostFill {
        s: Section,
        c: i32,
    },
    HostScalar {
        x: usize,
        c: i32,
    },
    Check {
        s: Section,
        value: i32,
    },
    CheckScalar {
        x: usize,
        value: i32,
    },
    Present {
        s: Section,
        present: bool,
    },
}

/// The clause of a data region.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RegionKind {
    Copy,
    CopyIn,
    CopyOut,
    Create,
}

impl RegionKind {
    pub(crate) const ALL: [Self; 4] = [Self::Copy, Self::CopyIn, Self::CopyOut, Self::Create];

    pub(crate) fn reads(self) -> bool {
        matches!(self, Self::Copy | Self::CopyIn)
    }

    pub(crate) fn writes(self) -> bool {
        matches!(self, Self::Copy | Self::CopyOut)
    }
}

impl Act {
    /// Returns the section that it accesses.
    pub(crate) fn section(&self) -> Option<Section> {
        match *self {
            Self::Enter { s, .. } | Self::Exit { s, .. } | Self::Region { s, .. } | Self::Update { s, .. } => Some(s),
            Self::Fill { s, .. } | Self::Change { s, .. } | Self::Add { s } | Self::Within { s } => Some(s),
            Self::Copied { s, .. } | Self::CopiedIn { s } | Self::CopiedOut { s, .. } => Some(s),
            Self::ByValue { s, .. } | Self::Through { s, .. } | Self::Across { s, .. } => Some(s),
            Self::ToDevice { s } | Self::FromDevice { s } | Self::HostFill { s, .. } => Some(s),
            _ => None,
        }
    }
}

/// An operation: device, queue and action.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Op {
    pub(crate) device: usize,
    pub(crate) queue: i32,
    pub(crate) act: Act,
}

impl Op {
    /// Returns the driver's line.
    pub(crate) fn line(&self) -> String {
        let whole = |array| Section { array, lo: 0, n: 0 };
        let none = whole(0);
        let (letter, s, v, w) = match self.act {
            Act::Enter { s, copy_in, routine } => ('e', s, copy_in.into(), routine.into()),
            Act::Exit { s, out, finalize, routine } => {
                ('x', s, i32::from(out) + 2 * i32::from(finalize), routine.into())
            }
            Act::Region { s, kind } => ('R', s, kind as i32, 0),
            Act::EndRegion => return "r".to_owned(),
            Act::Update { s, out, routine } => ('u', s, out.into(), routine.into()),
            Act::Fill { s, c } => ('f', s, c, 0),
            Act::Change { s, by } => ('m', s, by.m, by.c),
            Act::Add { s } => ('b', s, 0, 0),
            Act::Copied { s, by } => ('c', s, by.m, by.c),
            Act::CopiedIn { s } => ('i', s, 0, 0),
            Act::CopiedOut { s, c } => ('o', s, c, 0),
            Act::Scalar { x, by } => ('X', whole(x), by.m, by.c),
            Act::ByValue { s, x } => ('p', s, x as i32, 0),
            Act::Spin { rounds } => ('s', none, rounds, 0),
            Act::Wait { how } => ('w', none, how as i32, 0),
            Act::WaitAll => ('W', none, 0, 0),
            Act::WaitAsync { other, how } => ('j', none, other, how as i32),
            Act::WaitAllAsync { how } => ('J', none, 0, how as i32),
            Act::Across { s, to } => ('y', s, to as i32, 0),
            Act::ToDevice { s } => ('g', s, 0, 0),
            Act::FromDevice { s } => ('G', s, 0, 0),
            Act::Within { s } => ('M', s, 0, 0),
            Act::Hold { array } => ('h', whole(array), 0, 0),
            Act::Attach { array } => ('A', whole(array), 0, 0),
            Act::Detach { array } => ('D', whole(array), 0, 0),
            Act::Renew { array } => ('U', whole(array), 0, 0),
            Act::Through { s, by } => ('t', s, by.m, by.c),
            Act::Drop { array } => ('d', whole(array), 0, 0),
            Act::HostFill { s, c } => ('F', s, c, 0),
            Act::HostScalar { x, c } => ('S', whole(x), c, 0),
            Act::Check { s, value } => ('?', s, value, 0),
            Act::CheckScalar { x, value } => ('!', whole(x), value, 0),
            Act::Present { s, present } => ('P', s, present.into(), 0),
        };
        format!("{letter} {} {} {} {} {} {v} {w}", self.device, self.queue, s.array, s.lo, s.n)
    }

    /// Returns the operation as C.
    fn statement(&self) -> String {
        let q = self.queue;
        let clause = if q == SYNC { String::new() } else { format!(" async({q})") };
        let name = |s: Section| {
            let size = SIZES[s.array / 2];
            format!("a{}[{}:{}]", s.array, s.lo * size, s.n * size)
        };
        let routine = |name: &str, s: Section| {
            let size = SIZES[s.array / 2];
            format!("{name}_async(a{} + {}, {} * sizeof(int), {q});", s.array, s.lo * size, s.n * size)
        };
        let each = |clauses: &str, s: Section, body: String| {
            let size = SIZES[s.array / 2];
            let (from, to) = (s.lo * size, (s.lo + s.n) * size);
            format!("#pragma acc parallel loop {clauses}{clause}\nfor (int i = {from}; i < {to}; i++) {body}")
        };
        let copy = |name: &str, dst: String, src: String, s: Section| {
            format!("acc_memcpy_{name}_async({dst}, {src}, {} * sizeof(int), {q});", s.n * SIZES[s.array / 2])
        };
        let host = |s: Section| format!("a{} + {}", s.array, s.lo * SIZES[s.array / 2]);
        let there = |s: Section| format!("acc_deviceptr({})", host(s));
        match self.act {
            Act::Enter { s, copy_in, routine: true } => routine(if copy_in { "acc_copyin" } else { "acc_create" }, s),
            Act::Enter { s, copy_in, .. } => {
                let kind = if copy_in { "copyin" } else { "create" };
                format!("#pragma acc enter data {kind}({}){clause}", name(s))
            }
            Act::Exit { s, out, finalize, routine: true } => {
                let kind = if out { "acc_copyout" } else { "acc_delete" };
                routine(&format!("{kind}{}", if finalize { "_finalize" } else { "" }), s)
            }
            Act::Exit { s, out, finalize, .. } => {
                let kind = if out { "copyout" } else { "delete" };
                format!("#pragma acc exit data {kind}({}){}{clause}", name(s), if finalize { " finalize" } else { "" })
            }
            Act::Region { s, kind } => {
                format!("#pragma acc data {}({})\n{{", format!("{kind:?}").to_lowercase(), name(s))
            }
            Act::EndRegion => "}".to_owned(),
            Act::Update { s, out, routine: true } => {
                routine(if out { "acc_update_self" } else { "acc_update_device" }, s)
            }
            Act::Update { s, out, .. } => {
                format!("#pragma acc update {}({}){clause}", if out { "self" } else { "device" }, name(s))
            }
            Act::Fill { s, c } => each(&format!("present({})", name(s)), s, format!("a{}[i] = {c};", s.array)),
            Act::Change { s, by } => {
                let clauses = format!("present({})", name(s));
                each(&clauses, s, format!("a{0}[i] = a{0}[i] * {1} + {2};", s.array, by.m, by.c))
            }
            Act::Add { s } => {
                let clauses = format!("present({}, {})", name(s), name(s.partner()));
                each(&clauses, s, format!("a{0}[i] = a{0}[i] * 3 + a{1}[i];", s.partner().array, s.array))
            }
            Act::Copied { s, by } => {
                let clauses = format!("copy({})", name(s));
                each(&clauses, s, format!("a{0}[i] = a{0}[i] * {1} + {2};", s.array, by.m, by.c))
            }
            Act::CopiedIn { s } => {
                let clauses = format!("copyin({}) present({})", name(s), name(s.partner()));
                each(&clauses, s, format!("a{0}[i] = a{0}[i] * 3 + a{1}[i];", s.partner().array, s.array))
            }
            Act::CopiedOut { s, c } => each(&format!("copyout({})", name(s)), s, format!("a{}[i] = {c};", s.array)),
            Act::Scalar { x, by } => {
                format!("#pragma acc parallel copy(x{x}){clause}\nx{x} = x{x} * {} + {};", by.m, by.c)
            }
            Act::ByValue { s, x } => {
                let clauses = format!("present({}) firstprivate(x{x})", name(s));
                each(&clauses, s, format!("a{}[i] += x{x};", s.array))
            }
            Act::Spin { rounds } => format!("spin({rounds}, {q});"),
            Act::Wait { how: 2 } => format!("while (!acc_async_test({q})) ;"),
            Act::Wait { .. } => format!("#pragma acc wait({q})"),
            Act::WaitAll => "#pragma acc wait".to_owned(),
            Act::WaitAsync { other, .. } => format!("#pragma acc wait({other}) async({q})"),
            Act::WaitAllAsync { .. } => format!("#pragma acc wait async({q})"),
            Act::Across { s, to } => {
                let (at, bytes) = (host(s), s.n * SIZES[s.array / 2]);
                format!("acc_memcpy_d2d_async({at}, {at}, {bytes} * sizeof(int), {to}, {}, {q});", self.device)
            }
            Act::ToDevice { s } => copy("to_device", there(s), host(s.partner()), s),
            Act::FromDevice { s } => copy("from_device", host(s.partner()), there(s), s),
            Act::Within { s } => copy("device", there(s), there(s.partner()), s),
            Act::Hold { array } => format!("h{}.p = a{array};\n#pragma acc enter data copyin(h{0}){clause}", array / 2),
            Act::Attach { array } => format!("acc_attach_async((void **)&h{}.p, {q});", array / 2),
            Act::Detach { array } => format!("acc_detach_async((void **)&h{}.p, {q});", array / 2),
            Act::Renew { array } => format!("#pragma acc update device(h{}){clause}", array / 2),
            Act::Through { s, by } => {
                let clauses = format!("present(h{})", s.array / 2);
                each(&clauses, s, format!("h{0}.p[i] = h{0}.p[i] * {1} + {2};", s.array / 2, by.m, by.c))
            }
            Act::Drop { array } => format!("#pragma acc exit data delete(h{}){clause}", array / 2),
            Act::HostFill { s, c } => {
                let size = SIZES[s.array / 2];
                let (from, to) = (s.lo * size, (s.lo + s.n) * size);
                format!("for (int i = {from}; i < {to}; i++) a{}[i] = {c};", s.array)
            }
            Act::HostScalar { x, c } => format!("x{x} = {c};"),
            Act::Check { s, value } => format!("CHECK_ALL({}, {}, {value});", host(s), s.n * SIZES[s.array / 2]),
            Act::CheckScalar { x, value } => format!("CHECK_EQ(x{x}, {value});"),
            Act::Present { s, present } => {
                let no = if present { "" } else { "!" };
                format!("CHECK({no}acc_is_present({}, {} * sizeof(int)));", host(s), s.n * SIZES[s.array / 2])
            }
        }
    }
}

/// Returns a whole program that can be read and compiled; `support/check.h` is next to the tests.
pub(crate) fn program(ops: &[Op]) -> String {
    let mut text = "#include \"check.h\"\n\n".to_owned();
    let all = ops.iter().map(Op::statement).collect::<Vec<_>>();
    let used = |name: &str| all.iter().any(|statement| statement.contains(name));
    for array in (0..ARRAYS).filter(|array| used(&format!("a{array}[")) || used(&format!("a{array} "))) {
        text += &format!("static int a{array}[{}];\n", BLOCKS * SIZES[array / 2]);
    }
    (0..SCALARS).filter(|x| used(&format!("x{x}"))).for_each(|x| text += &format!("static int x{x};\n"));
    let holders = (0..SHAPES).filter(|h| used(&format!("h{h}")));
    holders.for_each(|h| text += &format!("static struct {{ int *p; int pad[6]; }} h{h};\n"));
    if used("spin(") {
        text += "\nstatic void spin(int rounds, int queue)\n{\n#pragma acc parallel async(queue)\n    {\n        \
                 volatile int x = 0;\n        for (int i = 0; i < rounds; i++)\n            x = x + i;\n    }\n}\n";
    }
    text += "\nint main(void)\n{\n";
    let (mut device, mut depth) = (usize::MAX, 1);
    for (op, statement) in ops.iter().zip(&all) {
        depth -= usize::from(op.act == Act::EndRegion);
        if op.act != Act::EndRegion && device != op.device {
            device = op.device;
            text += &format!("{}acc_set_device_num({device}, acc_get_device_type());\n", "    ".repeat(depth));
        }
        for line in statement.lines() {
            let indent = if line.starts_with('#') { String::new() } else { "    ".repeat(depth) };
            text += &format!("{indent}{line}\n");
        }
        depth += usize::from(matches!(op.act, Act::Region { .. }));
    }
    text + "    return pass();\n}\n"
}
