//! Informs the runtime of the loaded objects with regions and `declare` variables.
//!
//! Builds with offloading register themselves, but others don't, and no one reports their unloading. So every call checks the
//! loader's own counters, and compares its list with the last one after a change.

use crate::host_table::{LINK, PAIR, WORD, parts_of_host_table, variables};
use crate::images::{self, Image};
use crate::kernels::Kernels;
use crate::loader::LoadedObject;
use crate::ptx::{PtxImage, TARGET_NVPTX};
use crate::raw_lock::Locked;
use crate::{company, elf, loader, output, redirect, report, settings};
use accord_client::pages;
use accord_runtime::{Global, GlobalKind, Runtime};
use accord_types::{Count, GlobalSpec, os_text};
use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

/// One session's view of the loaded objects.
pub(crate) struct Objects {
    kernels: Arc<Kernels>,
    /// Sum of all change counters at the last comparison; initially [`NEVER`].
    stamp: AtomicU64,
    /// The thread that compares now, whose own nested call must not wait for itself.
    comparing: AtomicI32,
    known: Locked<ObjectTable>,
}

const NEVER: u64 = u64::MAX;

struct ObjectTable {
    objects: Vec<ObjectEntry>,
    next_id: u64,
}

struct ObjectEntry {
    loaded: LoadedObject,
    /// The host tables that the object has registered: one of GCC's code, one of CUDA Fortran's.
    tables: Vec<usize>,
    /// Addresses of the variables that the runtime knows.
    variables: Vec<usize>,
    /// The object's number for the runtime; `None` for objects of which devices have nothing.
    id: Option<u64>,
}

impl Objects {
    pub(crate) fn new(kernels: Arc<Kernels>) -> Self {
        Self {
            kernels,
            stamp: AtomicU64::new(NEVER),
            comparing: AtomicI32::new(0),
            known: Locked::new(ObjectTable { objects: Vec::new(), next_id: 1 }),
        }
    }

    /// Updates the runtime. Cheap if nothing has changed.
    pub(crate) fn refresh(&self, runtime: &Runtime) {
        if self.stamp.load(Ordering::Acquire) != current_stamp() {
            self.compare(runtime);
        }
    }

    #[cold]
    fn compare(&self, runtime: &Runtime) {
        // SAFETY: has no preconditions.
        let me = unsafe { libc::gettid() };
        if self.comparing.load(Ordering::Relaxed) == me {
            return;
        }
        if let Err(error) = redirect::redirect() {
            report::fatal(error);
        }
        self.known.with(|known| {
            let stamp = current_stamp();
            if self.stamp.load(Ordering::Acquire) == stamp {
                return;
            }
            self.comparing.store(me, Ordering::Relaxed);
            // The loader maps and unmaps unseen.
            pages::forget();
            known.update(runtime, &self.kernels);
            self.comparing.store(0, Ordering::Relaxed);
            self.stamp.store(stamp, Ordering::Release);
        });
    }
}

fn current_stamp() -> u64 {
    let (added, removed) = loader::changes();
    added.wrapping_add(removed).wrapping_add(images::changes())
}

impl ObjectTable {
    fn update(&mut self, runtime: &Runtime, kernels: &Kernels) {
        let unregistered = images::take_unregistered();
        let images = images::registered();
        let loaded = loader::objects();

        self.objects.retain(|known| {
            let stays = loaded.iter().any(|object| known.is(object))
                && !known.tables.iter().any(|table| unregistered.contains(table));
            if let (false, Some(id)) = (stays, known.id) {
                let span = &known.loaded.span;
                runtime.unregister_globals(id, span.start as u64..span.end as u64);
                kernels.forget(span);
                crate::prof::forget(span);
            }
            stays
        });

        for object in loaded {
            let mut tables: Vec<usize> = images.iter().map(|image| image.table).collect();
            tables.retain(|table| object.span.contains(table));
            tables.sort_unstable();
            tables.dedup();
            match self.objects.iter_mut().find(|known| known.is(&object)) {
                Some(known) => {
                    // An earlier constructor of the object called OpenACC before the one that registers its code.
                    if known.tables != tables {
                        let is_new = |image: &&Image| !known.tables.contains(&image.table);
                        let new: Vec<Image> = images.iter().filter(is_new).copied().collect();
                        known.tables = tables;
                        known.add(&new, runtime, kernels, &mut self.next_id);
                    }
                }
                None => {
                    let mut known = ObjectEntry { loaded: object, tables, variables: Vec::new(), id: None };
                    let uses_openacc = !known.tables.is_empty() || known.loaded.uses_openacc();
                    if uses_openacc || may_be_named(&known.loaded) {
                        known.number(runtime, &mut self.next_id);
                    }
                    if uses_openacc {
                        known.add(&images, runtime, kernels, &mut self.next_id);
                    }
                    company::loaded(&known.loaded);
                    self.objects.push(known);
                }
            }
        }
    }
}

