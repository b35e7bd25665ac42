//! `accord explain`: how Accord handles a program, a copy, and a launch; `jobs` explains why a job waits.

mod ask;
mod copy;
mod d2d;
mod file;
mod hops;
mod kernels;
mod launch;
mod region;
mod show;

use crate::args::{ExplainArgs, ExplainCommand};
use crate::failure::Result;
use crate::output::{print, report_line, show};
use file::{FileKind, look_at};
use region::Program;
use std::path::Path;

/// The exit code if the program has no code for GPUs.
const NO_CODE: u8 = 1;

/// Runs `accord explain`.
pub(crate) fn explain(args: &ExplainArgs) -> Result<u8> {
    match &args.command {
        ExplainCommand::Job { job, json } => super::jobs::explain(*job, *json),
        ExplainCommand::Image { file, json } => image(file, *json),
        ExplainCommand::D2d { from, to, size, wait, json } => d2d::explain(*from, *to, *size, *wait, *json),
        ExplainCommand::Launch { device, wait, json } => launch::explain(*device, *wait, *json),
        ExplainCommand::Copy { from, to, size, in_queue, json } => copy::explain(*from, *to, *size, *in_queue, *json),
    }
}

fn image(file: &Path, as_json: bool) -> Result<u8> {
    let objects = match look_at(file)? {
        FileKind::Program => ask::program(file)?,
        FileKind::SharedObject => ask::shared_object(file)?,
    };
    let program = Program::new(file, objects);
    if as_json {
        print(&format!("{:#}\n", program.json()));
    } else {
        show(&program.tables());
    }
    if let Some(why) = program.nothing() {
        report_line(format_args!("{why}"));
        return Ok(NO_CODE);
    }
    Ok(0)
}
