//! What a device is: its properties (OpenACC 3.3, 3.2.6).

use crate::abi_boundary::{enter, routine};
use accord_types::short_lock::ShortLock;
use accord_types::{DeviceType, Result};
use std::collections::HashSet;
use std::ffi::{CStr, CString, c_char};

routine! {
    /// Returns a number, or 0 if it is unknown.
    fn acc_get_property(num: i32, kind: i32, property: i32) -> usize =
        |runtime, local| match DeviceType::from_raw(kind) {
            Some(kind) => {
                let value = runtime.get_property(local, num, kind, property)?;
                Ok(usize::try_from(value).unwrap_or(usize::MAX))
            }
            None => Ok(0),
        };
}

/// Returns a text that is never freed, or null if it is unknown.
#[unsafe(no_mangle)]
extern "C" fn acc_get_property_string(num: i32, kind: i32, property: i32) -> *const c_char {
    match text("acc_get_property_string", num, kind, property) {
        Some(text) => kept(text).as_ptr(),
        None => std::ptr::null(),
    }
}

/// A string property.
pub(crate) fn text(call: &'static str, num: i32, kind: i32, property: i32) -> Option<String> {
    enter(call, |runtime, local| -> Result<Option<String>> {
        match DeviceType::from_raw(kind) {
            Some(kind) => runtime.get_property_string(local, num, kind, property),
            None => Ok(None),
        }
    })
}

/// Returns the text as a C string that is never freed. Each different text is kept once.
fn kept(text: String) -> &'static CStr {
    static TEXTS: ShortLock<Option<HashSet<&'static CStr>>> = ShortLock::new(None);
    // A name with a zero byte inside ends there.
    let end = text.find('\0').unwrap_or(text.len());
    let text = CString::new(&text[..end]).unwrap_or_default();
    let mut texts = TEXTS.lock();
    let texts = texts.get_or_insert_default();
    if let Some(known) = texts.get(text.as_c_str()) {
        return known;
    }
    let new: &'static CStr = Box::leak(text.into_boxed_c_str());
    texts.insert(new);
    new
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_kept_once_and_ends_at_a_zero_byte() {
        let first = kept("CPU device".into());
        assert_eq!(first.as_ptr(), kept("CPU device".into()).as_ptr());
        assert_eq!(kept("a\0b".into()), c"a");
    }
}
