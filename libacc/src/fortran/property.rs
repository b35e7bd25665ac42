//! What a device is: its properties (OpenACC 3.3, 3.2.6). GCC's module passes these arguments by value.

use crate::api::{property as c, property_text};
use std::ffi::c_char;

#[unsafe(no_mangle)]
extern "C" fn acc_get_property_h_(num: i32, kind: i32, property: i32) -> usize {
    c::acc_get_property(num, kind, property)
}

/// Pads `text` with blanks, or cuts the property. The text's length is gfortran's hidden argument.
///
/// # Safety
/// `text` must be writable for `len` bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn acc_get_property_string_h_(num: i32, kind: i32, property: i32, text: *mut c_char, len: usize) {
    let value = property_text("acc_get_property_string", num, kind, property).unwrap_or_default();
    // SAFETY: the caller's promise.
    unsafe { fill(text, len, &value) }
}

/// Fills a character variable, padded with blanks.
///
/// # Safety
/// `text` must be writable for `len` bytes.
pub(super) unsafe fn fill(text: *mut c_char, len: usize, value: &str) {
    if len > 0 {
        // SAFETY: the caller's promise.
        padded(unsafe { std::slice::from_raw_parts_mut(text.cast(), len) }, value);
    }
}

fn padded(text: &mut [u8], value: &str) {
    let taken = value.len().min(text.len());
    let (front, rest) = text.split_at_mut(taken);
    front.copy_from_slice(&value.as_bytes()[..taken]);
    rest.fill(b' ');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_padded_or_cut() {
        let mut text = [0u8; 6];
        padded(&mut text, "CPU");
        assert_eq!(&text, b"CPU   ");
        padded(&mut text, "CPU device");
        assert_eq!(&text, b"CPU de");
        padded(&mut text, "");
        assert_eq!(&text, b"      ");
    }
}
