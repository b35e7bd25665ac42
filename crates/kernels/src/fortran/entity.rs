//! The meaning of a name.

use crate::ir::{Element, Storage};

/// A declared name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Entity {
    /// Variable, constant or procedure.
    pub(super) class: Class,
    /// Type of the scalar or the elements.
    pub(super) element: Element,
    /// Name of the derived type.
    pub(super) derived: Option<String>,
    /// Dimensions, the first one first; none of a scalar.
    pub(super) bounds: Vec<Bounds>,
    /// The place of its memory.
    pub(super) storage: Storage,
    pub(super) allocatable: bool,
    pub(super) pointer: bool,
    pub(super) target: bool,
    pub(super) volatile: bool,
    /// Whether it is in an `equivalence`, and so overlaps others.
    pub(super) equivalent: bool,
    /// Whether no statement declares its type.
    pub(super) implicit: bool,
    /// Whether another source has it in `declare`.
    pub(super) resident: bool,
}

/// Classes of names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Class {
    Variable,
    /// With its value, if it is an integer that is known.
    Constant(Option<i64>),
    Procedure(Procedure),
    /// A derived type, a namelist, a module.
    Other,
}

/// The known properties of a procedure.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Procedure {
    pub(super) pure: bool,
    /// Whether it depends only on its arguments and constants.
    pub(super) closed: bool,
    /// With `acc routine`: whether it has a level other than `seq`.
    pub(super) routine: Option<bool>,
}

/// Bounds of a dimension, as texts of expressions.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Bounds {
    /// `None` if it is known at run time only.
    pub(super) lower: Option<String>,
    /// `None` if it is known at run time only.
    pub(super) upper: Option<String>,
}

impl Entity {
    /// A scalar variable of the procedure.
    pub(super) fn variable(element: Element) -> Self {
        Self {
            class: Class::Variable,
            element,
            derived: None,
            bounds: Vec::new(),
            storage: Storage::Local,
            allocatable: false,
            pointer: false,
            target: false,
            volatile: false,
            equivalent: false,
            implicit: false,
            resident: false,
        }
    }

    /// A procedure.
    pub(super) fn procedure(procedure: Procedure) -> Self {
        Self { class: Class::Procedure(procedure), ..Self::variable(Element::Other) }
    }

    pub(super) fn is_array(&self) -> bool {
        self.class == Class::Variable && !self.bounds.is_empty()
    }

    /// Whether it may overlap another variable that may.
    pub(super) fn may_overlap(&self) -> bool {
        self.pointer || self.equivalent || self.target && matches!(self.storage, Storage::Reference)
    }
}
