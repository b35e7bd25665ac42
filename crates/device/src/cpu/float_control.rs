//! Carries the program's floating-point control state to its launches: rounding, flush-to-zero and trapped exceptions in a region are those of the
//! launching thread.
//!
//! Status flags are not returned, because a launch may be asynchronous.

use accord_types::FloatControl;
use std::arch::asm;

/// Returns the calling thread's floating-point control state. Costs two stores or one register move.
#[inline]
pub fn float_control() -> FloatControl {
    FloatControl::of_registers(Registers::read().bits())
}

/// Calls `function` with `control` in force, which is the calling thread's own again on return.
///
/// # Safety
/// `function` must be callable with `argument`, and must not unwind.
pub(super) unsafe fn call(function: extern "C" fn(*mut u8), argument: *mut u8, control: FloatControl) {
    let own = Registers::read();
    match control.registers() {
        // SAFETY: the caller's promise.
        Some(wanted) if wanted != own.bits() => unsafe { own.call_with(wanted, function, argument) },
        _ => function(argument),
    }
}

/// The registers `MXCSR` and the x87 control word.
#[cfg(target_arch = "x86_64")]
#[repr(C)]
struct Registers {
    mxcsr: u32,
    x87: u16,
}

#[cfg(target_arch = "x86_64")]
impl Registers {
    /// Modes and exception masks of `MXCSR`, without its status flags.
    const MXCSR_CONTROL: u32 = 0xffc0;
    /// Exception masks, precision and rounding in the x87 control word.
    const X87_CONTROL: u16 = 0x0f3f;

    #[inline]
    fn read() -> Self {
        let mut read = Self { mxcsr: 0, x87: 0 };
        // SAFETY: each instruction stores one word into a local value.
        unsafe {
            asm!(
                "stmxcsr [{mxcsr}]",
                "fnstcw [{x87}]",
                mxcsr = in(reg) &raw mut read.mxcsr,
                x87 = in(reg) &raw mut read.x87,
                options(nostack, preserves_flags)
            );
        }
        read
    }

    #[inline]
    fn bits(&self) -> u32 {
        self.mxcsr & Self::MXCSR_CONTROL | u32::from(self.x87 & Self::X87_CONTROL) << 16
    }

    /// # Safety
    /// As for [`call`].
    #[cold]
    unsafe fn call_with(self, wanted: u32, function: extern "C" fn(*mut u8), argument: *mut u8) {
        let wanted = Self { mxcsr: wanted & Self::MXCSR_CONTROL, x87: (wanted >> 16) as u16 & Self::X87_CONTROL };
        // SAFETY: the caller guarantees the call. The registers get only control bits, so that loading them never faults. The block clears the x87 status
        // flags first, because a flag whose exception becomes unmasked would trap. It restores the control bits at its end. The callee preserves r12 and
        // r13.
        unsafe {
            asm!(
                "fnclex",
                "fldcw [r12 + 4]",
                "ldmxcsr [r12]",
                "call rax",
                "fnclex",
                "fldcw [r13 + 4]",
                "ldmxcsr [r13]",
                in("r12") &raw const wanted,
                in("r13") &raw const self,
                inout("rax") function => _,
                in("rdi") argument,
                clobber_abi("C"),
            );
        }
    }
}

/// The register `FPCR`, whose upper half has no bits.
#[cfg(target_arch = "aarch64")]
struct Registers {
    fpcr: u64,
}

#[cfg(target_arch = "aarch64")]
impl Registers {
    /// Modes and trap enables of `FPCR` that do not depend on optional extensions.
    const FPCR_CONTROL: u64 = 0x07c0_9f00;

    #[inline]
    fn read() -> Self {
        let fpcr;
        // SAFETY: reads a register.
        unsafe { asm!("mrs {}, fpcr", out(reg) fpcr, options(nomem, nostack, preserves_flags)) };
        Self { fpcr }
    }

    #[inline]
    fn bits(&self) -> u32 {
        (self.fpcr & Self::FPCR_CONTROL) as u32
    }

    /// # Safety
    /// As for [`call`].
    #[cold]
    unsafe fn call_with(self, wanted: u32, function: extern "C" fn(*mut u8), argument: *mut u8) {
        // SAFETY: the caller guarantees the call. The processor ignores bits that it lacks. The block restores the register at its end, and the callee
        // preserves x20.
        unsafe {
            asm!(
                "msr fpcr, x10",
                "blr x9",
                "msr fpcr, x20",
                in("x20") self.fpcr,
                inout("x9") function => _,
                inout("x10") u64::from(wanted) & Self::FPCR_CONTROL => _,
                inout("x0") argument => _,
                clobber_abi("C"),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A non-default state: rounding upwards, subnormal numbers flushed to zero.
    #[cfg(target_arch = "x86_64")]
    const UPWARD: u32 = 0xdf80 & 0xffc0 | 0x0b3f << 16;
    #[cfg(target_arch = "aarch64")]
    const UPWARD: u32 = 1 << 22 | 1 << 24;

    extern "C" fn state(out: *mut u8) {
        // SAFETY: the tests pass such a value.
        unsafe { *out.cast::<FloatControl>() = float_control() };
    }

    fn state_within(control: FloatControl) -> FloatControl {
        let mut seen = FloatControl::default();
        // SAFETY: `state` takes the address of such a value, and returns.
        unsafe { call(state, (&raw mut seen).cast(), control) };
        seen
    }

    #[test]
    fn a_function_runs_in_the_state_that_is_asked_for_and_the_callers_comes_back() {
        let own = float_control();
        let upward = FloatControl::of_registers(UPWARD);
        assert_ne!(own, upward);
        assert_eq!(state_within(upward), upward);
        assert_eq!(float_control(), own);
        assert_eq!(state_within(own), own);
        assert_eq!(state_within(FloatControl::default()), own);
    }

    #[test]
    fn bits_that_no_register_takes_are_left_out() {
        let own = float_control();
        // All exceptions stay masked: the test is that loading does not fault.
        #[cfg(target_arch = "x86_64")]
        let odd = FloatControl::from_wire(u32::MAX);
        #[cfg(target_arch = "aarch64")]
        let odd = FloatControl::from_wire(u32::MAX & !0x9f00);
        state_within(odd);
        assert_eq!(float_control(), own);
    }
}
