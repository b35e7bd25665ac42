//! Several gangs in one thread block.
//!
//! GCC gives a plain loop gangs of one warp, and each gang a thread block. A multiprocessor holds 32 blocks, but 64 warps. So half of them stay empty, and
//! too few loads are in flight to saturate the memory. Therefore such gangs are launched next to each other in the z dimension of larger blocks, which
//! GCC's code never uses. A kernel's gang number is then `%ctaid.x * %ntid.z + %tid.z`, and the number of gangs is `%nctaid.x * %ntid.z`; with one gang
//! per block these are the original values.
//!
//! The result is the same if a gang does not depend on its block. Such a gang is one warp. Its code has only known instructions, and calls only such
//! functions. It uses no barrier but the warp's own, no shared memory, and no thread or block number but that in its warp and the gang's. Warps
//! of one block make progress independently, as blocks do.

use super::Image;
use super::definitions::{Definition, definitions};
use super::ptx::{Instruction, Line, code, is_register};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt;

/// The reason why gangs of a region need thread blocks of their own.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum OwnBlockReason {
    /// The gangs have more than one warp.
    Warps,
    /// The code uses shared memory.
    SharedMemory,
    /// The code waits for its block by this instruction.
    Barrier(String),
    /// The code uses this thread or block number.
    Number(String),
    /// The code has this unknown line.
    Unknown(String),
    /// The code calls this function, which is not in the image.
    Elsewhere(String),
    /// The code calls a function by its address.
    Address,
    /// The code calls this function, for which this reason holds.
    Calls(String, Box<Self>),
    /// The image has no kernel of this name.
    NoKernel,
}

impl fmt::Display for OwnBlockReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Warps => f.write_str("a gang has more than one warp"),
            Self::SharedMemory => f.write_str("it uses shared memory"),
            Self::Barrier(name) => write!(f, "it waits for its thread block by \"{name}\""),
            Self::Number(name) => write!(f, "it reads {name}"),
            Self::Unknown(code) => write!(f, "it has \"{code}\", which is not known"),
            Self::Elsewhere(name) => write!(f, "it calls {name}, whose code is not in the image"),
            Self::Address => f.write_str("it calls a function by its address"),
            Self::Calls(name, why) => write!(f, "it calls {name}: {why}"),
            Self::NoKernel => f.write_str("its kernel is written in an unknown form"),
        }
    }
}

/// Returns, for each region of an image, the reason why its gangs can't share thread blocks, or `None` if they can.
pub fn gangs_apart(image: &Image) -> Vec<Option<OwnBlockReason>> {
    let texts: Vec<_> = image.objects.iter().map(|object| String::from_utf8_lossy(object)).collect();
    let mut known: BTreeMap<&str, Code<'_>> = BTreeMap::new();
    let lines: Vec<Vec<&str>> = texts.iter().map(|text| text.lines().collect()).collect();
    for lines in &lines {
        let shared = shared_variables(lines);
        for definition in definitions(lines) {
            let Some(name) = definition.name() else { continue };
            // Functions of several objects may have one name. Which one is called is not resolved, so that all of them count.
            let code = known.entry(name).or_default();
            code.read(&definition, lines, &shared);
        }
    }
    let region = |function: &super::ImageFunction| match function.dims {
        [_, 1, 32] if known.contains_key(&*function.name) => why(&function.name, &known, &mut BTreeSet::new()),
        [_, 1, 32] => Some(OwnBlockReason::NoKernel),
        _ => Some(OwnBlockReason::Warps),
    };
    image.functions.iter().map(region).collect()
}

/// Functions of the driver, which do not depend on blocks.
const OF_DRIVER: [&str; 3] = ["vprintf", "malloc", "free"];

