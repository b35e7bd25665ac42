//! Runs a kernel: gangs, warps and threads take turns at random, each for a random number of instructions.

use super::code::{Atomic, Do, Instruction, Kernel, LOCAL, Operand, PARAMETER, SHARED, Shuffle, Special};
use super::operations::{binary, compare, convert, extend, mask, unary};
use super::random::Random;

const WARP: usize = 32;
/// Most instructions of a kernel. One that runs for longer is wrong.
const STEPS_MAX: u64 = 20_000_000;
/// Most instructions of a thread in a row.
const TURN_MAX: u64 = 48;

/// The device's own memory: contiguous buffers.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct Memory {
    pub(crate) buffers: Vec<(u64, Vec<u8>)>,
}

impl Memory {
    fn find(&mut self, address: u64, bytes: usize) -> Option<&mut [u8]> {
        self.buffers.iter_mut().find_map(|(start, buffer)| {
            let at = usize::try_from(address.checked_sub(*start)?).ok()?;
            buffer.get_mut(at..at.checked_add(bytes)?)
        })
    }
}

/// The parameters of a launch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Launch<'a> {
    pub(crate) gangs: u32,
    pub(crate) workers: u32,
    pub(crate) vector: u32,
    /// Gangs that share a block.
    pub(crate) of_block: u32,
    pub(crate) parameter: &'a [u8],
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ThreadState {
    Ready,
    /// Waits at this instruction for the others of its warp.
    AtWarp(usize),
    /// Waits at this instruction for so many threads of its block at this barrier.
    AtBarrier {
        at: usize,
        number: u64,
        threads: usize,
    },
    Done,
}

struct Thread {
    registers: Vec<u64>,
    local: Vec<u8>,
    next: usize,
    state: ThreadState,
    number: [u32; 3],
}

struct Block {
    number: u32,
    threads: Vec<Thread>,
    shared: Vec<u8>,
}

/// Runs a kernel to its end.
///
/// # Errors
/// Returns the fault, with the instruction.
pub(crate) fn run(kernel: &Kernel, launch: Launch<'_>, memory: &mut Memory, random: &mut Random) -> Result<(), String> {
    let size = [launch.vector, launch.workers, launch.of_block];
    let count = size.iter().product::<u32>() as usize;
    let mut blocks: Vec<Block> = (0..launch.gangs / launch.of_block)
        .map(|number| Block {
            number,
            threads: (0..count as u32)
                .map(|thread| Thread {
                    // Random initial values, because no code may rely on them.
                    registers: (0..kernel.registers).map(|_| random.next()).collect(),
                    local: vec![0xa5; kernel.local_bytes as usize],
                    next: 0,
                    state: ThreadState::Ready,
                    number: [thread % size[0], thread / size[0] % size[1], thread / size[0] / size[1]],
                })
                .collect(),
            shared: vec![0x5a; kernel.shared_bytes as usize],
        })
        .collect();
    let mut ready: Vec<(usize, usize)> =
        (0..blocks.len()).flat_map(|block| (0..count).map(move |thread| (block, thread))).collect();
    let mut steps = 0;
    while !ready.is_empty() {
        let chosen = random.below(ready.len() as u64) as usize;
        let (block, thread) = ready[chosen];
        let turn = 1 + random.below(TURN_MAX);
        let mut machine = Machine { kernel, launch, size, memory, block: &mut blocks[block] };
        for _ in 0..turn {
            steps += 1;
            machine.step(thread)?;
            if machine.block.threads[thread].state != ThreadState::Ready {
                break;
            }
        }
        if steps > STEPS_MAX {
            return Err(format!("{} does not end", kernel.name));
        }
        let state = blocks[block].threads[thread].state;
        if state == ThreadState::Ready {
            continue;
        }
        ready.swap_remove(chosen);
        let released = blocks[block].release(kernel, thread, state)?;
        ready.extend(released.into_iter().map(|thread| (block, thread)));
    }
    match blocks.iter().flat_map(|block| &block.threads).find(|thread| thread.state != ThreadState::Done) {
        Some(waiting) => Err(format!("{}: a thread waits for ever: {:?}", kernel.name, waiting.state)),
        None => Ok(()),
    }
}

