//! Redirects to this library the OpenACC calls that would reach libgomp, in objects for which libgomp precedes.
//!
//! An object opened with `RTLD_DEEPBIND` finds libgomp before this library. So does one that queries a library's handle (`dlsym`), or if this library is
//! only a dependency. So libgomp itself is patched: its symbol table gets this library's addresses for OpenACC's names. Later bindings of any
//! kind are then right. Earlier bindings are patched in the relocations of all objects. Without a libgomp this costs nothing.
//!
//! It happens when this library is loaded, before constructors of the objects that need it. A libgomp that is loaded later announces itself: at its start
//! it loads the libraries of `ACC_PROFLIB`, which include this one. It calls their `acc_register_library` before constructors of the objects that
//! need that libgomp run.

mod first_namespace;
mod image;
mod own_calls;
mod patch;
mod watch;

use crate::raw_lock::Locked;
use crate::settings;
use accord_types::{Error, ErrorCode, Result};
use image::{Image, images};
use patch::Patch;
use std::ffi::{CStr, c_void};

/// This library's name for objects that are linked with it (build.rs).
const SONAME: &CStr = c"libacc.so";

/// The symbols that identify a libgomp: the shared one, or one that an object contains and exports.
const OF_LIBGOMP: [&CStr; 3] = [c"GOMP_parallel", c"GOACC_parallel_keyed", c"acc_prof_register"];

/// libgomp's own functions that this library calls.
const KEPT: [&CStr; 5] = [
    c"GOMP_offload_register_ver",
    c"GOMP_offload_unregister_ver",
    c"GOMP_offload_register",
    c"GOMP_offload_unregister",
    c"acc_prof_register",
];

/// A libgomp whose symbol table was patched, and the addresses of its functions of [`KEPT`].
struct Redirected {
    base: usize,
    kept: [usize; KEPT.len()],
}

/// The redirected objects: at most one for each libgomp of the process.
static REDIRECTED: Locked<Vec<Redirected>> = Locked::new(Vec::new());

/// Held while symbol tables are read and patched. Without it one thread could protect a page that another one writes, or take patched entries for
/// libgomp's own.
static CHANGING: Locked<()> = Locked::new(());

/// Whether a name is OpenACC's, or that of an entry point of GCC's code for it.
fn is_openacc(name: &CStr) -> bool {
    [&b"acc_"[..], b"GOACC_", b"GOMP_offload_"].iter().any(|start| name.to_bytes().starts_with(start))
}

/// Patches every loaded libgomp, and its existing bindings.
///
/// # Errors
/// Returns `acc_error_system` if the system refuses that for an object that uses OpenACC.
pub(crate) fn redirect() -> Result<()> {
    // Read without the lock, because the loader calls this under a lock of its own.
    let images = images();
    let mut inside = Vec::new();
    let outcome = CHANGING.with(|()| change(&images, &mut inside));
    inside.into_iter().for_each(watch::watch);
    outcome
}

/// Unlocks the locks in a forked child.
///
/// # Safety
/// Must be called only in a fork's child handler.
pub(crate) unsafe fn forget_after_fork() {
    // SAFETY: this is a fork's child handler.
    unsafe {
        CHANGING.raw().reset();
        REDIRECTED.raw().reset();
    }
}

/// Patches the libgomps among `images`. Adds a function of each that is part of another object to `inside`, to be watched.
fn change(images: &[Image], inside: &mut Vec<usize>) -> Result<()> {
    let here = redirect as *const () as usize;
    let Some(own) = images.iter().find(|image| image.holds(here)) else { return Ok(()) };
    let is_libgomp = |image: &&Image| OF_LIBGOMP.iter().all(|name| image.definition(name).is_some());
    let others: Vec<&Image> = images.iter().filter(|image| image.base != own.base).filter(is_libgomp).collect();
    let mut refused = Ok(());
    let mut found = false;
    for libgomp in &others {
        let kept =
            KEPT.map(|name| libgomp.definition(name).map_or(0, |at| libgomp.base.wrapping_add(at.value as usize)));
        if own.holds(kept[0]) {
            continue;
        }
        found = true;
        REDIRECTED.with(|all| {
            all.retain(|one| one.base != libgomp.base);
            all.push(Redirected { base: libgomp.base, kept });
        });
        refused = refused.and(change_symbols(libgomp, own).map_err(|error| (libgomp.path.clone(), error)));
        if !libgomp.soname().to_bytes().starts_with(b"libgomp.so") {
            // Its own calls use no symbol table.
            inside.push(kept[KEPT.len() - 1]);
        }
    }
    if !found {
        return Ok(());
    }
    let mut uses_openacc = false;
    for image in images.iter().filter(|image| image.base != own.base) {
        let (patch, uses) = rebound(image, &others, own);
        uses_openacc |= uses && !others.iter().any(|libgomp| libgomp.base == image.base);
        if !patch.is_empty() {
            refused = refused.and(patch.apply(image).map_err(|error| (image.path.clone(), error)));
        }
    }
    match refused {
        Err((path, error)) if uses_openacc => Err(not_redirected(&path, &error)),
        _ => Ok(()),
    }
}

