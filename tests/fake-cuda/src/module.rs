//! Modules. The "machine code" is the PTX with a word before it, and is parsed as far as a launch needs.

use crate::control::{self, INVALID_VALUE, NOT_FOUND};
use crate::memory;
use std::collections::HashMap;

const MAGIC: &str = "FAKE CUBIN\n";

pub(crate) struct Module {
    text: String,
    device: i32,
    variables: HashMap<String, (u64, usize)>,
}

/// A kernel with the facts that a launch needs.
#[derive(Clone)]
pub(crate) struct Function {
    pub(crate) name: String,
    /// Size of the parameter.
    pub(crate) bytes: usize,
    form: Form,
    /// Most bytes of dynamic shared memory.
    pub(crate) shared_max: i32,
}

/// Most bytes of dynamic shared memory without `cuFuncSetAttribute`.
const SHARED_MAX: i32 = 49152;

/// How a kernel gets what a launch passes.
#[derive(Clone, Copy)]
enum Form {
    /// By the address of its block.
    BlockAddress,
    /// In its parameter: offset of the mask, and number of slots.
    Block { mask: usize, slots: usize },
    /// In parameters of its own, as CUDA's kernels do.
    Own,
}

/// The dimensions of a launch, and its dynamic shared memory.
#[derive(Clone, Copy)]
pub(crate) struct Dimensions {
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    pub(crate) shared: u32,
}

pub(crate) fn link(texts: &[String]) -> Result<Vec<u8>, i32> {
    control::count_link();
    let mut code = MAGIC.to_owned();
    for text in texts {
        if !text.contains(".version ") {
            return Err(218);
        }
        code.push_str(text);
    }
    code.push('\0');
    Ok(code.into_bytes())
}

impl Module {
    pub(crate) fn load(code: &str, device: i32) -> Result<Self, i32> {
        // The driver accepts PTX too.
        let ptx = || code.starts_with(".version ").then_some(code);
        let text = code.strip_prefix(MAGIC).or_else(ptx).ok_or(200)?.to_owned();
        let mut variables = HashMap::new();
        let mut lines = text.lines();
        while let Some(line) = lines.next() {
            // .visible .global .align 4 .u32 variable[1] = / {41 };
            let Some(rest) = line.strip_prefix(".visible .global .align ") else { continue };
            let mut words = rest.split_whitespace().skip(1);
            let (Some(kind), Some(name)) = (words.next(), words.next()) else { continue };
            let width = kind.get(2..).and_then(|bits| bits.parse::<usize>().ok()).unwrap_or(8) / 8;
            let name = name.trim_end_matches(';');
            let (name, count) = name.split_once('[').unwrap_or((name, "1]"));
            let count: usize = count.trim_end_matches(']').parse().map_err(|_| INVALID_VALUE)?;
            let start = memory::allocate(device, width * count)?;
            let inline = line.split_once("= {").map(|(_, values)| values);
            if inline.is_some() || line.ends_with('=') {
                let values = inline.or_else(|| lines.next()).unwrap_or("").trim_matches(['{', '}', ';', ' ']);
                for (index, value) in values.split(',').enumerate() {
                    let value: u64 = value.trim().parse().map_err(|_| INVALID_VALUE)?;
                    // SAFETY: the variable was just allocated, with `count` elements of `width` bytes.
                    unsafe {
                        let to = (start as *mut u8).add(index * width);
                        to.copy_from_nonoverlapping(value.to_ne_bytes().as_ptr(), width);
                    }
                }
            }
            variables.insert(name.to_owned(), (start, width * count));
        }
        Ok(Self { text, device, variables })
    }

    pub(crate) fn variable(&self, name: &str) -> Result<(u64, usize), i32> {
        self.variables.get(name).copied().ok_or(NOT_FOUND)
    }

    pub(crate) fn function(&self, name: &str) -> Result<Function, i32> {
        if self.text.contains(&format!(".entry {name}(")) {
            return Ok(Function { name: name.to_owned(), bytes: 0, form: Form::Own, shared_max: SHARED_MAX });
        }
        let head = format!(".entry {name} (");
        let (_, body) = self
            .text
            .split(&head)
            .skip(1)
            .filter_map(|rest| rest.split_once('\n'))
            .find(|(parameters, _)| !parameters.ends_with(';'))
            .ok_or(NOT_FOUND)?;
        let parameters = self.text.split(&head).nth(1).unwrap_or("");
        let number = |text: &str| text.split(|c: char| !c.is_ascii_digit()).next()?.parse::<usize>().ok();
        let bytes = parameters.strip_prefix(".param .align 16 .b8 %in_ar0[").and_then(number).unwrap_or(8);
        let body = body.split("\n.entry ").next().unwrap_or(body);
        let form = if bytes == 8 {
            Form::BlockAddress
        } else {
            let mask = body.split_once("%accord_mask,[%in_ar0+").and_then(|(_, rest)| number(rest)).unwrap_or(0);
            let slots = body.split("ld.param.u64 %accord_slot,[%in_ar0+").skip(1).filter_map(number);
            Form::Block { mask, slots: slots.max().map_or(0, |last| last / 8 + 1) }
        };
        Ok(Function { name: name.to_owned(), bytes, form, shared_max: SHARED_MAX })
    }

    pub(crate) fn unload(&self) {
        for (start, _) in self.variables.values() {
            let _ = memory::free_allocation(*start);
        }
        let _ = self.device;
    }
}

impl Function {
    /// Runs the kernel, as a stream's thread. One with parameters of its own gets grid, block, shared memory, the address of its parameter
    /// buffer and the buffer's size.
    pub(crate) fn run(&self, parameter: &[u8], dimensions: Dimensions) {
        let Some(kernel) = control::kernel(&self.name) else { return };
        let word = |at: usize| u64::from_ne_bytes(parameter[at..at + 8].try_into().expect("8 bytes"));
        let code = match self.form {
            Form::Block { mask, slots: count } => {
                let base = parameter.as_ptr() as u64;
                let slots: Vec<u64> = (0..count)
                    .map(|slot| word(slot * 8) + base * (word(mask + slot / 64 * 8) >> (slot % 64) & 1))
                    .collect();
                kernel(slots.as_ptr())
            }
            Form::BlockAddress => kernel(word(0) as *const u64),
            Form::Own => {
                let Dimensions { grid, block, shared } = dimensions;
                let axes = [grid, block].concat().into_iter().chain([shared]).map(u64::from);
                let words: Vec<u64> = axes.chain([parameter.as_ptr() as u64, parameter.len() as u64]).collect();
                kernel(words.as_ptr())
            }
        };
        if code != 0 {
            control::lose_context(code);
        }
    }
}