impl Block {
    /// Releases the threads that waited for this one.
    fn release(&mut self, kernel: &Kernel, thread: usize, state: ThreadState) -> Result<Vec<usize>, String> {
        let here = |at: usize| &kernel.code[at];
        match state {
            ThreadState::Ready | ThreadState::Done => Ok(Vec::new()),
            ThreadState::AtWarp(at) => {
                let warp: Vec<usize> = (thread / WARP * WARP..(thread / WARP + 1) * WARP).collect();
                if let Some(other) = warp.iter().find_map(|&other| match self.threads[other].state {
                    ThreadState::AtWarp(other) if other != at && !same(here(at), here(other)) => Some(other),
                    _ => None,
                }) {
                    return Err(format!(
                        "{}: one warp at \"{}\" and \"{}\"",
                        kernel.name,
                        here(at).text,
                        here(other).text
                    ));
                }
                if !warp.iter().all(|&other| matches!(self.threads[other].state, ThreadState::AtWarp(_))) {
                    return Ok(Vec::new());
                }
                if let Do::Shuffle(shuffle) = here(at).what {
                    self.shuffle(kernel, &warp, shuffle)?;
                }
                self.go_on(&warp);
                Ok(warp)
            }
            ThreadState::AtBarrier { number, threads, .. } => {
                let waiting: Vec<usize> = (0..self.threads.len())
                    .filter(
                        |&other| matches!(self.threads[other].state, ThreadState::AtBarrier { number: n, .. } if n == number),
                    )
                    .collect();
                if waiting.len() < threads {
                    return Ok(Vec::new());
                }
                self.go_on(&waiting);
                Ok(waiting)
            }
        }
    }

    fn go_on(&mut self, threads: &[usize]) {
        for &thread in threads {
            self.threads[thread].state = ThreadState::Ready;
            self.threads[thread].next += 1;
        }
    }

    fn shuffle(&mut self, kernel: &Kernel, warp: &[usize], shuffle: Shuffle) -> Result<(), String> {
        let mut set = Vec::new();
        for (lane, &thread) in warp.iter().enumerate() {
            let instruction = &kernel.code[self.threads[thread].next];
            let value = |thread: usize, operand: Operand| match operand {
                Operand::Register(register) => Ok(self.threads[thread].registers[register]),
                Operand::Constant(value) => Ok(value),
                _ => Err(format!("unknown operand: {}", instruction.text)),
            };
            let &[Operand::Register(to), from, by, bounds, members] = &instruction.operands[..] else {
                return Err(format!("unknown shuffle: {}", instruction.text));
            };
            if mask(value(thread, members)?, 32) != u64::from(u32::MAX) {
                return Err(format!("not all threads of a warp: {}", instruction.text));
            }
            let (by, bounds) = (value(thread, by)? as usize & 31, value(thread, bounds)? as usize);
            let (clamp, segment) = (bounds & 31, bounds >> 8 & 31);
            let (least, most) = (lane & segment, lane & segment | clamp & !segment & 31);
            let (source, inside) = match shuffle {
                Shuffle::Index => (least | by & !segment & 31, (least | by & !segment & 31) <= most),
                Shuffle::Up => (lane.wrapping_sub(by), lane as i64 - by as i64 >= most as i64),
                Shuffle::Down => (lane + by, lane + by <= most),
                Shuffle::Butterfly => (lane ^ by, (lane ^ by) <= most),
            };
            let source = if inside { source } else { lane };
            set.push((thread, to, mask(value(warp[source], from)?, 32)));
        }
        for (thread, to, value) in set {
            self.threads[thread].registers[to] = value;
        }
        Ok(())
    }
}

/// Whether threads of a warp may meet at two instructions, which are copies of one.
fn same(one: &Instruction, other: &Instruction) -> bool {
    one.what == Do::WarpBarrier && other.what == Do::WarpBarrier
}

struct Machine<'r, 'a> {
    kernel: &'r Kernel,
    launch: Launch<'a>,
    size: [u32; 3],
    memory: &'r mut Memory,
    block: &'r mut Block,
}

