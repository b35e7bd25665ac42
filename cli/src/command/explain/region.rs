//! A description of a program's GPU code: objects, regions and variables.

use super::kernels::{Loop, Sources};
use accord_device::cpu::source_position;
use accord_device::image::{
    BlockPath, GangCount, HostRegion, ImageFunction, Kernel, PARAMETER_SM_MIN, ProgramImage, ProgramObject, Updates,
    gangs_apart, header, on_one_thread, rewrite,
};
use accord_types::ImageId;
use std::collections::HashMap;
use std::path::Path;

/// The named program or shared object.
pub(super) struct Program {
    /// The name that the user gave.
    pub(super) file: String,
    pub(super) objects: Vec<Object>,
}

/// An object of the program.
pub(super) struct Object {
    pub(super) path: String,
    pub(super) executable: bool,
    pub(super) openacc: bool,
    /// Regions, with and without code for GPUs.
    pub(super) regions: u64,
    /// The code for NVIDIA GPUs, or an error if it can't be read.
    pub(super) image: Option<Result<Image, String>>,
}

/// An object's code for GPUs.
pub(super) struct Image {
    pub(super) id: ImageId,
    pub(super) ptx: Vec<Ptx>,
    pub(super) regions: Vec<Region>,
    pub(super) variables: Vec<Variable>,
}

/// One PTX text.
pub(super) struct Ptx {
    pub(super) version: Option<String>,
    pub(super) target: Option<String>,
    pub(super) bytes: u64,
}

/// A region.
pub(super) struct Region {
    /// Its symbol on the host, or else its kernel's name.
    pub(super) name: String,
    /// Its kernel's name in the PTX.
    pub(super) kernel: String,
    /// Its place, `file:line`.
    pub(super) source: Option<String>,
    /// Gangs, workers, vector length; `None` is chosen at launch.
    pub(super) dims: [Option<u32>; 3],
    /// The reason why it can't be launched: the compiled number of gangs is unknown.
    pub(super) problem: Option<&'static str>,
    pub(super) block: Block,
    /// Whether the region has a loop, and runs on one thread.
    pub(super) one_thread: bool,
    /// The loops of its `kernels` construct that are the reason, if the source states it.
    pub(super) kernels: Vec<Loop>,
    /// The reason why each gang needs a thread block of its own; `None` if gangs can share blocks.
    pub(super) gangs_apart: Option<String>,
    /// Number of its loops that are unrolled.
    pub(super) unrolled: u32,
    /// Its updates of results shared by threads.
    pub(super) updates: Updates,
}

/// The way in which a region receives its argument block.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Block {
    /// The kernel's parameter.
    Parameter { slots: u32, bytes: u32 },
    /// Device memory, with the reason, and a remedy if there is one.
    Memory { why: String, remedy: Option<&'static str> },
}

/// A variable with a `declare` clause.
pub(super) struct Variable {
    pub(super) name: String,
    pub(super) bytes: u64,
    pub(super) link: bool,
}

impl Program {
    /// Creates the description; `objects` are `file` and the objects that it loads.
    pub(super) fn new(file: &Path, objects: Vec<ProgramObject>) -> Self {
        let mut sources = Sources::default();
        let objects = objects
            .into_iter()
            .map(|object| Object {
                image: object.image.map(|image| image.map(|image| Image::new(&object.path, &image, &mut sources))),
                path: object.path,
                executable: object.executable,
                openacc: object.openacc,
                regions: object.regions,
            })
            .collect();
        Self { file: file.display().to_string(), objects }
    }

    /// Returns all objects with code for GPUs.
    pub(super) fn images(&self) -> impl Iterator<Item = (&Object, &Image)> {
        self.objects.iter().filter_map(|object| Some((object, object.image.as_ref()?.as_ref().ok()?)))
    }

    /// Returns the number of regions with a block as parameter, and of all regions.
    pub(super) fn counts(&self) -> (usize, usize) {
        let all = || self.images().flat_map(|(_, image)| &image.regions);
        (all().filter(|region| matches!(region.block, Block::Parameter { .. })).count(), all().count())
    }

    /// Returns the reason if there is nothing to print.
    pub(super) fn nothing(&self) -> Option<String> {
        if self.images().next().is_some() {
            return None;
        }
        if let Some((object, why)) =
            self.objects.iter().find_map(|object| Some((object, object.image.as_ref()?.as_ref().err()?)))
        {
            return Some(format!("{}: {why}", object.path));
        }
        let regions: u64 = self.objects.iter().map(|object| object.regions).sum();
        let loads = "if it loads shared objects with regions while it runs, name those";
        Some(if regions > 0 {
            format!(
                "{}: it has {}, but no code for NVIDIA GPUs: CPU devices run them; compile and link with -fopenacc \
                 -foffload=nvptx-none, which needs GCC's compiler for GPUs (package gcc-offload-nvptx)",
                self.file,
                crate::output::count(regions, "region")
            )
        } else if self.objects.iter().any(|object| object.openacc) {
            format!("{}: it uses OpenACC but has no regions; {loads}", self.file)
        } else {
            format!(
                "{}: it has no regions and does not use OpenACC; compile and link with -fopenacc, or {loads}",
                self.file
            )
        })
    }
}

