//! Writes `do concurrent` in constructs as loops with `independent`.

use super::expand::{Expander, is_nested};
use super::lines::{self, Line};
use super::sections::Refusal;
use super::tree::{child, children, word};
use crate::ir::Element;
use std::collections::HashMap;
use tree_sitter::Node;

/// The locality clauses of a loop.
#[derive(Default)]
struct Locality {
    /// Variables of an iteration, and their names in the loop.
    local: Vec<(String, String)>,
    /// Assignments before the body.
    first_values: Vec<String>,
    /// `reduction` clauses.
    reductions: String,
}

impl Locality {
    /// The clauses of each loop.
    fn clauses(&self) -> String {
        let names: Vec<&str> = self.local.iter().map(|(_, new)| new.as_str()).collect();
        let private = if names.is_empty() { String::new() } else { format!(" private({})", names.join(", ")) };
        private + &self.reductions
    }
}

impl Expander<'_, '_> {
    /// Writes `do concurrent` as loops with `independent`.
    pub(super) fn concurrent(&mut self, node: Node<'_>, concurrent: Node<'_>) {
        let (count, declared) = (self.count, self.declarations.len());
        if let Err(reason) = self.loops(node, concurrent) {
            self.count = count;
            self.declarations.truncate(declared);
            self.refuse(node, reason);
            self.rename(node);
        }
    }

    fn loops(&mut self, node: Node<'_>, concurrent: Node<'_>) -> Result<(), Refusal> {
        let source = self.expressions.source;
        let header = child(concurrent, "concurrent_header");
        let (Some(header), Some(end)) = (header, child(node, "end_do_loop_statement")) else {
            return Err("the header of do concurrent is not understood".into());
        };
        let start = source.start(node.start_byte());
        if child(node, "block_label_start_expression").is_some() || lines::is_labelled(source, start) {
            return Err("do concurrent has a name or a label".into());
        }
        if !self.has_kind() {
            return Err("the program has a kind of its own".into());
        }
        let locality = self.locality(concurrent)?;
        let before = source.directives_before(node.start_byte()).next();
        let mut promised = before.is_some_and(|placed| placed.directive.name == "loop");
        let clauses = locality.clauses();
        if promised && !clauses.is_empty() {
            return Err("locality clauses of do concurrent under a loop directive".into());
        }
        let r#type = header.child_by_field_name("type").map(|node| self.code()[node.byte_range()].to_owned());
        let (mut heads, mut specs) = (Vec::new(), HashMap::new());
        for control in children(header).into_iter().filter(|child| child.kind() == "concurrent_control") {
            let parts = ["initial", "final", "step"].map(|field| control.child_by_field_name(field));
            let texts = parts.map(|part| part.map(|part| self.elements().plain(part)));
            let (Some(name), [Some(first), Some(last), step]) = (control.named_child(0), texts) else {
                return Err("the header of do concurrent is not understood".into());
            };
            let index = word(name, self.code());
            let variable = self.fresh(&r#type.clone().unwrap_or_else(|| format!("integer(kind({index}))")));
            let step = step.map(|step| format!(", {step}")).unwrap_or_default();
            heads.push(format!("do {variable} = {first}, {last}{step}"));
            specs.insert(index, variable);
        }
        let kept = self.renamed.clone();
        self.renamed.extend(specs);
        let mut all = Vec::new();
        for head in heads.iter().rev() {
            if !promised {
                all.push(Line::Directive(format!("loop independent{clauses}")));
            }
            promised = false;
            all.push(Line::Code(head.clone()));
        }
        let mut close: Vec<Line> = Vec::new();
        if let Some(mask) = child(header, "concurrent_mask") {
            all.push(Line::Code(format!("if ({}) then", self.elements().plain(mask))));
            close.push(Line::Code("end if".into()));
        }
        all.extend(locality.first_values.into_iter().map(Line::Code));
        self.renamed.extend(locality.local);
        close.extend(heads.iter().map(|_| Line::Code("end do".into())));
        lines::replace(source, source.span(node.start_byte()..concurrent.end_byte()), &all, self.edits);
        children(node).into_iter().filter(is_nested).for_each(|inner| self.statement(inner));
        lines::replace(source, source.span(end.byte_range()), &close, self.edits);
        self.renamed = kept;
        self.changed = true;
        Ok(())
    }

    /// Reads the locality clauses. A variable that is local gets another name, since the one outside keeps its value.
    fn locality(&mut self, concurrent: Node<'_>) -> Result<Locality, Refusal> {
        let mut new = Locality::default();
        for clause in children(concurrent).into_iter().filter(|child| child.kind() == "concurrent_locality") {
            let text = word(clause, self.code());
            let kind = text.split('(').next().unwrap_or("").trim().to_owned();
            match kind.as_str() {
                "shared" | "default" => {}
                "reduce" => {
                    let list = text.split_once('(').and_then(|(_, rest)| rest.rsplit_once(')'));
                    let (list, _) = list.ok_or("reduce of do concurrent is not understood")?;
                    new.reductions += &format!(" reduction({list})");
                }
                "local" | "local_init" => {
                    for name in children(clause).into_iter().filter(|child| child.kind() == "identifier") {
                        let outer = word(name, self.code());
                        let reference = self.expressions.reference(name);
                        let entity = reference.and_then(|reference| reference.entity);
                        let entity = entity.filter(|entity| !entity.is_array());
                        let r#type = match entity.map(|entity| entity.element) {
                            Some(Element::Integer { .. }) => "integer",
                            Some(Element::Real(_)) => "real",
                            Some(Element::Complex(_)) => "complex",
                            Some(Element::Logical) => "logical",
                            Some(Element::Other) | None => {
                                return Err(format!(
                                    "{outer} in {kind} of do concurrent is no scalar with a known type"
                                ));
                            }
                        };
                        let variable = self.fresh(&format!("{type}(kind({outer}))"));
                        if kind == "local_init" {
                            let value = self.renamed.get(&outer).unwrap_or(&outer);
                            new.first_values.push(format!("{variable} = {value}"));
                        }
                        new.local.push((outer, variable));
                    }
                }
                _ => return Err(format!("{kind} of do concurrent")),
            }
        }
        Ok(new)
    }
}