impl Machine<'_, '_> {
    /// Executes one instruction of a thread.
    fn step(&mut self, at: usize) -> Result<(), String> {
        let kernel = self.kernel;
        let next = self.block.threads[at].next;
        let Some(instruction) = kernel.code.get(next) else {
            return Err(format!("{} runs beyond its end", kernel.name));
        };
        let fault = |why: &str| format!("{}: {why}: {}", kernel.name, instruction.text);
        if let Some((register, wanted)) = instruction.guard
            && (self.block.threads[at].registers[register] & 1 == 1) != wanted
        {
            self.block.threads[at].next += 1;
            return Ok(());
        }
        let operand = |index: usize| instruction.operands.get(index).copied().ok_or_else(|| fault("too few operands"));
        let value = |index: usize| Ok::<u64, String>(self.value(at, operand(index)?));
        let result = match instruction.what {
            Do::Unary(operation, of) => Some(unary(operation, of, value(1)?).ok_or_else(|| fault("no operation"))?),
            Do::Binary(operation, of) => {
                Some(binary(operation, of, value(1)?, value(2)?).ok_or_else(|| fault("no result"))?)
            }
            Do::MultiplyAdd(of) => {
                use super::code::{Binary, Type};
                Some(match of {
                    Type::Float(64) => f64::from_bits(value(1)?)
                        .mul_add(f64::from_bits(value(2)?), f64::from_bits(value(3)?))
                        .to_bits(),
                    Type::Float(_) => {
                        let float = |bits: u64| f32::from_bits(bits as u32);
                        u64::from(float(value(1)?).mul_add(float(value(2)?), float(value(3)?)).to_bits())
                    }
                    _ => {
                        let product =
                            binary(Binary::Multiply, of, value(1)?, value(2)?).ok_or_else(|| fault("no product"))?;
                        binary(Binary::Add, of, product, value(3)?).ok_or_else(|| fault("no sum"))?
                    }
                })
            }
            Do::MultiplyAddWide(of) => {
                use super::code::Binary;
                let product =
                    binary(Binary::MultiplyWide, of, value(1)?, value(2)?).ok_or_else(|| fault("no product"))?;
                Some(mask(product.wrapping_add(value(3)?), of.bits() * 2))
            }
            Do::Then(operation) => {
                let first = binary(operation, super::code::Type::Unsigned(32), value(1)?, value(2)?)
                    .ok_or_else(|| fault("no result"))?;
                Some(mask(first.wrapping_add(value(3)?), 32))
            }
            Do::Convert { to, from } => {
                Some(convert(to, from, value(1)?, &instruction.text).ok_or_else(|| fault("no conversion"))?)
            }
            Do::SetPredicate { compare: how, unordered, with, of } => {
                let holds = compare(how, unordered, of, value(1)?, value(2)?);
                Some(u64::from(match with {
                    None => holds,
                    Some(super::code::Binary::And) => holds && value(3)? & 1 == 1,
                    Some(_) => holds || value(3)? & 1 == 1,
                }))
            }
            Do::SetBits { compare: how, of, to } => {
                let holds = compare(how, false, of, value(1)?, value(2)?);
                Some(if holds { mask(u64::MAX, to.bits()) } else { 0 })
            }
            Do::Select(of) => Some(mask(if value(3)? & 1 == 1 { value(1)? } else { value(2)? }, of.bits())),
            Do::ExtractBits(of) => {
                let (from, start, len) = (value(1)?, value(2)? as u32 & 255, value(3)? as u32 & 255);
                Some(mask(mask(from, of.bits()).checked_shr(start).unwrap_or(0), len.min(of.bits())))
            }
            Do::Load(of) => {
                let address = value(1)?.wrapping_add_signed(instruction.offset);
                Some(extend(
                    of,
                    self.load(at, address, of.bits() as usize / 8)
                        .ok_or_else(|| fault(&format!("no memory at {address:#x}")))?,
                ))
            }
            Do::Store(of) => {
                let address = value(0)?.wrapping_add_signed(instruction.offset);
                let value = value(1)?;
                self.store(at, address, of.bits() as usize / 8, value)
                    .ok_or_else(|| fault(&format!("no memory at {address:#x}")))?;
                None
            }
            Do::Split => {
                let from = value(2)?;
                if let Operand::Register(high) = operand(1)? {
                    self.block.threads[at].registers[high] = from >> 32;
                }
                Some(mask(from, 32))
            }
            Do::Join => Some(mask(value(1)?, 32) | value(2)? << 32),
            Do::Atomic { atomic, of, result } => {
                let first = usize::from(result);
                let (address, bytes) = (value(first)?.wrapping_add_signed(instruction.offset), of.bits() as usize / 8);
                let given = value(first + 1)?;
                let swapped = if atomic == Atomic::CompareAndSwap { value(first + 2)? } else { 0 };
                let found =
                    self.load(at, address, bytes).ok_or_else(|| fault(&format!("no memory at {address:#x}")))?;
                let new = match atomic {
                    Atomic::Exchange => given,
                    Atomic::Binary(operation) => {
                        binary(operation, of, found, given).ok_or_else(|| fault("no result"))?
                    }
                    Atomic::CompareAndSwap if mask(found, of.bits()) == mask(given, of.bits()) => swapped,
                    Atomic::CompareAndSwap => found,
                };
                self.store(at, address, bytes, new);
                result.then_some(found)
            }
            Do::IsGlobal => {
                let address = value(1)?;
                Some(u64::from(self.memory.find(address, 1).is_some()))
            }
            Do::Shuffle(_) | Do::WarpBarrier => {
                self.block.threads[at].state = ThreadState::AtWarp(next);
                return Ok(());
            }
            Do::Barrier => {
                let threads =
                    if instruction.operands.len() > 1 { value(1)? as usize } else { self.block.threads.len() };
                self.block.threads[at].state = ThreadState::AtBarrier { at: next, number: value(0)?, threads };
                return Ok(());
            }
            Do::Fence => None,
            Do::Branch(to) => {
                self.block.threads[at].next = to;
                return Ok(());
            }
            Do::Return => {
                self.block.threads[at].state = ThreadState::Done;
                return Ok(());
            }
        };
        if let Some(result) = result {
            let Operand::Register(to) = operand(0)? else { return Err(fault("no register")) };
            self.block.threads[at].registers[to] = result;
        }
        self.block.threads[at].next += 1;
        Ok(())
    }

