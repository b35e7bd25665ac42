//! Values of registers that depend on the gang's number, as far as the analysis of loops over gangs needs them.

/// The known value of a register.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Value {
    Constant(i64),
    /// A thread number, or a multiple of it.
    Thread,
    Gang(Gang),
    /// A multiple of a quotient with this divisor: a gang's share of a loop.
    Share {
        of: u64,
        times: i64,
    },
    /// The end of a gang's share: the smaller of the next one's start and the loop's end (the larger if it counts down).
    Bound {
        /// The start of the share.
        begin: Gang,
        /// The loop's end, if that is a constant.
        end: Option<i64>,
    },
}

/// A multiple of the gang's number (times a share), and an offset.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Gang {
    pub(super) times: i64,
    /// The divisor of the share.
    pub(super) share: Option<u64>,
    /// The number of a thread of the gang is added.
    pub(super) thread: bool,
    pub(super) rest: Rest,
}

/// The offset from a multiple of the gang's number, without thread numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Rest {
    Constant(i64),
    /// A multiple of the same share.
    Shares(i64),
    Unknown,
}

impl Gang {
    pub(super) const NUMBER: Self = Self { times: 1, share: None, thread: false, rest: Rest::Constant(0) };

    /// Returns the start of this share if `self` is its end, where the next gang's begins.
    pub(super) fn begin(self) -> Option<Self> {
        let next = match self.share {
            None => Rest::Constant(self.times),
            Some(_) => Rest::Shares(self.times),
        };
        (self.times != 0 && self.rest == next).then_some(Self { rest: Rest::Constant(0), ..self })
    }

    fn plus(self, other: Option<Value>) -> Option<Self> {
        let rest = match (self.rest, other) {
            (_, Some(Value::Thread)) => return Some(Self { thread: true, ..self }),
            (Rest::Constant(rest), Some(Value::Constant(more))) => Rest::Constant(rest.checked_add(more)?),
            (Rest::Constant(0), Some(Value::Share { of, times })) if self.share == Some(of) => Rest::Shares(times),
            (Rest::Shares(rest), Some(Value::Share { of, times })) if self.share == Some(of) => {
                Rest::Shares(rest.checked_add(times)?)
            }
            _ => Rest::Unknown,
        };
        Some(Self { rest, ..self })
    }

    fn plus_gang(self, other: Self) -> Option<Self> {
        if self.share != other.share {
            return None;
        }
        let rest = match (self.rest, other.rest) {
            (Rest::Constant(a), Rest::Constant(b)) => Rest::Constant(a.checked_add(b)?),
            _ => Rest::Unknown,
        };
        let times = self.times.checked_add(other.times)?;
        Some(Self { times, thread: self.thread || other.thread, rest, ..self })
    }

    fn times(self, by: i64) -> Option<Self> {
        let rest = match self.rest {
            Rest::Constant(rest) => Rest::Constant(rest.checked_mul(by)?),
            Rest::Shares(rest) => Rest::Shares(rest.checked_mul(by)?),
            Rest::Unknown => Rest::Unknown,
        };
        Some(Self { times: self.times.checked_mul(by)?, rest, ..self })
    }
}

/// Returns the sum of two values, of which one may be unknown.
pub(super) fn plus(a: Option<Value>, b: Option<Value>) -> Option<Value> {
    use Value::{Constant, Share, Thread};
    match (a, b) {
        (Some(Constant(a)), Some(Constant(b))) => a.checked_add(b).map(Constant),
        (Some(Value::Gang(a)), Some(Value::Gang(b))) => a.plus_gang(b).map(Value::Gang),
        (Some(Value::Gang(gang)), other) | (other, Some(Value::Gang(gang))) => gang.plus(other).map(Value::Gang),
        (Some(Thread), Some(Thread)) => Some(Thread),
        (Some(Share { of, times: a }), Some(Share { of: other, times: b })) if of == other => {
            Some(Share { of, times: a.checked_add(b)? })
        }
        _ => None,
    }
}

/// The product of two.
pub(super) fn times(a: Value, b: Value) -> Option<Value> {
    use Value::{Constant, Share, Thread};
    match (a, b) {
        (Constant(a), Constant(b)) => a.checked_mul(b).map(Constant),
        (Thread, Constant(_)) | (Constant(_), Thread) => Some(Thread),
        (Value::Gang(gang), Constant(by)) | (Constant(by), Value::Gang(gang)) => gang.times(by).map(Value::Gang),
        (Share { of, times }, Constant(by)) | (Constant(by), Share { of, times }) => {
            Some(Share { of, times: times.checked_mul(by)? })
        }
        (Value::Gang(gang), Share { of, times }) | (Share { of, times }, Value::Gang(gang))
            if (gang.share, gang.rest) == (None, Rest::Constant(0)) =>
        {
            Some(Value::Gang(Gang { times: gang.times.checked_mul(times)?, share: Some(of), ..gang }))
        }
        _ => None,
    }
}
