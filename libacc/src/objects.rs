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
    known: Locked<Known>,
}

const NEVER: u64 = u64::MAX;

struct Known {
    objects: Vec<KnownObject>,
    next_id: u64,
}

struct KnownObject {
    loaded: LoadedObject,
    /// The host table, if the object registered itself.
    table: Option<usize>,
    /// The object's number for the runtime; `None` for objects of which devices have nothing.
    id: Option<u64>,
}

impl Objects {
    pub(crate) fn new(kernels: Arc<Kernels>) -> Self {
        Self {
            kernels,
            stamp: AtomicU64::new(NEVER),
            comparing: AtomicI32::new(0),
            known: Locked::new(Known { objects: Vec::new(), next_id: 1 }),
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

impl Known {
    fn update(&mut self, runtime: &Runtime, kernels: &Kernels) {
        let unregistered = images::take_unregistered();
        let images = images::registered();
        let loaded = loader::objects();

        self.objects.retain(|known| {
            let stays = loaded.iter().any(|object| known.is(object))
                && !known.table.is_some_and(|table| unregistered.contains(&table));
            if let (false, Some(id)) = (stays, known.id) {
                let span = &known.loaded.span;
                runtime.unregister_globals(id, span.start as u64..span.end as u64);
                kernels.forget(span);
                crate::prof::forget(span);
            }
            stays
        });

        for object in loaded {
            let table = images.iter().map(|image| image.table).find(|table| object.span.contains(table));
            match self.objects.iter_mut().find(|known| known.is(&object)) {
                Some(known) => {
                    // An earlier constructor of the object called OpenACC before the one that registers its code. The section of its variables
                    // was read then.
                    if known.table.is_none() && table.is_some() {
                        add_images(&object, &images, kernels);
                    }
                    known.table = table;
                }
                None => {
                    let uses_openacc = table.is_some() || object.uses_openacc();
                    let id = (uses_openacc || may_be_named(&object)).then(|| {
                        let id = self.next_id;
                        self.next_id += 1;
                        let mut all = constants(&object);
                        if uses_openacc {
                            add_images(&object, &images, kernels);
                            let globals = globals(&object, table, kernels);
                            if settings::debug() {
                                describe(&object, &globals, &images);
                            }
                            all.extend(globals);
                        }
                        runtime.register_globals(id, all);
                        id
                    });
                    company::loaded(&object);
                    self.objects.push(KnownObject { loaded: object, table, id });
                }
            }
        }
    }
}

impl KnownObject {
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

/// Returns the `declare` variables of an object, from its host table or else its section.
fn globals(object: &LoadedObject, table: Option<usize>, kernels: &Kernels) -> Vec<Global> {
    let range = match table {
        Some(table) => parts_of_host_table(table).map(|[_, variables]| variables),
        None => elf::declare_table(&object.file)
            .map(|range| object.base + range.start..object.base + range.end)
            .filter(|range| object.span.contains(&range.start) && range.end <= object.span.end),
    };
    let Some(range) = range else { return Vec::new() };
    let spec = object.spec();
    variables(range)
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
            output::print(&format!("accord: {}: {error}\n", os_text::shown(&object.path)));
        }
    }
}

/// Prints an object's contents under `ACCORD_DEBUG`.
fn describe(object: &LoadedObject, globals: &[Global], images: &[Image]) {
    let mut text = format!("accord: {}: {}", os_text::shown(&object.path), Count(globals.len(), "declare variable"));
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
