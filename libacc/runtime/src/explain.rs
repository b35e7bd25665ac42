//! Explains errors that a device has reported.

use crate::Runtime;
use crate::bare_pointers::BarePointer;
use crate::bounds::REMEDY;
use crate::construct::{Entries, ONE_ELEMENT};
use crate::device::Device;
use crate::pointer_log::{LoggedRegion, PointerMeaning};
use crate::ports::ConstantKind;
use accord_types::{Error, ErrorCode, HostRange};

/// The longest distance behind a pointer at which a region may have read its target.
const REACH: usize = 1 << 30;

impl Runtime {
    /// Adds to the error of a region that crashed where it was outside the device's data. Otherwise it adds which arguments lead to host
    /// memory, and the remedies. With `ACCORD_EXPLAIN_ERRORS`, errors about absent data show the present table.
    pub fn explain(&self, error: Error) -> Error {
        if self.settings.explains_errors {
            return self.explain_crash(self.with_present_table(error));
        }
        self.explain_crash(error)
    }

    /// Adds to the error of a region that crashed.
    fn explain_crash(&self, error: Error) -> Error {
        if error.code() != ErrorCode::Execution || error.remedy_text() == Some(REMEDY) {
            return error;
        }
        let explained = self.explain_outside(&error).or_else(|| self.explain_constant(&error));
        explained.or_else(|| self.explain_given(&error)).or_else(|| self.explain_copied(&error)).unwrap_or(error)
    }

    /// Explains an error by the data that is nearest to what the region accessed.
    fn explain_outside(&self, error: &Error) -> Option<Error> {
        if error.remedy_text() == Some(ONE_ELEMENT) {
            return None;
        }
        let accessed = accessed_address(error.cause())?;
        let mut devices =
            self.devices.iter().filter(|device| error.place().device.is_none_or(|num| num == device.num()));
        let near = devices.find_map(|device| device.data_near(accessed as u64))?;
        let name = self.host.describe(near.host).unwrap_or_else(|| format!("{:#x}", near.host.start));
        let (distance, side) = (near.distance, if near.is_behind { "behind the end of" } else { "ahead of" });
        Some(
            error
                .clone()
                .more(format!(
                    "no data is there; it is {distance} bytes {side} the nearest, the {} bytes of {name}",
                    near.host.len
                ))
                .instead(REMEDY),
        )
    }

    /// Explains an error by the function or constant of the program that the region accessed. If a pointer leads
    /// there that the region got without a clause, the pointer has to be corrected.
    fn explain_constant(&self, error: &Error) -> Option<Error> {
        let accessed = accessed_address(error.cause())?;
        let constant = self.host.constant_at(accessed)?;
        let leads =
            |pointer: &usize| accessed.checked_sub(*pointer).is_some_and(|behind| *pointer != 0 && behind < REACH);
        let given = || self.devices.iter().flat_map(|device| device.launches.pointers.regions());
        if constant.kind == ConstantKind::Data && given().any(|region| region.pointers.iter().any(leads)) {
            return None;
        }
        let remedy = match constant.kind {
            ConstantKind::Function => {
                "a function's address holds in the process that took it: have the region call the function by its name, chosen by a number \
                 (if, switch), or take the address within the region"
            }
            ConstantKind::OfClass if self.host.is_fortran() => {
                "type-bound procedures of a class object are found by addresses of the process that made it: write select type around the \
                 region, and name the object in a clause"
            }
            ConstantKind::OfClass => {
                "an object with virtual functions works in the process that made it: make the object within the region, or call a function \
                 that is not virtual"
            }
            ConstantKind::Data => {
                "copy what the pointer points to as well, as copyin(p[0:n]), or have the region name the constant itself"
            }
        };
        let what =
            format!("in the program that is {}, which the device's process has at another address", constant.name);
        Some(error.clone().more(what).instead(remedy))
    }

    /// Adds to the error of a region that left its data, right at its construct, that a clause of it names one element.
    pub(crate) fn explain_element(
        &self,
        device: &Device,
        function: usize,
        error: Error,
        entries: &Entries<'_>,
    ) -> Error {
        let is_given = || device.launches.pointers.regions().iter().any(|region| region.function == function);
        if error.code() != ErrorCode::Execution
            || is_given()
            || !device.may_have_left_data(accessed_address(error.cause()))
        {
            return error;
        }
        let is_whole = |range: HostRange| self.host.block_of(range.start).is_some_and(|block| block.len <= range.len);
        let Some(element) = entries.elements().find(|range| !is_whole(*range)) else { return error };
        let name = self.host.describe(element).unwrap_or_else(|| format!("{:#x}", element.start));
        error.more(format!("a clause names {} bytes at {name}", element.len)).instead(ONE_ELEMENT)
    }

