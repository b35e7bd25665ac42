//! The front end for Fortran in free and fixed form, by tree-sitter's grammar.

mod array_reductions;
mod concurrent;
mod constants;
pub(crate) mod constructs;
mod declarations;
mod entity;
pub(crate) mod expand;
mod expressions;
mod intrinsics;
mod kinds;
pub(crate) mod lines;
mod liveness;
mod module_file;
mod scopes;
mod sections;
pub(crate) mod source;
mod statements;
#[cfg(test)]
mod tests;
mod tree;
mod updates;
mod used;

use tree_sitter::{Parser, Tree};

/// The form of a source.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// Free form.
    Free,
    /// Fixed form.
    Fixed {
        /// Columns of statements: 72, unless an option sets another length.
        columns: usize,
    },
}

/// A module that a source uses and does not define.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Module {
    /// The text of gfortran's module file, uncompressed.
    Compiled(String),
    /// The source that defines it.
    Source {
        /// Its text.
        text: String,
        /// Its form.
        form: Form,
    },
}

/// A source, and how to read other files that it needs.
#[derive(Clone, Copy)]
pub struct Input<'a> {
    /// The text after the preprocessor.
    pub text: &'a str,
    /// Its form.
    pub form: Form,
    /// The file's name, until a line marker has another.
    pub name: &'a str,
    /// Returns a module of another source, by its name in lower case.
    pub module: &'a dyn Fn(&str) -> Option<Module>,
    /// The text of a file that an `include` line names.
    pub include: &'a dyn Fn(&str) -> Option<String>,
}

fn parse(code: &str) -> Option<Tree> {
    let mut parser = Parser::new();
    parser.set_language(&tree_sitter_fortran::LANGUAGE.into()).ok()?;
    parser.parse(code, None)
}
