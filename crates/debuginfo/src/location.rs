//! Evaluates location expressions of variables, for a known frame.

use crate::Memory;
use crate::entry::{Entry, R, Unit, constant, plain_size, type_of};
use gimli::{AttributeValue, EvaluationResult, Expression, Location, Value};

/// Most operations of one expression that are executed.
const OPERATIONS_MAX: u32 = 1000;

/// A call in progress, as an unwinder sees it.
#[derive(Clone, Debug, Default)]
pub struct Frame {
    /// Address of the instruction; for a caller its return address less one.
    pub code: u64,
    /// The canonical frame address: the value that the stack pointer had before the call of this function.
    pub cfa: Option<u64>,
    /// Registers by their DWARF numbers. Those that calls may change are `None`.
    pub registers: [Option<u64>; Self::REGISTERS],
}

impl Frame {
    /// The number of registers that a frame may hold.
    pub const REGISTERS: usize = 32;
}

/// The inputs of an evaluation.
#[derive(Clone, Copy)]
pub(crate) struct Scope<'a> {
    pub(crate) unit: Unit<'a>,
    /// The file's load address.
    pub(crate) base: u64,
    pub(crate) memory: &'a dyn Memory,
    /// The frame, which locals need and static variables don't.
    pub(crate) frame: Option<&'a Frame>,
    pub(crate) frame_base: Option<u64>,
    /// The address of the descriptor by which bounds are computed.
    pub(crate) object: Option<u64>,
}

/// The location or the value of a variable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Found {
    /// The address of the value.
    At(u64),
    /// The value, from a register or computed.
    Value(u64),
}

impl<'a> Scope<'a> {
    /// Creates the scope of static variables.
    pub(crate) fn of_unit(unit: Unit<'a>, base: u64, memory: &'a dyn Memory) -> Self {
        Self { unit, base, memory, frame: None, frame_base: None, object: None }
    }

    /// Creates the scope of the locals of `function`.
    pub(crate) fn of_frame(self, function: &Entry, frame: &'a Frame) -> Self {
        let scope = Self { frame: Some(frame), ..self };
        let frame_base =
            function.attr_value(gimli::DW_AT_frame_base).and_then(|value| scope.locate(value)).map(|found| {
                let (Found::At(base) | Found::Value(base)) = found;
                base
            });
        Self { frame_base, ..scope }
    }

    /// Evaluates a location attribute: an expression, or a list of expressions by code address.
    pub(crate) fn locate(&self, value: AttributeValue<R>) -> Option<Found> {
        if let AttributeValue::Exprloc(expression) = value {
            return self.evaluate(expression, None);
        }
        let code = self.frame?.code.wrapping_sub(self.base);
        let mut list = self.unit.attr_locations(value).ok()??;
        while let Ok(Some(entry)) = list.next() {
            if (entry.range.begin..entry.range.end).contains(&code) {
                return self.evaluate(entry.data, None);
            }
        }
        None
    }

    /// Evaluates an expression. `object` is the address of the object that contains the value.
    pub(crate) fn evaluate(&self, expression: Expression<R>, object: Option<u64>) -> Option<Found> {
        let mut evaluation = expression.evaluation(self.unit.encoding());
        evaluation.set_max_iterations(OPERATIONS_MAX);
        if let Some(object) = object {
            evaluation.set_object_address(object);
        }
        let mut result = evaluation.evaluate().ok()?;
        for _ in 0..OPERATIONS_MAX {
            result = match result {
                EvaluationResult::Complete => break,
                EvaluationResult::RequiresMemory { address, size, space: None, .. } => {
                    let mut bytes = [0; 8];
                    let size = usize::from(size).min(8);
                    if !self.memory.read(address, &mut bytes[..size]) {
                        return None;
                    }
                    evaluation.resume_with_memory(Value::Generic(u64::from_le_bytes(bytes)))
                }
                EvaluationResult::RequiresRegister { register, .. } => {
                    evaluation.resume_with_register(Value::Generic(self.register(register.0)?))
                }
                EvaluationResult::RequiresFrameBase => evaluation.resume_with_frame_base(self.frame_base?),
                EvaluationResult::RequiresCallFrameCfa => evaluation.resume_with_call_frame_cfa(self.frame?.cfa?),
                EvaluationResult::RequiresRelocatedAddress(address) => {
                    evaluation.resume_with_relocated_address(address.wrapping_add(self.base))
                }
                EvaluationResult::RequiresIndexedAddress { index, relocate } => {
                    let address = self.unit.address(index).ok()?;
                    let base = if relocate { self.base } else { 0 };
                    evaluation.resume_with_indexed_address(address.wrapping_add(base))
                }
                EvaluationResult::RequiresBaseType(_) => evaluation.resume_with_base_type(gimli::ValueType::Generic),
                // Values at entry and thread-local storage are not supported.
                _ => return None,
            }
            .ok()?;
        }
        let pieces = evaluation.result();
        match pieces.as_slice() {
            [piece] if piece.bit_offset.is_none() => match &piece.location {
                Location::Address { address } => Some(Found::At(*address)),
                Location::Register { register } => self.register(register.0).map(Found::Value),
                Location::Value { value } => value.to_u64(u64::MAX).ok().map(Found::Value),
                _ => None,
            },
            _ => None,
        }
    }

    fn register(&self, number: u16) -> Option<u64> {
        *self.frame?.registers.get(usize::from(number))?
    }

    /// A number that may be constant, computed, or the value of another variable.
    pub(crate) fn bound(&self, value: AttributeValue<R>) -> Option<i64> {
        if let Some(constant) = constant(&value) {
            return Some(constant);
        }
        if let AttributeValue::Exprloc(expression) = value {
            return match self.evaluate(expression, self.object)? {
                // The result of an expression for a bound is the bound itself.
                Found::At(value) | Found::Value(value) => Some(value.cast_signed()),
            };
        }
        let variable = self.unit.entry(crate::entry::in_unit(self.unit, value)?).ok()?;
        match self.locate(variable.attr_value(gimli::DW_AT_location)?)? {
            Found::Value(value) => Some(value.cast_signed()),
            Found::At(address) => {
                let size = type_of(self.unit, &variable).and_then(|at| plain_size(self.unit, at));
                let mut bytes = [0; 8];
                let size = usize::try_from(size.unwrap_or(8)).ok().filter(|size| (1..=8).contains(size))?;
                self.memory.read(address, &mut bytes[..size]).then(|| {
                    let unused = 64 - 8 * size as u32;
                    (i64::from_le_bytes(bytes) << unused) >> unused
                })
            }
        }
    }
}
