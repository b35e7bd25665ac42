//! MLIR's generic operation form: operations, blocks and regions as data; types and attributes as text.

mod parse;
mod print;
mod text;
mod tree;

pub(crate) use parse::operations;
pub use parse::{SyntaxError, module};
pub(crate) use text::split_list;
pub use tree::Module;
pub(crate) use tree::{Block, Op, unquoted, whole};
