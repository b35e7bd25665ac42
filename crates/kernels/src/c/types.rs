//! Types of C, as far as the analysis needs them.

use crate::ir::Element;
use tree_sitter::Node;

/// A type: elements, and from the outside inwards the types derived from them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Type {
    /// The elements' type.
    pub(super) element: Element,
    /// `double *a[3]` is an array, then a pointer.
    pub(super) derived: Vec<Derived>,
    /// Whether it contains `volatile` or `_Atomic`.
    pub(super) volatile: bool,
    /// A template's type parameter.
    pub(super) is_parameter: bool,
    /// `auto`
    pub(super) is_deduced: bool,
}

/// The derivation of a type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Derived {
    /// An array.
    Array,
    /// A pointer.
    Pointer {
        /// `restrict`
        restrict: bool,
    },
    /// A function, or a reference of C++.
    Function,
}

impl Type {
    pub(super) const UNKNOWN: Self =
        Self { element: Element::Other, derived: Vec::new(), volatile: false, is_parameter: false, is_deduced: false };

    /// An integer that can count iterations and index arrays.
    pub(super) fn is_integer(&self) -> bool {
        self.derived.is_empty() && matches!(self.element, Element::Integer { .. })
    }
}

/// Returns types that the standard headers define, whose text is not read.
pub(super) fn named(name: &str) -> Option<Element> {
    let integer = |signed, bits| Some(Element::Integer { signed, bits });
    match name {
        "char" | "signed char" | "int8_t" => integer(true, 8),
        "unsigned char" | "uint8_t" => integer(false, 8),
        "short" | "short int" | "signed short" | "int16_t" => integer(true, 16),
        "unsigned short" | "unsigned short int" | "uint16_t" => integer(false, 16),
        "int" | "signed" | "signed int" | "int32_t" => integer(true, 32),
        "unsigned" | "unsigned int" | "uint32_t" => integer(false, 32),
        "long" | "long int" | "signed long" | "long long" | "long long int" | "int64_t" | "ptrdiff_t" | "ssize_t"
        | "intptr_t" | "intmax_t" => integer(true, 64),
        "unsigned long"
        | "unsigned long int"
        | "long unsigned int"
        | "unsigned long long"
        | "unsigned long long int"
        | "uint64_t"
        | "size_t"
        | "uintptr_t"
        | "uintmax_t" => integer(false, 64),
        "float" => Some(Element::Real(32)),
        "double" => Some(Element::Real(64)),
        "_Bool" | "bool" => Some(Element::Logical),
        _ => None,
    }
}

/// Returns the declared name of a declarator, with the derived types appended to `derived`.
pub(super) fn declarator<'t>(node: Node<'t>, code: &str, derived: &mut Vec<Derived>) -> Option<Node<'t>> {
    match node.kind() {
        "identifier" | "type_identifier" | "field_identifier" => Some(node),
        "pointer_declarator" | "abstract_pointer_declarator" => {
            let name = declarator(node.child_by_field_name("declarator")?, code, derived)?;
            let mut cursor = node.walk();
            let restrict = node.children(&mut cursor).any(|child| {
                child.kind() == "type_qualifier" && code[child.byte_range()].trim_matches('_') == "restrict"
            });
            derived.push(Derived::Pointer { restrict });
            Some(name)
        }
        "array_declarator" => {
            let name = declarator(node.child_by_field_name("declarator")?, code, derived)?;
            derived.push(Derived::Array);
            Some(name)
        }
        "function_declarator" => {
            let name = declarator(node.child_by_field_name("declarator")?, code, derived)?;
            derived.push(Derived::Function);
            Some(name)
        }
        "reference_declarator" => {
            let name = declarator(node.named_child(0)?, code, derived)?;
            derived.push(Derived::Function);
            Some(name)
        }
        "init_declarator" => declarator(node.child_by_field_name("declarator")?, code, derived),
        "parenthesized_declarator" | "attributed_declarator" => {
            let mut cursor = node.walk();
            let inner = node
                .named_children(&mut cursor)
                .find(|child| child.kind().ends_with("declarator") || child.kind() == "identifier")?;
            declarator(inner, code, derived)
        }
        _ => None,
    }
}
