//! The wire formats, as bytes. This module reads and writes no lane.
//!
//! * [`Command`], [`Event`]: records of the command lane, in frames ([`put`], [`FrameReader`]) with their payloads.
//! * [`transfer`]: chunks of transfers, and the control messages about them.
//! * [`session`]: the messages between a program and its coordinator.

mod command;
mod event;
mod failure;
mod payload;
pub mod session;
mod stream;
pub mod transfer;

pub use command::{
    CREDIT_STEP, CREDIT_WINDOW, Command, EXCHANGE_STEP, EXCHANGE_WINDOW, STREAM_STEP, STREAM_WINDOW, operation_cost,
};
pub use event::Event;
pub use failure::{Failure, decode_error, encode_error};
pub use payload::{
    POSITION_LEN, Position, SpanRecord, decode_function, decode_global, decode_program, decode_spans, encode_function,
    encode_global, encode_program, encode_span, positions, put_position,
};
pub use stream::{Aligned, FRAME_MAX, Frame, FrameReader, HEADER_LEN, PAYLOAD_MAX, RECORD_LEN, Record, put};
