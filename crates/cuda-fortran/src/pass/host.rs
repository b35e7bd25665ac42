//! The host's code: launches as calls of the runtime, the kernels for CPU devices, and the registration of both with it.

use super::device::take;
use super::gpu::replace;
use super::launch::{self, Launches};
use super::registration::{self, Registration};
use super::{cpu, declare, external, missing, places};
use crate::embedded::GpuCode;
use crate::mlir::{Module, Op};
use crate::refusal::Error;

/// Lowers a module for the host. `gpu` is the code for GPUs.
pub(crate) fn lower(module: Module, gpu: &GpuCode) -> Result<Module, Error> {
    let mut lowered = with_launches(module, gpu)?;
    external::rename(&mut lowered);
    Ok(lowered)
}

fn with_launches(mut module: Module, gpu: &GpuCode) -> Result<Module, Error> {
    let device = take(&mut module);
    let known = module.clone();
    let mut launches = Launches::new(&known);
    for function in module.op.list().iter_mut().filter(|op| op.name == "func.func") {
        launches.enter(function);
        replace(function, &mut |op| launches.operation(op))?;
    }
    let files = std::mem::take(&mut launches.files);
    let list = module.op.list();
    missing::refuse(list, &known)?;
    places::add(list, &known)?;
    for (number, file) in files.iter().enumerate() {
        list.push(registration::text(&Launches::file(number), file)?);
    }
    if !files.is_empty() {
        declare(list, launch::FUNCTION, launch::KIND)?;
    }
    let Some(device) = device else { return Ok(module) };
    let kernels: Vec<&str> = device.kernels.iter().map(|kernel| &*kernel.symbol).collect();
    let cpu::CpuCode { list: code, variables, cut } = cpu::lower(device.list, &kernels, &known)?;
    let registration = Registration { kernels: &device.kernels, variables: &variables, code: &code, cut: &cut, gpu };
    let mut own = registration.operations()?;
    if let Some(constructor) = list.iter_mut().find(|op| op.symbol() == Some(registration::CONSTRUCTOR)) {
        replace(constructor, &mut |op| registration.replacement(op))?;
    }
    own.extend(code);
    let known: std::collections::HashSet<String> = list.iter().filter_map(Op::symbol).map(str::to_owned).collect();
    own.retain(|op| !op.symbol().is_some_and(|name| known.contains(name)));
    list.extend(own);
    Ok(module)
}