    /// Explains an error by pointers that were copied to the device, without what they point to.
    fn explain_copied(&self, error: &Error) -> Option<Error> {
        let accessed = accessed_address(error.cause());
        let devices = self.devices.iter().filter(|device| error.place().device.is_none_or(|num| num == device.num()));
        let all = devices.flat_map(|device| device.bare_pointers(&*self.host, accessed));
        let named = |pointer: BarePointer| Some((self.name(pointer)?, pointer.is_variable));
        let (names, variables): (Vec<String>, Vec<bool>) = all.filter_map(named).unzip();
        let error = match names.as_slice() {
            [] => return None,
            [one] => error.clone().more(format!("{one} was copied as an address, without what is there")),
            several => {
                error.clone().more(format!("{} were copied as addresses, without what is there", several.join(", ")))
            }
        };
        let are_variables = variables.iter().all(|is_variable| *is_variable);
        Some(error.instead(if are_variables && self.settings.maps_unmapped {
            "name what a pointer points to, with its length, as copy(p[0:n]) instead of copy(p)"
        } else if are_variables {
            "name what a pointer points to, with its length, as copy(p[0:n]) instead of copy(p), or set ACCORD_UNMAPPED=map"
        } else {
            "map what a pointer within other data points to as well, as enter data copyin(s.p[0:n]) after s: that sets the device's pointer"
        }))
    }

    /// Returns the name of the pointer's variable. If an optimized program keeps that in a register, the name of a
    /// variable that leads to the same place.
    fn name(&self, pointer: BarePointer) -> Option<String> {
        let name = |address, len| self.host.describe(HostRange { start: address, len });
        let is_named = |name: &String| !name.starts_with("0x");
        let own = name(pointer.address, size_of::<usize>())?;
        if is_named(&own) { Some(own) } else { Some(name(pointer.value, 1).filter(is_named).unwrap_or(own)) }
    }

    /// Explains an error by pointers that the region got without a clause.
    fn explain_given(&self, error: &Error) -> Option<Error> {
        let all = self.devices.iter().flat_map(|device| device.launches.pointers.regions());
        let named = |region: &LoggedRegion| {
            self.host.function(region.function).is_ok_and(|spec| is_named(error.cause(), &spec.name))
        };
        let region = all.into_iter().find(named)?;
        let mut pointers: Vec<String> = region
            .pointers
            .iter()
            .filter_map(|pointer| self.host.describe(HostRange { start: *pointer, len: 1 }))
            .collect();
        if pointers.is_empty() {
            return None;
        }
        let mut unnamed = pointers.iter_mut().filter(|name| name.starts_with("0x"));
        if let (Some(one), None) = (unnamed.next(), unnamed.next())
            && let Some(name) = self.host.pointer_of_region(region.function)
        {
            *one = name;
        }
        let (error, pointers) = (error.clone(), pointers.join(", "));
        if region.copied {
            let error = error.more(format!("it got copies of the blocks that these point to: {pointers}")).instead(
                "pointers inside of such blocks are not followed; map what they point to by enter data and attach",
            );
            return Some(error);
        }
        let error = error.more(format!("it was given pointers that nothing maps: {pointers}"));
        // Fortran passes arrays with their bounds: only objects are passed by address.
        let is_fortran = self.host.is_fortran();
        Some(error.instead(match region.means {
            PointerMeaning::Array if !is_fortran && self.settings.maps_unmapped => {
                "write a data clause with the length, as copy(a[0:n]): ACCORD_UNMAPPED=map finds no block there, as in memory of mmap or of an \
                 allocator that comes before libacc"
            }
            PointerMeaning::Array if !is_fortran => {
                "write a data clause with the length, as copy(a[0:n]), or set ACCORD_UNMAPPED=map"
            }
            PointerMeaning::Reference => "name the scalar, too: for a reference s of C++ in a reduction copy(s) beside it",
            PointerMeaning::Array | PointerMeaning::Object if is_fortran => {
                "map the object first: for a pointer x write enter data copyin(x) ahead of the clauses that name x%a"
            }
            PointerMeaning::Array | PointerMeaning::Object => {
                "map the object first: for a pointer p write copyin(p[0:1]) ahead of the clauses that name p->a[0:n]"
            }
        }))
    }
}

/// Returns the address at which a region was stopped, if its error contains it.
fn accessed_address(cause: &str) -> Option<usize> {
    let (_, after) = cause.split_once("at address 0x")?;
    let end = after.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(after.len());
    usize::from_str_radix(&after[..end], 16).ok()
}

/// Whether a text contains a name that is not the beginning of a longer one.
fn is_named(text: &str, name: &str) -> bool {
    text.match_indices(name).any(|(at, _)| {
        let next = text[at + name.len()..].chars().next();
        next.is_none_or(|next| !next.is_alphanumeric())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_is_read_from_the_cause() {
        assert_eq!(accessed_address("ended with SIGSEGV at address 0x7f10; look"), Some(0x7f10));
        assert_eq!(accessed_address("at address 0xff"), Some(0xff));
        assert_eq!(accessed_address("an illegal address"), None);
    }

    #[test]
    fn a_name_is_not_the_beginning_of_another() {
        assert!(is_named("region main._omp_fn.1 (a.c:3) ended", "main._omp_fn.1"));
        assert!(is_named("main._omp_fn.1", "main._omp_fn.1"));
        assert!(!is_named("region main._omp_fn.10 ended", "main._omp_fn.1"));
    }
}