/// Gives a libgomp's OpenACC symbols this library's addresses.
fn change_symbols(libgomp: &Image, own: &Image) -> std::io::Result<()> {
    let mut patch = Patch::new();
    for (name, ours) in own.definitions(is_openacc) {
        if let Some(theirs) = libgomp.definition(name) {
            patch.add(theirs.entry, own.base.wrapping_add(ours.value as usize).wrapping_sub(libgomp.base));
        }
    }
    patch.apply(libgomp)
}

/// Returns the object's words with a libgomp's OpenACC addresses, with this library's in their place; and whether the object names OpenACC at all.
fn rebound(image: &Image, libgomps: &[&Image], own: &Image) -> (Patch, bool) {
    let mut patch = Patch::new();
    let slots = image.slots(is_openacc);
    for slot in &slots {
        // SAFETY: the dynamic linker has filled in the word: with an address, or initially with that of its own code.
        let bound = unsafe { *(slot.at as *const usize) };
        if let (true, Some(ours)) = (libgomps.iter().any(|libgomp| libgomp.holds(bound)), own.definition(slot.name)) {
            patch.add(slot.at, own.base.wrapping_add(ours.value as usize));
        }
    }
    (patch, !slots.is_empty())
}

fn not_redirected(path: &str, error: &std::io::Error) -> Error {
    let name = if path.is_empty() { "the program" } else { path };
    Error::new(
        ErrorCode::System,
        format!("calls of OpenACC go to libgomp, and {name}, which says so, can't be changed in memory: {error}"),
    )
    .remedy("link the program by accord cc, so that libacc comes before libgomp")
}

/// Returns libgomp's own function `name`, one of the kept ones, if a libgomp was patched.
pub(crate) fn libgomps(name: &CStr) -> Option<*mut c_void> {
    let at = KEPT.iter().position(|kept| *kept == name)?;
    let all = REDIRECTED.with(|all| all.iter().map(|one| (one.base, one.kept[at])).collect::<Vec<_>>());
    let images = images();
    // A libgomp may have been unloaded since.
    let there = |(base, address): &(usize, usize)| {
        images.iter().any(|image| image.base == *base && image.holds(*address) && is_shared_libgomp(image))
    };
    all.into_iter().find(there).map(|(_, address)| std::ptr::with_exposed_provenance_mut(address))
}

fn is_shared_libgomp(image: &Image) -> bool {
    image.soname().to_bytes().starts_with(b"libgomp.so")
}

/// Whether this process should use this library, because it was preloaded or an object is linked with it, which may be in another namespace than this
/// copy. Otherwise a libgomp may have loaded it because of an inherited environment.
fn is_wanted(images: &[Image]) -> bool {
    settings::is_preloaded() || is_linked(images) || first_namespace::needs(SONAME)
}

fn is_linked(images: &[Image]) -> bool {
    images.iter().any(|image| image.needs(SONAME))
}

/// Returns the dynamic linker's name for this library.
fn own_name(images: &[Image]) -> Option<String> {
    let here = own_name as *const () as usize;
    images.iter().find(|image| image.holds(here)).map(|image| image.path.clone())
}

/// Does the work of loading this library.
///
/// # Errors
/// Returns the errors of [`redirect`], and of [`own_calls::bind`].
pub(crate) fn at_start() -> Result<()> {
    let images = images();
    let here = at_start as *const () as usize;
    if let Some(own) = images.iter().find(|image| image.holds(here)) {
        own_calls::bind(&images, own)?;
    }
    if !is_wanted(&images) {
        return Ok(());
    }
    settings::register_as_proflib(own_name(&images).filter(|_| is_linked(&images)));
    redirect()
}

/// Handles the start of a libgomp, whose `acc_prof_register` is `register`.
///
/// # Errors
/// Returns the errors of [`redirect`].
pub(crate) fn redirect_started_libgomp(register: usize) -> Result<()> {
    let images = images();
    let here = at_start as *const () as usize;
    if let Some(own) = images.iter().find(|image| image.holds(here)) {
        own_calls::bind(&images, own)?;
    }
    if !is_wanted(&images) {
        return Ok(());
    }
    redirect()?;
    let here = redirect_started_libgomp as *const () as usize;
    // A libgomp that finds this library's functions has been redirected.
    if !images.iter().any(|image| image.holds(here) && image.holds(register)) {
        watch::watch(register);
    }
    Ok(())
}
