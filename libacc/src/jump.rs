//! The machine's jump instruction, for exported functions that pass all their arguments on.

/// Jumps to `target`.
#[cfg(target_arch = "x86_64")]
macro_rules! jump {
    () => {
        "jmp {target}"
    };
}
#[cfg(target_arch = "aarch64")]
macro_rules! jump {
    () => {
        "b {target}"
    };
}

/// Jumps to the function whose address is at offset `slot` of `slots`.
#[cfg(target_arch = "x86_64")]
macro_rules! jump_by_slot {
    () => {
        "jmp qword ptr [rip + {slots} + {slot}]"
    };
}
#[cfg(target_arch = "aarch64")]
macro_rules! jump_by_slot {
    () => {
        "adrp x16, {slots} + {slot}\nldr x16, [x16, :lo12:{slots} + {slot}]\nbr x16"
    };
}