/// Returns the reason why a kernel or function needs blocks of its own, by its own code or by functions that it may call.
fn why<'a>(name: &'a str, known: &BTreeMap<&'a str, Code<'a>>, seen: &mut BTreeSet<&'a str>) -> Option<OwnBlockReason> {
    let Some(code) = known.get(name) else {
        return (!OF_DRIVER.contains(&name)).then(|| OwnBlockReason::Elsewhere(name.to_owned()));
    };
    if code.apart.is_some() {
        return code.apart.clone();
    }
    code.calls.iter().find_map(|called| {
        if !seen.insert(called) {
            return None;
        }
        match why(called, known, seen)? {
            why @ OwnBlockReason::Elsewhere(_) => Some(why),
            why => Some(OwnBlockReason::Calls((*called).to_owned(), Box::new(why))),
        }
    })
}

/// Returns new text of the lines of a kernel's body that read the gang's number or the number of gangs. Returns `None` if its gangs can't share blocks.
pub(super) fn gang_numbers(
    lines: &[&str],
    kernel: &Definition<'_>,
    shared: &HashSet<&str>,
) -> Option<Vec<(usize, String)>> {
    let mut code = Code::default();
    code.read(kernel, lines, shared);
    code.apart.is_none().then(|| {
        let read = kernel.body.clone().filter_map(|at| {
            let line = Line::read(lines[at]);
            let (to, number) = gang_number(line.instruction()?)?;
            Some((at, write(to, number)))
        });
        read.collect()
    })
}

fn write(to: &str, number: Number) -> String {
    let compute = match number {
        Number::Own => {
            format!("mov.u32 %accord_gang,%tid.z;\nmad.lo.u32 {to},%accord_block,%accord_gangs,%accord_gang;")
        }
        Number::All => format!("mul.lo.u32 {to},%accord_block,%accord_gangs;"),
    };
    let (from, register) = match number {
        Number::Own => ("%ctaid.x", "\n.reg .u32 %accord_gang;"),
        Number::All => ("%nctaid.x", ""),
    };
    format!(
        "{{\n.reg .u32 %accord_block;\n.reg .u32 %accord_gangs;{register}\n\
         mov.u32 %accord_block,{from};\nmov.u32 %accord_gangs,%ntid.z;\n{compute}\n}}"
    )
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Number {
    /// The gang's own.
    Own,
    /// The number of gangs.
    All,
}

/// Returns the register into which an instruction loads one of the numbers, in GCC's form.
fn gang_number<'a>(instruction: &Instruction<'a>) -> Option<(&'a str, Number)> {
    let &[to, from] = &instruction.operands[..] else { return None };
    let number = match from {
        "%ctaid.x" => Number::Own,
        "%nctaid.x" => Number::All,
        _ => return None,
    };
    (instruction.name == "mov.u32" && instruction.guard.is_none() && is_register(to)).then_some((to, number))
}

/// The effects of a kernel's or function's code.
#[derive(Default)]
struct Code<'a> {
    apart: Option<OwnBlockReason>,
    calls: BTreeSet<&'a str>,
}

/// Instructions that concern only a thread or its warp, by their names up to the first dot.
const KNOWN: [&str; 75] = [
    "abs",
    "activemask",
    "add",
    "addc",
    "and",
    "atom",
    "bfe",
    "bfi",
    "bfind",
    "bra",
    "brev",
    "brx",
    "call",
    "clz",
    "cnot",
    "copysign",
    "cos",
    "cvt",
    "cvta",
    "div",
    "dp2a",
    "dp4a",
    "ex2",
    "exit",
    "fence",
    "fma",
    "fns",
    "isspacep",
    "ld",
    "ldu",
    "lg2",
    "lop3",
    "mad",
    "mad24",
    "madc",
    "max",
    "membar",
    "min",
    "mov",
    "mul",
    "mul24",
    "nanosleep",
    "neg",
    "not",
    "or",
    "popc",
    "prefetch",
    "prmt",
    "rcp",
    "red",
    "rem",
    "ret",
    "rsqrt",
    "sad",
    "selp",
    "set",
    "setp",
    "shf",
    "shl",
    "shr",
    "sin",
    "slct",
    "sqrt",
    "st",
    "sub",
    "subc",
    "tanh",
    "testp",
    "trap",
    "vadd",
    "vmad",
    "vshl",
    "vshr",
    "vsub",
    "xor",
];
/// Operations between the threads of a warp, with their mask only.
const OF_WARP: [&str; 4] = ["match", "redux", "shfl", "vote"];
/// Numbers that do not change in blocks of several gangs.
const SAME: [&str; 11] = [
    "%tid.x",
    "%ntid.x",
    "%laneid",
    "%lanemask_eq",
    "%lanemask_le",
    "%lanemask_lt",
    "%lanemask_ge",
    "%lanemask_gt",
    "%clock",
    "%clock64",
    "%globaltimer",
];

