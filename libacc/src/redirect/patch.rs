//! Writes words of loaded objects that the dynamic linker has made read-only.

use super::image::Image;
use std::io::{Error, Result};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Words to write in one object: addresses and values.
pub(super) struct Patch(Vec<(usize, usize)>);

impl Patch {
    pub(super) fn new() -> Self {
        Self(Vec::new())
    }

    pub(super) fn add(&mut self, at: usize, value: usize) {
        self.0.push((at, value));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Writes all words. Other threads see either value of each word.
    ///
    /// # Errors
    /// Returns the system's error if it refuses to make a page writable. Earlier words are written then.
    pub(super) fn apply(mut self, image: &Image) -> Result<()> {
        // SAFETY: has no preconditions.
        let page_bytes = unsafe { libc::getauxval(libc::AT_PAGESZ) } as usize;
        let page_of = |at: usize| at & !(page_bytes - 1);
        self.0.sort_unstable();
        for words in self.0.chunk_by(|(first, _), (second, _)| page_of(*first) == page_of(*second)) {
            let Some(page) = words.first().map(|(at, _)| page_of(*at)) else { continue };
            let access = image.protection(page, page_bytes);
            let writable = access & libc::PROT_WRITE != 0;
            if !writable {
                protect(page, page_bytes, access | libc::PROT_WRITE)?;
            }
            for &(at, value) in words {
                // SAFETY: an aligned word of the object's tables, in a page that is writable now.
                let word = unsafe { &*(at as *const AtomicUsize) };
                word.store(value, Ordering::Release);
            }
            if !writable {
                protect(page, page_bytes, access)?;
            }
        }
        Ok(())
    }
}

fn protect(page: usize, bytes: usize, access: libc::c_int) -> Result<()> {
    // SAFETY: a page of a loaded object, which gets more access than before, or its previous access.
    let status = unsafe { libc::mprotect(std::ptr::with_exposed_provenance_mut(page), bytes, access) };
    if status == 0 { Ok(()) } else { Err(Error::last_os_error()) }
}