    fn value(&self, at: usize, operand: Operand) -> u64 {
        let thread = &self.block.threads[at];
        match operand {
            Operand::Register(register) => thread.registers[register],
            Operand::Constant(value) => value,
            Operand::Nothing => 0,
            Operand::Special(special) => u64::from(match special {
                Special::Thread(axis) => thread.number[axis],
                Special::Threads(axis) => self.size[axis],
                Special::Block(0) => self.block.number,
                Special::Block(_) => 0,
                Special::Blocks(0) => self.launch.gangs / self.launch.of_block,
                Special::Blocks(_) => 1,
            }),
        }
    }

    fn load(&mut self, at: usize, address: u64, bytes: usize) -> Option<u64> {
        let found: &[u8] = match address {
            PARAMETER.. => part(self.launch.parameter, address - PARAMETER, bytes)?,
            LOCAL.. => part(&self.block.threads[at].local, address - LOCAL, bytes)?,
            SHARED.. => part(&self.block.shared, address - SHARED, bytes)?,
            _ => self.memory.find(address, bytes)?,
        };
        let mut value = [0; 8];
        value[..bytes].copy_from_slice(found);
        Some(u64::from_le_bytes(value))
    }

    fn store(&mut self, at: usize, address: u64, bytes: usize, value: u64) -> Option<()> {
        let found: &mut [u8] = match address {
            PARAMETER.. => return None,
            LOCAL.. => part_mut(&mut self.block.threads[at].local, address - LOCAL, bytes)?,
            SHARED.. => part_mut(&mut self.block.shared, address - SHARED, bytes)?,
            _ => self.memory.find(address, bytes)?,
        };
        found.copy_from_slice(&value.to_le_bytes()[..bytes]);
        Some(())
    }
}

fn part(all: &[u8], at: u64, bytes: usize) -> Option<&[u8]> {
    all.get(at as usize..at as usize + bytes)
}

fn part_mut(all: &mut [u8], at: u64, bytes: usize) -> Option<&mut [u8]> {
    all.get_mut(at as usize..at as usize + bytes)
}