impl<'a> Code<'a> {
    fn read(&mut self, definition: &Definition<'a>, lines: &[&'a str], shared: &HashSet<&str>) {
        let body = &lines[definition.body.clone()];
        let mut declared: HashSet<&str> = words(definition.head).collect();
        declared.extend(body.iter().map(|line| code(line)).filter(|code| is_declaration(code)).flat_map(words));
        for line in body {
            let apart = self.step(line, definition.is_kernel(), &declared, shared);
            if self.apart.is_none() {
                self.apart = apart;
            }
        }
    }

    fn step(
        &mut self,
        line: &'a str,
        in_kernel: bool,
        declared: &HashSet<&str>,
        shared: &HashSet<&str>,
    ) -> Option<OwnBlockReason> {
        let code = code(line);
        let read = Line::read(line);
        let instruction = match &read {
            Line::Empty | Line::Label(_) | Line::Register => return None,
            Line::Other if matches!(code, "{" | "}") || is_declaration(code) => return None,
            Line::Other if code.starts_with(".loc ") || code.starts_with(".file ") => return None,
            Line::Other if code.starts_with(".shared ") => return Some(OwnBlockReason::SharedMemory),
            Line::Other => return Some(OwnBlockReason::Unknown(code.to_owned())),
            Line::Instruction(instruction) => instruction,
        };
        let name = instruction.name;
        let mut parts = name.split('.');
        let kind = parts.next().unwrap_or_default();
        if parts.any(|part| part.starts_with("shared")) || words(code).any(|word| shared.contains(word)) {
            return Some(OwnBlockReason::SharedMemory);
        }
        if kind == "bar" || kind == "barrier" {
            return (!name.starts_with("bar.warp.")).then(|| OwnBlockReason::Barrier(code.to_owned()));
        }
        let of_warp = OF_WARP.contains(&kind) && name.split('.').nth(1) == Some("sync");
        if !of_warp && !KNOWN.contains(&kind) {
            return Some(OwnBlockReason::Unknown(code.to_owned()));
        }
        if let Some(called) = instruction.called() {
            if called.starts_with('%') {
                return Some(OwnBlockReason::Address);
            }
            self.calls.insert(called);
        }
        if in_kernel && gang_number(instruction).is_some() {
            return None;
        }
        let strange = |word: &&str| word.starts_with('%') && !declared.contains(word) && !SAME.contains(word);
        words(code).find(strange).map(|word| OwnBlockReason::Number(word.to_owned()))
    }
}

/// Whether a line declares registers, parameters or variables of a thread.
fn is_declaration(code: &str) -> bool {
    [".reg ", ".param ", ".local "].iter().any(|kind| code.starts_with(kind))
}

/// Returns the names and numbers in a line; `%tid.x` is one.
fn words(code: &str) -> impl Iterator<Item = &str> {
    let part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '$' | '%' | '.');
    code.split(move |c| !part(c)).filter(|word| !word.is_empty())
}

/// Returns the shared-memory variables that an object names.
pub(super) fn shared_variables<'a>(lines: &[&'a str]) -> HashSet<&'a str> {
    let declares = |code: &&str| code.starts_with('.') && code.split_whitespace().any(|word| word == ".shared");
    let declared = lines.iter().map(|line| code(line)).filter(declares);
    declared.flat_map(words).filter(|word| word.starts_with(|c: char| !matches!(c, '.' | '0'..='9'))).collect()
}