impl ObjectEntry {
    /// Reads those of these images that are the object's, and informs the runtime of new variables.
    fn add(&mut self, images: &[Image], runtime: &Runtime, kernels: &Kernels, next_id: &mut u64) {
        let id = self.number(runtime, next_id);
        add_images(&self.loaded, images, kernels);
        let mut globals = globals(&self.loaded, &self.tables, kernels);
        globals.retain(|global| !self.variables.contains(&global.host));
        if settings::debug() {
            describe(&self.loaded, &globals, images);
        }
        self.variables.extend(globals.iter().map(|global| global.host));
        runtime.register_globals(id, globals);
    }

    /// Returns the object's number. The first call informs the runtime of the object's constants.
    fn number(&mut self, runtime: &Runtime, next_id: &mut u64) -> u64 {
        *self.id.get_or_insert_with(|| {
            let id = *next_id;
            *next_id += 1;
            runtime.register_globals(id, constants(&self.loaded));
            id
        })
    }

    fn is(&self, other: &LoadedObject) -> bool {
        self.loaded.base == other.base
            && self.loaded.span == other.span
            && self.loaded.name == other.name
            && self.loaded.build_id == other.build_id
    }
}

/// Whether regions of other objects may name an object's constants: tables of the executable, and of classes in C++'s library.
fn may_be_named(object: &LoadedObject) -> bool {
    object.executable || object.path.contains("/libstdc++.so")
}

/// Returns an object's constants that contain addresses.
fn constants(object: &LoadedObject) -> Vec<Global> {
    let constants = |part: &Range<usize>| {
        let (offset, len) = ((part.start - object.base) as u64, part.len() as u64);
        let spec = GlobalSpec { object: object.spec(), offset, len, variable: None };
        Global { host: part.start, bytes: part.len(), kind: GlobalKind::Constants, spec }
    };
    object.filled_in.iter().map(constants).collect()
}

/// Returns the `declare` variables of an object, from its section and its host tables.
fn globals(object: &LoadedObject, tables: &[usize], kernels: &Kernels) -> Vec<Global> {
    let section = elf::declare_table(&object.file)
        .map(|range| object.base + range.start..object.base + range.end)
        .filter(|range| object.span.contains(&range.start) && range.end <= object.span.end);
    let listed = tables.iter().filter_map(|table| parts_of_host_table(*table)).map(|[_, variables]| variables);
    let mut seen = HashSet::new();
    let spec = object.spec();
    section
        .into_iter()
        .chain(listed)
        .flat_map(variables)
        .filter(|(host, _)| seen.insert(*host))
        .filter(|(host, _)| object.span.contains(host))
        .map(|(host, size)| {
            let bytes = size & !LINK;
            Global {
                host,
                bytes,
                kind: if size & LINK != 0 { GlobalKind::Link } else { GlobalKind::Variable },
                spec: GlobalSpec {
                    object: spec.clone(),
                    offset: (host - object.base) as u64,
                    len: bytes as u64,
                    variable: kernels.variable(host),
                },
            }
        })
        .collect()
}

/// Reads an object's images. If one can't be read its regions run on CPU devices, and a GPU reports that it has no code for
/// them.
fn add_images(object: &LoadedObject, images: &[Image], kernels: &Kernels) {
    for image in images.iter().filter(|image| object.span.contains(&image.table)) {
        // SAFETY: the image is registered, and its object loaded.
        if let Err(error) = unsafe { kernels.add(image) }
            && settings::debug()
        {
            output::print(&format!("accord: {}: {error}\n", os_text::displayed(&object.path)));
        }
    }
}

/// Prints an object's contents under `ACCORD_DEBUG`.
fn describe(object: &LoadedObject, globals: &[Global], images: &[Image]) {
    let mut text =
        format!("accord: {}: {}", os_text::displayed(&object.path), Count(globals.len(), "declare variable"));
    let of_object = |image: &&Image| object.span.contains(&image.table);
    if globals.is_empty() && !images.iter().any(|image| of_object(&image)) {
        return;
    }
    for image in images.iter().filter(of_object).filter(|image| image.target == TARGET_NVPTX) {
        let Some([functions, variables]) = parts_of_host_table(image.table) else { continue };
        let (functions, variables) = (functions.len() / WORD, variables.len() / PAIR);
        // SAFETY: the image is registered, and its object loaded.
        match unsafe { PtxImage::read(image, functions, variables) } {
            Ok(ptx) => {
                let bytes: usize = ptx.objects.iter().map(|(_, size)| size).sum();
                let open = ptx.functions.iter().filter(|region| region.dims.contains(&0)).count();
                text.push_str(&format!(
                    ", {} ({open} with open dimensions), {} of {bytes} bytes",
                    Count(functions, "region"),
                    Count(ptx.objects.len(), "PTX object")
                ));
            }
            Err(error) => text.push_str(&format!(", {error}")),
        }
    }
    text.push('\n');
    output::print(&text);
}