impl Image {
    fn new(path: &str, from: &ProgramImage, sources: &mut Sources) -> Self {
        let mut kernels = HashMap::new();
        let mut ptx = Vec::new();
        for object in &from.image.objects {
            let text = String::from_utf8_lossy(object);
            let (version, target) = header(&text);
            ptx.push(Ptx {
                version: version.map(str::to_owned),
                target: target.map(str::to_owned),
                bytes: object.len() as u64,
            });
            // The result is the same for any newer device and driver.
            let rewritten = rewrite(&text, PARAMETER_SM_MIN).kernels;
            kernels.extend(rewritten.into_iter().map(|kernel| (kernel.name.clone(), kernel)));
        }
        let alone = on_one_thread(&from.image).into_iter().zip(gangs_apart(&from.image));
        let functions = from.image.functions.iter().zip(&from.regions).zip(alone);
        let mut regions: Vec<Region> = functions
            .map(|((function, host), (one_thread, apart))| {
                let region = Region::new(path, function, host, kernels.get(&function.name));
                let source = region.source.as_deref().filter(|_| one_thread);
                let kernels = source.map_or_else(Vec::new, |source| sources.loops(source));
                let gangs_apart = apart.map(|why| why.to_string()).or(region.gangs_apart);
                Region { one_thread, kernels, gangs_apart, ..region }
            })
            .collect();
        regions.sort_by(|a, b| a.place().cmp(&b.place()));
        Self {
            id: from.image.id(),
            ptx,
            regions,
            variables: (from.image.variables.iter().zip(&from.variables))
                .map(|(variable, host)| Variable {
                    name: variable.name.strip_suffix("$linkptr").unwrap_or(&variable.name).to_owned(),
                    bytes: host.bytes,
                    link: host.link,
                })
                .collect(),
        }
    }

    /// Size of its PTX.
    pub(super) fn bytes(&self) -> u64 {
        self.ptx.iter().map(|ptx| ptx.bytes).sum()
    }
}

impl Region {
    /// Returns the place in the source: file and line, then the name.
    fn place(&self) -> (&str, u32, &str) {
        let (file, line) = self.source.as_deref().and_then(|source| source.rsplit_once(':')).unwrap_or_default();
        (file, line.parse().unwrap_or(0), &self.name)
    }

    fn new(path: &str, function: &ImageFunction, host: &HostRegion, kernel: Option<&Kernel>) -> Self {
        let gangs = kernel.map_or(GangCount::AsGiven, |kernel| kernel.gangs.count(function.dims[0]));
        let mut dims = function.dims.map(|dim| (dim != 0).then_some(u32::from(dim)));
        if let GangCount::Exactly(count) = gangs {
            dims[0] = Some(count);
        }
        Self {
            name: host.name.clone().unwrap_or_else(|| function.name.clone()),
            kernel: function.name.clone(),
            source: source_position(path, host.offset),
            dims,
            one_thread: false,
            kernels: Vec::new(),
            gangs_apart: kernel.is_none_or(|kernel| !kernel.shares_blocks).then(|| "its PTX is not rewritten".to_owned()),
            problem: (gangs == GangCount::Lost).then_some(
                "compiled for a constant number of gangs above 65535, which GCC keeps in 16 bits only; write a variable in \
                 num_gangs, or at most 65535",
            ),
            block: match kernel.map(|kernel| &kernel.block) {
                Some(BlockPath::Parameter(layout)) => Block::Parameter { slots: layout.slots, bytes: layout.bytes },
                Some(BlockPath::Memory(why)) => Block::Memory { why: why.to_string(), remedy: why.remedy() },
                None => Block::Memory { why: "its kernel is written in an unknown form".to_owned(), remedy: None },
            },
            unrolled: kernel.map_or(0, |kernel| kernel.unrolled),
            updates: kernel.map(|kernel| kernel.updates).unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(executable: ProgramObject) -> Program {
        Program::new(Path::new("./app"), vec![executable])
    }

    #[test]
    fn missing_device_code_is_reported_with_a_remedy() {
        let object = |openacc, regions, image| ProgramObject {
            path: "/app".to_owned(),
            executable: true,
            openacc,
            regions,
            image,
        };
        let nothing = |object| program(object).nothing().unwrap();
        assert!(nothing(object(true, 1, None)).contains("it has 1 region, but no code for NVIDIA GPUs"));
        assert!(nothing(object(true, 0, None)).contains("has no regions"));
        assert!(nothing(object(false, 0, None)).contains("does not use OpenACC"));
        assert_eq!(nothing(object(true, 1, Some(Err("of another world".to_owned())))), "/app: of another world");
    }
}
