//! `use` statements.

use super::tree::{child, children, word};
use std::collections::HashMap;
use tree_sitter::Node;

/// A `use` statement.
pub(super) struct Use {
    pub(super) module: String,
    only: bool,
    /// Local names and their names in the module.
    names: Vec<(String, String)>,
}

impl Use {
    pub(super) fn read(node: Node<'_>, code: &str) -> Option<Self> {
        let mut new = Self { module: word(child(node, "module_name")?, code), only: false, names: Vec::new() };
        let mut list = children(node);
        if let Some(included) = child(node, "included_items") {
            new.only = true;
            list = children(included);
        }
        for item in list {
            match item.kind() {
                "use_alias" => {
                    if let (Some(local), Some(original)) = (item.named_child(0), item.named_child(1)) {
                        new.names.push((word(local, code), word(original, code)));
                    }
                }
                "identifier" => new.names.push((word(item, code), word(item, code))),
                _ => {}
            }
        }
        Some(new)
    }

    /// Returns the module's integer constants by their local names.
    pub(super) fn constants(&self, theirs: &HashMap<String, i64>) -> Vec<(String, i64)> {
        let renamed = self.names.iter().filter_map(|(local, original)| Some((local.clone(), *theirs.get(original)?)));
        let same = theirs.iter().filter(|(name, _)| self.original(name) == Some(name.as_str()));
        renamed.chain(same.map(|(name, value)| (name.clone(), *value))).collect()
    }

    /// Returns the name in the module of a local name, if the statement makes it accessible.
    pub(super) fn original<'a>(&'a self, name: &'a str) -> Option<&'a str> {
        if let Some((_, original)) = self.names.iter().find(|(local, _)| local == name) {
            return Some(original);
        }
        let renamed = self.names.iter().any(|(local, original)| original == name && local != name);
        (!self.only && !renamed).then_some(name)
    }
}
