//! Rewrites `kernels` constructs as parallel regions. Pure: text in, text out.
//!
//! A front end reads the source into the intermediate representation (`ir`), the analysis decides for each loop nest, and the
//! emitter edits the source's text.

#![forbid(unsafe_code)]

pub mod ir;
pub mod poly;
