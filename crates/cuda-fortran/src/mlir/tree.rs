//! Operations, blocks and regions.

/// A top-level operation, and the definitions of attribute and type aliases around it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Module {
    /// Aliases by name, with `#` or `!`, in the order of their definitions.
    pub(crate) aliases: Vec<(String, String)>,
    /// The `builtin.module`.
    pub(crate) op: Op,
}

/// An operation.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Op {
    /// Names of the results: `%3`, or `%3:2` for several.
    pub(crate) results: Option<String>,
    /// The name, such as `fir.load`.
    pub(crate) name: String,
    pub(crate) operands: Vec<String>,
    /// Labels of successor blocks.
    pub(crate) successors: Vec<String>,
    pub(crate) properties: Attributes,
    pub(crate) regions: Vec<Region>,
    pub(crate) attributes: Attributes,
    pub(crate) operand_types: Vec<String>,
    pub(crate) result_types: Vec<String>,
    /// The content of `loc(...)`; empty if there is none.
    pub(crate) location: String,
}

/// A region: blocks in order.
pub(crate) type Region = Vec<Block>;

/// A block.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Block {
    /// The label, such as `^bb1`; the first of a region may have none.
    pub(crate) label: Option<String>,
    /// Name and type of each argument.
    pub(crate) arguments: Vec<(String, String)>,
    pub(crate) ops: Vec<Op>,
}

/// A dictionary of attributes, in order. A unit attribute has no value.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Attributes(pub(crate) Vec<(String, Option<String>)>);

impl Attributes {
    /// Returns the value of `name`, if it has one.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(key, _)| key == name).and_then(|(_, value)| value.as_deref())
    }

    /// Whether `name` is present, with or without a value.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(key, _)| key == name)
    }

    /// Replaces or adds an attribute.
    pub(crate) fn set(&mut self, name: &str, value: impl Into<String>) {
        let value = Some(value.into());
        match self.0.iter_mut().find(|(key, _)| key == name) {
            Some(entry) => entry.1 = value,
            None => self.0.push((name.to_owned(), value)),
        }
    }

    /// Removes an attribute.
    pub(crate) fn remove(&mut self, name: &str) {
        self.0.retain(|(key, _)| key != name);
    }
}

impl Op {
    /// Returns the name of the only result.
    pub(crate) fn result(&self) -> Option<&str> {
        self.results.as_deref()
    }

    /// Returns a property or attribute.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.properties.get(name).or_else(|| self.attributes.get(name))
    }

    /// Returns the symbol that the operation defines.
    pub(crate) fn symbol(&self) -> Option<&str> {
        self.get("sym_name").map(unquoted)
    }

    /// Returns the symbol that a property refers to, without `@` and quotes.
    pub(crate) fn reference(&self, name: &str) -> Option<&str> {
        self.get(name).and_then(|value| value.strip_prefix('@')).map(unquoted)
    }

    /// Returns the numbers of `operandSegmentSizes`.
    pub(crate) fn segments(&self) -> Vec<usize> {
        let text = self.get("operandSegmentSizes").unwrap_or_default();
        let list = text.split_once(':').map_or("", |(_, list)| list).trim_end_matches('>');
        list.split(',').filter_map(|number| number.trim().parse().ok()).collect()
    }

    /// Returns the operands by segments, each with its type.
    pub(crate) fn segmented(&self) -> Vec<Vec<(String, String)>> {
        let mut all = self.operands.iter().cloned().zip(self.operand_types.iter().cloned());
        self.segments().into_iter().map(|count| all.by_ref().take(count).collect()).collect()
    }

    /// Returns the operations of the first region's blocks.
    pub(crate) fn body(&self) -> impl Iterator<Item = &Self> {
        self.regions.iter().flatten().flat_map(|block| &block.ops)
    }

    /// Returns the operation list of a module's only block.
    pub(crate) fn list(&mut self) -> &mut Vec<Self> {
        if self.regions.is_empty() {
            self.regions.push(Region::new());
        }
        if self.regions[0].is_empty() {
            self.regions[0].push(Block::default());
        }
        &mut self.regions[0][0].ops
    }

    /// Calls `visit` for the operation and all nested ones, outermost first.
    pub(crate) fn walk<'a>(&'a self, visit: &mut impl FnMut(&'a Self)) {
        visit(self);
        for op in self.body() {
            op.walk(visit);
        }
    }

    /// Calls `visit` for the operation and all nested ones, outermost first.
    pub(crate) fn walk_mut(&mut self, visit: &mut impl FnMut(&mut Self)) {
        visit(self);
        for op in self.regions.iter_mut().flatten().flat_map(|block| &mut block.ops) {
            op.walk_mut(visit);
        }
    }
}

/// Strips the selection of one of several results: `%3` of `%3#1`.
pub(crate) fn whole(value: &str) -> &str {
    value.split('#').next().unwrap_or(value)
}

/// Strips the quotes of a string or symbol.
pub(crate) fn unquoted(text: &str) -> &str {
    text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(text)
}
