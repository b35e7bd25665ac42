//! Writes the generic form.

use super::tree::{Attributes, Module, Op};
use std::fmt::{self, Display, Formatter};

impl Display for Module {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for (name, value) in &self.aliases {
            writeln!(f, "{name} = {value}")?;
        }
        op(&self.op, f)
    }
}

impl Display for Attributes {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("{")?;
        for (at, (name, value)) in self.0.iter().enumerate() {
            let comma = if at == 0 { "" } else { ", " };
            match value {
                Some(value) => write!(f, "{comma}{name} = {value}")?,
                None => write!(f, "{comma}{name}")?,
            }
        }
        f.write_str("}")
    }
}

fn op(op_: &Op, f: &mut Formatter<'_>) -> fmt::Result {
    if let Some(results) = &op_.results {
        write!(f, "{results} = ")?;
    }
    write!(f, "\"{}\"({})", op_.name, op_.operands.join(", "))?;
    if !op_.successors.is_empty() {
        write!(f, "[{}]", op_.successors.join(", "))?;
    }
    if !op_.properties.0.is_empty() {
        write!(f, " <{}>", op_.properties)?;
    }
    for (at, region) in op_.regions.iter().enumerate() {
        f.write_str(if at == 0 { " ({\n" } else { ", {\n" })?;
        for block in region {
            if let Some(label) = &block.label {
                f.write_str(label)?;
                if !block.arguments.is_empty() {
                    let arguments = block.arguments.iter().map(|(name, kind)| format!("{name}: {kind}"));
                    write!(f, "({})", arguments.collect::<Vec<_>>().join(", "))?;
                }
                f.write_str(":\n")?;
            }
            for inner in &block.ops {
                op(inner, f)?;
            }
        }
        f.write_str("}")?;
    }
    if !op_.regions.is_empty() {
        f.write_str(")")?;
    }
    if !op_.attributes.0.is_empty() {
        write!(f, " {}", op_.attributes)?;
    }
    write!(f, " : ({}) -> ({})", op_.operand_types.join(", "), op_.result_types.join(", "))?;
    if !op_.location.is_empty() {
        write!(f, " loc({})", op_.location)?;
    }
    f.write_str("\n")
}
