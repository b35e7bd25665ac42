//! Code for GPUs: PTX, with the mathematical functions that it calls.

use super::{Run, Stop, read, words, write};
use crate::failure::{Failure, Result};
use accord_cuda_fortran::{GpuCode, Library, PtxArchives, gpu_code, ptx};
use std::path::{Path, PathBuf};
use std::process::Command;

/// LLVM's name for NVIDIA GPUs.
const TARGET: &str = "nvptx64-nvidia-cuda";
/// Folders of CUDA toolkits.
const TOOLKITS: &[&str] = &["/usr/local/cuda", "/opt/cuda", "/usr/lib/cuda", "/usr/lib/nvidia-cuda-toolkit"];
/// Places of libdevice in a toolkit: NVIDIA's, Debian's.
const LIBDEVICE: &[&str] = &["nvvm/libdevice/libdevice.10.bc", "libdevice/libdevice.10.bc"];
/// Archives of GCC's offload compiler; libm calls functions of libc.
const ARCHIVES: &[&str] = &["libm.a", "libc.a"];

impl Run<'_> {
    /// Returns the code of a source for GPUs.
    pub(super) fn gpu_code(&self, source: &Path, number: usize) -> std::result::Result<GpuCode, Stop> {
        let file = |name: &str| self.file(number, &format!("gpu.{name}"));
        let processor = format!("sm_{}", self.options.architecture);
        self.mixed(source, number, "gpu", &["-triple", TARGET, "-target-cpu", &processor])?;
        let Some((module, kernels)) = gpu_code(&read(&file("cuf.mlir"))?)? else {
            return Ok(GpuCode::None(String::new()));
        };
        write(&file("mlir"), &module)?;
        self.llvm.run(
            "tco",
            &[format!("--target={TARGET}").into(), file("mlir").into(), "-o".into(), file("tco.ll").into()],
        )??;
        let libdevice = libdevice(self.options.cuda.as_deref());
        let library = if libdevice.is_some() { Library::Libdevice } else { Library::Libm };
        let text = ptx::entries(&read(&file("tco.ll"))?, &kernels, library);
        write(&file("ll"), &text)?;
        let mut input = file("ll");
        if let Some(libdevice) = libdevice.filter(|_| Library::Libdevice.is_called(&text)) {
            let line = [words(["--only-needed", "--internalize"]), vec![input.into(), libdevice.into()]].concat();
            self.llvm.run("llvm-link", &[line, vec!["-o".into(), file("linked.bc").into()]].concat())??;
            input = file("linked.bc");
        }
        let target = words([&*format!("-mtriple={TARGET}"), &format!("-mcpu={processor}")]);
        let optimized =
            [target.clone(), vec!["-passes=default<O3>".into(), input.into(), "-o".into(), file("bc").into()]].concat();
        self.llvm.run("opt", &optimized)??;
        self.llvm
            .run("llc", &[target, vec!["-O3".into(), file("bc").into(), "-o".into(), file("ptx").into()]].concat())??;
        with_libm(&read(&file("ptx"))?)
    }
}

/// Returns libdevice of the toolkit in `folder`, or of one of the system's.
fn libdevice(folder: Option<&Path>) -> Option<PathBuf> {
    let toolkits: Vec<&Path> = folder.map_or_else(|| TOOLKITS.iter().map(Path::new).collect(), |folder| vec![folder]);
    let places = toolkits.iter().flat_map(|toolkit| LIBDEVICE.iter().map(|place| toolkit.join(place)));
    places.into_iter().find(|place| place.is_file())
}

/// Adds those functions of GCC's libm that PTX calls.
fn with_libm(text: &str) -> std::result::Result<GpuCode, Stop> {
    let functions = ptx::libm_functions(text);
    if functions.is_empty() {
        return Ok(GpuCode::Ptx(vec![text.to_owned()]));
    }
    let missing = |name: &str| {
        Stop::Said(format!(
            "error: no library for GPUs has {name}, which a kernel calls; install a CUDA toolkit, or name its folder with --cuda=FOLDER, \
             or install GCC's compiler for nvptx (gcc-12-offload-nvptx)"
        ))
    };
    let mut archives = PtxArchives::default();
    for name in ARCHIVES {
        let Some(path) = gcc_file(name)? else { return Err(missing(&functions[0])) };
        let bytes =
            std::fs::read(&path).map_err(|error| Failure::system(format!("can't read {}", path.display()), error))?;
        if !archives.add(&bytes) {
            return Err(Failure::new(format!(
                "{} is no archive; install GCC's compiler for nvptx again",
                path.display()
            ))
            .into());
        }
    }
    let mut texts = vec![ptx::with_libm_types(text, &functions)];
    texts.extend(archives.texts(&functions).map_err(|name| missing(&name))?);
    Ok(GpuCode::Ptx(texts))
}

/// Returns a library of GCC's compiler for nvptx.
fn gcc_file(name: &str) -> Result<Option<PathBuf>> {
    let question = format!("-print-file-name=accel/nvptx-none/{name}");
    let output = Command::new("gcc").arg(question).output().map_err(|error| Failure::start("gcc", &error))?;
    let path = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
    Ok((path.is_absolute() && path.is_file()).then_some(path))
}
