//! The floating-point control state of a thread.

/// Rounding mode, trapped exceptions and flush-to-zero mode of a thread, as its processor's control registers hold them.
///
/// The bits mean the same in all processes of a program, since these run the same executable. The default asks for no
/// particular state: a region then runs in the state of the device's own thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FloatControl(u32);

impl FloatControl {
    /// Set in every state read from a thread. No control register uses this bit.
    const READ: u32 = 1 << 31;

    /// Returns the state for these bits of the control registers.
    pub fn of_registers(bits: u32) -> Self {
        Self(bits | Self::READ)
    }

    /// Returns the registers' bits, or `None` if no particular state is asked for.
    pub fn registers(self) -> Option<u32> {
        (self.0 & Self::READ != 0).then_some(self.0 & !Self::READ)
    }

    /// Returns the state as a number on the wire.
    pub fn to_wire(self) -> u32 {
        self.0
    }

    /// Returns the state that [`FloatControl::to_wire`] wrote. Every number is valid: bits that no register takes are
    /// masked where the state is loaded.
    pub fn from_wire(number: u32) -> Self {
        Self(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_survives_the_wire_and_the_default_asks_for_none() {
        for bits in [0, 0x1f80, 0x037f_ffc0] {
            let state = FloatControl::from_wire(FloatControl::of_registers(bits).to_wire());
            assert_eq!(state.registers(), Some(bits));
        }
        assert_eq!(FloatControl::from_wire(FloatControl::default().to_wire()).registers(), None);
    }
}
