//! The symbol table: functions and variables of files without debug information.

use object::{Object, ObjectSymbol, SymbolKind};
use std::ops::Range;

/// Most symbols of one file that are kept.
const SYMBOLS_MAX: usize = 2_000_000;

pub(crate) struct Symbol {
    pub(crate) span: Range<u64>,
    pub(crate) name: String,
}

/// Functions and variables in the order of their addresses.
#[derive(Default)]
pub(crate) struct Symbols {
    functions: Vec<Symbol>,
    variables: Vec<Symbol>,
}

impl Symbols {
    /// Reads the full table, or the dynamic one if the file is stripped.
    pub(crate) fn read<'a>(file: &impl Object<'a>) -> Self {
        let mut all = Self::default();
        for symbol in file.symbols().chain(file.dynamic_symbols()).take(SYMBOLS_MAX) {
            let list = match symbol.kind() {
                SymbolKind::Text => &mut all.functions,
                SymbolKind::Data => &mut all.variables,
                _ => continue,
            };
            if let (Ok(name), false, true) = (symbol.name(), symbol.is_undefined(), symbol.address() != 0) {
                let span = symbol.address()..symbol.address().saturating_add(symbol.size());
                list.push(Symbol { span, name: name.to_owned() });
            }
        }
        for list in [&mut all.functions, &mut all.variables] {
            list.sort_by_key(|symbol| symbol.span.start);
        }
        all
    }

    pub(crate) fn function(&self, offset: u64) -> Option<&Symbol> {
        holding(&self.functions, offset)
    }

    pub(crate) fn variable(&self, offset: u64) -> Option<&Symbol> {
        holding(&self.variables, offset)
    }
}

fn holding(list: &[Symbol], offset: u64) -> Option<&Symbol> {
    let after = list.partition_point(|symbol| symbol.span.start <= offset);
    // Aliases have the same address.
    list[..after].iter().rev().take(8).find(|symbol| symbol.span.contains(&offset))
}
