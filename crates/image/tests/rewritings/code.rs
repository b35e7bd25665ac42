//! Decodes GCC's PTX for the interpreter. An unknown line is an error, and never ignored.

use std::collections::HashMap;

/// Start addresses of memory that is not the device's: a block's shared memory, a thread's stack, and the kernel's parameters.
pub(crate) const SHARED: u64 = 1 << 40;
pub(crate) const LOCAL: u64 = 2 << 40;
pub(crate) const PARAMETER: u64 = 3 << 40;

/// A type of an instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Type {
    Predicate,
    /// An unsigned number, or bits.
    Unsigned(u32),
    Signed(u32),
    Float(u32),
}

impl Type {
    fn read(name: &str) -> Option<Self> {
        if name == "pred" {
            return Some(Self::Predicate);
        }
        let (kind, bits) = name.split_at_checked(1)?;
        let bits = bits.parse().ok().filter(|bits| [8, 16, 32, 64].contains(bits))?;
        match kind {
            "u" | "b" => Some(Self::Unsigned(bits)),
            "s" => Some(Self::Signed(bits)),
            "f" => Some(Self::Float(bits)),
            _ => None,
        }
    }

    pub(crate) fn bits(self) -> u32 {
        match self {
            Self::Predicate => 1,
            Self::Unsigned(bits) | Self::Signed(bits) | Self::Float(bits) => bits,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Operand {
    Register(usize),
    /// A number, or the address of a variable.
    Constant(u64),
    Special(Special),
    /// The unused result `_`.
    Nothing,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Special {
    Thread(usize),
    Threads(usize),
    Block(usize),
    Blocks(usize),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Unary {
    Move,
    Negate,
    Absolute,
    Not,
    IsZero,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Binary {
    Add,
    Subtract,
    Multiply,
    MultiplyWide,
    MultiplyHigh,
    Divide,
    Remainder,
    Minimum,
    Maximum,
    And,
    Or,
    Xor,
    ShiftLeft,
    ShiftRight,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Compare {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Atomic {
    Exchange,
    Binary(Binary),
    CompareAndSwap,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Shuffle {
    Index,
    Up,
    Down,
    Butterfly,
}

/// The operation of an instruction. The first operand is its result.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Do {
    Unary(Unary, Type),
    Binary(Binary, Type),
    /// The product of two and the sum with the third.
    MultiplyAdd(Type),
    MultiplyAddWide(Type),
    /// The result of two operands, added to the third, in 32 bits.
    Then(Binary),
    Convert {
        to: Type,
        from: Type,
    },
    /// Whether the comparison holds, and the predicate if there is one.
    SetPredicate {
        compare: Compare,
        unordered: bool,
        with: Option<Binary>,
        of: Type,
    },
    SetBits {
        compare: Compare,
        of: Type,
        to: Type,
    },
    Select(Type),
    ExtractBits(Type),
    Load(Type),
    Store(Type),
    Split,
    Join,
    /// Returns the previous value if `result`.
    Atomic {
        atomic: Atomic,
        of: Type,
        result: bool,
    },
    IsGlobal,
    Shuffle(Shuffle),
    WarpBarrier,
    /// Number and threads.
    Barrier,
    Fence,
    Branch(usize),
    Return,
}

#[derive(Clone, Debug)]
pub(crate) struct Instruction {
    /// The register of the predicate, and the value that it must have.
    pub(crate) guard: Option<(usize, bool)>,
    pub(crate) what: Do,
    pub(crate) operands: Vec<Operand>,
    /// Added to the operand with an address.
    pub(crate) offset: i64,
    pub(crate) text: String,
}

/// One kernel.
#[derive(Debug)]
pub(crate) struct Kernel {
    pub(crate) name: String,
    pub(crate) code: Vec<Instruction>,
    pub(crate) registers: usize,
    pub(crate) local_bytes: u64,
    pub(crate) shared_bytes: u64,
}

/// Decodes the kernels of an object.
///
/// # Errors
/// Returns the unknown line, and its kernel.
pub(crate) fn read(text: &str) -> Result<Vec<Kernel>, String> {
    let lines: Vec<&str> = text.lines().map(|line| line.split("//").next().unwrap_or("").trim()).collect();
    let (mut shared, mut shared_bytes) = (HashMap::new(), 0u64);
    for line in
        lines.iter().filter(|line| line.starts_with('.') && line.split_whitespace().any(|word| word == ".shared"))
    {
        let (name, bytes) = variable(line).ok_or_else(|| format!("unknown variable: {line}"))?;
        shared_bytes = shared_bytes.next_multiple_of(16);
        // The function may be declared before its definition.
        shared.entry(name).or_insert_with(|| {
            let start = SHARED + shared_bytes;
            shared_bytes += bytes;
            start
        });
    }
    let (mut kernels, mut at) = (Vec::new(), 0);
    while at < lines.len() {
        let head = lines[at].strip_prefix(".visible ").unwrap_or(lines[at]);
        let open = lines.get(at + 1).copied();
        if let Some(rest) = head.strip_prefix(".entry ").filter(|rest| !rest.ends_with(';'))
            && open == Some("{")
        {
            let name = rest.split([' ', '(']).next().unwrap_or_default().to_owned();
            let mut reader = Reader::new(&shared);
            let (mut depth, mut end) = (0, at + 1);
            while end < lines.len() {
                depth += i32::from(lines[end] == "{") - i32::from(lines[end] == "}");
                reader.line(lines[end]).map_err(|why| format!("{name}: {why}: {}", lines[end]))?;
                end += 1;
                if depth == 0 {
                    break;
                }
            }
            kernels.push(reader.finish(name, shared_bytes)?);
            at = end;
        } else {
            at += 1;
        }
    }
    Ok(kernels)
}

/// Returns name and bytes of `.shared .align 8 .b8 name[32];`.
fn variable(line: &str) -> Option<(String, u64)> {
    let declared = line.trim_end_matches(';').split_whitespace().last()?;
    let kind = line.split_whitespace().filter_map(|word| Type::read(word.strip_prefix('.')?)).next_back()?;
    let (name, count) = match declared.split_once('[') {
        Some((name, count)) => (name, count.trim_end_matches(']').parse::<u64>().ok()?),
        None => (declared, 1),
    };
    Some((name.to_owned(), count * u64::from(kind.bits() / 8)))
}

struct Reader<'a> {
    names: HashMap<String, usize>,
    /// Addresses of variables by name.
    variables: HashMap<String, u64>,
    shared: &'a HashMap<String, u64>,
    labels: HashMap<String, usize>,
    /// Branches and their targets.
    branches: Vec<(usize, String)>,
    code: Vec<Instruction>,
    local_bytes: u64,
}

impl<'a> Reader<'a> {
    fn new(shared: &'a HashMap<String, u64>) -> Self {
        Self {
            names: HashMap::new(),
            variables: HashMap::new(),
            shared,
            labels: HashMap::new(),
            branches: Vec::new(),
            code: Vec::new(),
            local_bytes: 0,
        }
    }

    fn finish(mut self, name: String, shared_bytes: u64) -> Result<Kernel, String> {
        for (at, label) in &self.branches {
            let to = self.labels.get(label).ok_or_else(|| format!("{name}: no label {label}"))?;
            self.code[*at].what = Do::Branch(*to);
        }
        let registers = self.names.len();
        Ok(Kernel { name, code: self.code, registers, local_bytes: self.local_bytes, shared_bytes })
    }

    fn line(&mut self, line: &str) -> Result<(), String> {
        if line.is_empty()
            || matches!(line, "{" | "}")
            || [".reg ", ".loc ", ".file "].iter().any(|known| line.starts_with(known))
        {
            return Ok(());
        }
        if line.starts_with(".local ") {
            let (name, bytes) = variable(line).ok_or("unknown variable")?;
            self.local_bytes = self.local_bytes.next_multiple_of(16);
            self.variables.insert(name, LOCAL + self.local_bytes);
            self.local_bytes += bytes;
            return Ok(());
        }
        if let Some(label) = line.strip_suffix(':') {
            let again = self.labels.insert(label.to_owned(), self.code.len());
            return if again.is_none() { Ok(()) } else { Err("a label twice".to_owned()) };
        }
        let text = line.strip_suffix(';').ok_or("no instruction")?;
        if text.contains(';') {
            return Err("two instructions".to_owned());
        }
        let (guard, text) = match text.strip_prefix('@') {
            None => (None, text),
            Some(rest) => {
                let rest = rest.trim_start();
                let (wanted, rest) = rest.strip_prefix('!').map_or((true, rest), |rest| (false, rest.trim_start()));
                let (register, rest) = rest.split_once(char::is_whitespace).ok_or("a guard alone")?;
                (Some((self.register(register), wanted)), rest.trim_start())
            }
        };
        let (name, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        let mut instruction =
            Instruction { guard, what: Do::Fence, operands: Vec::new(), offset: 0, text: line.to_owned() };
        let parts: Vec<&str> = name.split('.').collect();
        if parts[0] == "bra" {
            self.branches.push((self.code.len(), rest.trim().to_owned()));
            self.code.push(instruction);
            return Ok(());
        }
        let brace = rest.find('{');
        for operand in rest.replace(['{', '}'], "").split(',').map(str::trim).filter(|operand| !operand.is_empty()) {
            let (operand, predicate) = operand.split_once('|').map_or((operand, None), |(a, b)| (a, Some(b)));
            if predicate.is_some() {
                return Err("a second result".to_owned());
            }
            let read = match operand.strip_prefix('[').and_then(|operand| operand.strip_suffix(']')) {
                None => self.operand(operand)?,
                Some(address) => {
                    let (base, offset) = address.split_once('+').unwrap_or((address, "0"));
                    instruction.offset = offset.trim().parse().map_err(|_| "unknown offset")?;
                    self.operand(base.trim())?
                }
            };
            instruction.operands.push(read);
        }
        let kinds: Vec<Type> = parts[1..].iter().filter_map(|part| Type::read(part)).collect();
        let has = |part: &str| parts[1..].contains(&part);
        if let Some(count) = ["v2", "v4"].iter().position(|part| has(part)) {
            return self.vector(&parts, instruction, &kinds, 2 << count);
        }
        instruction.what = what(&parts, &kinds, &has, brace).ok_or("unknown instruction")?;
        if let Do::Atomic { result, .. } = &mut instruction.what
            && *result
            && instruction.operands[0] == Operand::Nothing
        {
            *result = false;
            instruction.operands.remove(0);
        }
        self.code.push(instruction);
        Ok(())
    }

    /// Decodes a load, store or move of a register in parts, one after the other.
    fn vector(&mut self, parts: &[&str], whole: Instruction, kinds: &[Type], count: usize) -> Result<(), String> {
        let &[of] = kinds else { return Err("unknown vector".to_owned()) };
        let what = match parts[0] {
            "ld" => Do::Load(of),
            "st" => Do::Store(of),
            "mov" => Do::Unary(Unary::Move, of),
            _ => return Err("unknown vector".to_owned()),
        };
        let name = |register: usize, names: &HashMap<String, usize>| {
            names.iter().find(|(_, known)| **known == register).map(|(name, _)| name.clone())
        };
        for part in 0..count {
            let mut one = whole.clone();
            one.what = what.clone();
            for (at, operand) in whole.operands.iter().enumerate() {
                let is_address = matches!((parts[0], at), ("ld", 1) | ("st", 0));
                if let (Operand::Register(register), false) = (*operand, is_address) {
                    let name = name(register, &self.names).ok_or("no register")?;
                    one.operands[at] = Operand::Register(self.register(&format!("{name}.{}", &"xyzw"[part..=part])));
                }
            }
            one.offset += (part as i64) * i64::from(of.bits() / 8);
            self.code.push(one);
        }
        Ok(())
    }

    fn register(&mut self, name: &str) -> usize {
        let next = self.names.len();
        *self.names.entry(name.to_owned()).or_insert(next)
    }

    fn operand(&mut self, text: &str) -> Result<Operand, String> {
        if text == "_" {
            return Ok(Operand::Nothing);
        }
        if let Some(address) = self.variables.get(text).or_else(|| self.shared.get(text)) {
            return Ok(Operand::Constant(*address));
        }
        if text == "%in_ar0" {
            return Ok(Operand::Constant(PARAMETER));
        }
        if let Some((name, axis)) = text.split_once('.').filter(|_| !text.starts_with("%r")) {
            let axis = "xyz".find(axis).ok_or("unknown axis")?;
            return Ok(Operand::Special(match name {
                "%tid" => Special::Thread(axis),
                "%ntid" => Special::Threads(axis),
                "%ctaid" => Special::Block(axis),
                "%nctaid" => Special::Blocks(axis),
                _ => return Err("unknown number".to_owned()),
            }));
        }
        if text.starts_with('%') {
            return Ok(Operand::Register(self.register(text)));
        }
        let bits = |digits: &str| u64::from_str_radix(digits, 16).ok();
        let number = if let Some(digits) = ["0f", "0d", "0x"].iter().find_map(|prefix| text.strip_prefix(prefix)) {
            bits(digits)
        } else {
            text.parse::<i64>().map(i64::cast_unsigned).or_else(|_| text.parse()).ok()
        };
        number.map(Operand::Constant).ok_or_else(|| "unknown operand".to_owned())
    }
}

fn compare(name: &str) -> Option<(Compare, bool)> {
    let unordered = name.len() == 3 && name.ends_with('u');
    Some(match &name[..name.len().min(2)] {
        "eq" => (Compare::Equal, unordered),
        "ne" => (Compare::NotEqual, unordered),
        "lt" | "lo" => (Compare::Less, unordered),
        "le" | "ls" => (Compare::LessOrEqual, unordered),
        "gt" | "hi" => (Compare::Greater, unordered),
        "ge" | "hs" => (Compare::GreaterOrEqual, unordered),
        _ => return None,
    })
}

fn binary(name: &str) -> Option<Binary> {
    Some(match name {
        "add" => Binary::Add,
        "sub" => Binary::Subtract,
        "div" => Binary::Divide,
        "rem" => Binary::Remainder,
        "min" => Binary::Minimum,
        "max" => Binary::Maximum,
        "and" => Binary::And,
        "or" => Binary::Or,
        "xor" => Binary::Xor,
        "shl" => Binary::ShiftLeft,
        "shr" => Binary::ShiftRight,
        _ => return None,
    })
}

fn what(parts: &[&str], kinds: &[Type], has: &dyn Fn(&str) -> bool, brace: Option<usize>) -> Option<Do> {
    let (first, last) = (kinds.first().copied(), kinds.last().copied());
    let name = parts[0];
    if let Some(binary) = binary(name) {
        return Some(Do::Binary(binary, last?));
    }
    Some(match name {
        "mov" => match brace {
            Some(0) => Do::Split,
            Some(_) => Do::Join,
            None => Do::Unary(Unary::Move, last?),
        },
        "neg" => Do::Unary(Unary::Negate, last?),
        "abs" => Do::Unary(Unary::Absolute, last?),
        "not" => Do::Unary(Unary::Not, last?),
        "cnot" => Do::Unary(Unary::IsZero, last?),
        "cvta" => Do::Unary(Unary::Move, Type::Unsigned(64)),
        "mul" if has("wide") => Do::Binary(Binary::MultiplyWide, last?),
        "mul" if has("hi") => Do::Binary(Binary::MultiplyHigh, last?),
        "mul" => Do::Binary(Binary::Multiply, last?),
        "mad" if has("wide") => Do::MultiplyAddWide(last?),
        "mad" if has("hi") => return None,
        "mad" | "fma" => Do::MultiplyAdd(last?),
        "vadd" | "vsub" | "vshl" | "vshr"
            if parts[1..4] == ["u32"; 3] && matches!(parts[4..], ["add"] | ["clamp" | "wrap", "add"]) =>
        {
            Do::Then(binary(&name[1..])?)
        }
        "cvt" if kinds.len() == 2 => Do::Convert { to: first?, from: last? },
        "setp" => {
            let (compare, unordered) = compare(parts.get(1)?)?;
            let with = match parts.get(2) {
                Some(&"and") => Some(Binary::And),
                Some(&"or") => Some(Binary::Or),
                _ => None,
            };
            Do::SetPredicate { compare, unordered, with, of: last? }
        }
        "set" if kinds.len() == 2 => {
            let (compare, _) = parts[1..].iter().find_map(|part| compare(part))?;
            Do::SetBits { compare, of: last?, to: first? }
        }
        "selp" => Do::Select(last?),
        "bfe" => Do::ExtractBits(last?),
        "ld" => Do::Load(last?),
        "st" => Do::Store(last?),
        "atom" | "red" => {
            let operation = parts[1..].iter().find(|part| !matches!(**part, "global" | "shared" | "gpu"))?;
            let atomic = match *operation {
                "cas" => Atomic::CompareAndSwap,
                "exch" => Atomic::Exchange,
                other => Atomic::Binary(binary(other)?),
            };
            Do::Atomic { atomic, of: last?, result: name == "atom" }
        }
        "isspacep" if has("global") => Do::IsGlobal,
        "shfl" if has("sync") => Do::Shuffle(match *parts.get(2)? {
            "idx" => Shuffle::Index,
            "up" => Shuffle::Up,
            "down" => Shuffle::Down,
            "bfly" => Shuffle::Butterfly,
            _ => return None,
        }),
        "bar" if parts == ["bar", "warp", "sync"] => Do::WarpBarrier,
        "bar" if parts == ["bar", "sync"] => Do::Barrier,
        "barrier" if has("sync") => Do::Barrier,
        "membar" | "fence" => Do::Fence,
        "ret" | "exit" => Do::Return,
        _ => return None,
    })
}
