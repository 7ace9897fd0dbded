//! The decision whether spans of a trace are recorded.

/// A decision about the spans of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sampling {
    /// Spans are recorded.
    Sampled,
    /// Spans are not recorded.
    NotSampled,
    /// The sender leaves the decision to others, as B3 allows.
    Undecided,
}

impl Sampling {
    /// The decision in flags, whose lowest bit is `sampled`.
    pub(super) fn by_flags(flags: u8) -> Self {
        match flags & SAMPLED {
            0 => Self::NotSampled,
            _ => Self::Sampled,
        }
    }
}

/// The flag `sampled` of W3C Trace Context, and of `grpc-trace-bin`.
pub(super) const SAMPLED: u8 = 1;
