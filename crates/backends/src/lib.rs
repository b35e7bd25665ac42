//! The backends, by the kind of their devices.

#![forbid(unsafe_code)]

use accord_device::{Backend, Capabilities, Found, cpu, fake};
use accord_types::{DeviceKind, Error, ErrorCode, NodeId, Result};

/// All backends. A new one must be added only here and in its own folder or crate.
pub static BACKENDS: [&Backend; 3] = [&cpu::BACKEND, &accord_gpu::BACKEND, &fake::BACKEND];

/// Returns the backend of a kind.
///
/// # Errors
/// Returns `acc_error_device_init` for a kind unknown to this version, which a newer node may offer.
pub fn backend(kind: DeviceKind) -> Result<&'static Backend> {
    BACKENDS.into_iter().find(|backend| backend.kind == kind).ok_or_else(|| {
        Error::new(ErrorCode::DeviceInit, format!("this version of Accord has no backend for devices of {kind}"))
            .remedy("install one version of Accord on all nodes")
    })
}

/// Returns the capabilities of devices of a kind, or `None` for a kind that this version does not know.
pub fn capabilities(kind: DeviceKind) -> Option<&'static Capabilities> {
    backend(kind).ok().map(|backend| backend.capabilities)
}

/// Returns the kind of the devices that exist if there are no others.
pub fn fallback_kind() -> Option<DeviceKind> {
    BACKENDS.into_iter().find(|backend| backend.capabilities.fallback).map(|backend| backend.kind)
}

/// Finds the devices of this machine, except for those of fallback kinds.
pub fn find(node: NodeId, node_name: &str) -> Found {
    let mut all = Found::default();
    let mut notes = Vec::new();
    for backend in BACKENDS.into_iter().filter(|backend| !backend.capabilities.fallback) {
        let found = (backend.find)(node, node_name);
        all.devices.extend(found.devices);
        all.failed |= found.failed;
        notes.extend(found.note);
    }
    all.note = (!notes.is_empty()).then(|| notes.join("; "));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_backend_has_a_kind_and_a_name_of_its_own() {
        for (at, one) in BACKENDS.iter().enumerate() {
            assert!(std::ptr::eq(backend(one.kind).expect("it is there"), *one));
            assert!(BACKENDS[..at].iter().all(|other| other.kind != one.kind && other.name != one.name));
        }
    }

    #[test]
    fn a_kind_of_a_newer_version_is_an_error_that_says_so() {
        let error = backend(DeviceKind::from_number(200)).err().expect("no backend has it");
        assert!(error.to_string().contains("one version of Accord"), "{error}");
        assert!(capabilities(DeviceKind::from_number(200)).is_none());
    }
}
