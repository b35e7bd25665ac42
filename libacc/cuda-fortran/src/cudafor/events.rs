//! The routines on events. An event that the program did not create has handle 0.

use crate::errors::{INVALID_RESOURCE_HANDLE, INVALID_VALUE, MEMORY_ALLOCATION, NOT_READY, SUCCESS, keep};
use crate::events::{self, Failure};
use crate::streams;

/// `cudaEventDisableTiming`.
const WITHOUT_TIME: i32 = 2;

fn code(result: Result<(), Failure>) -> i32 {
    match result {
        Ok(()) => SUCCESS,
        Err(Failure::Handle) => keep(INVALID_RESOURCE_HANDLE),
        Err(Failure::NotRecorded) => keep(INVALID_VALUE),
        Err(Failure::NotReady) => NOT_READY,
        Err(Failure::NoMemory) => keep(MEMORY_ALLOCATION),
    }
}

#[unsafe(no_mangle)]
extern "C" fn accord_cuf_event_create(event: &mut i64) -> i32 {
    *event = events::create(true);
    SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn accord_cuf_event_create_with_flags(event: &mut i64, flags: i32) -> i32 {
    if !(0..=3).contains(&flags) {
        return keep(INVALID_VALUE);
    }
    *event = events::create(flags & WITHOUT_TIME == 0);
    SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn accord_cuf_event_record(event: &i64, stream: i64) -> i32 {
    code(events::record(*event, stream))
}

#[unsafe(no_mangle)]
extern "C" fn accord_cuf_event_record_i4(event: &i64, stream: i32) -> i32 {
    accord_cuf_event_record(event, i64::from(stream))
}

#[unsafe(no_mangle)]
extern "C" fn accord_cuf_event_record_default(event: &i64) -> i32 {
    accord_cuf_event_record(event, streams::selected())
}

#[unsafe(no_mangle)]
extern "C" fn accord_cuf_event_query(event: &i64) -> i32 {
    code(events::is_complete(*event).and_then(|is_complete| if is_complete { Ok(()) } else { Err(Failure::NotReady) }))
}

#[unsafe(no_mangle)]
extern "C" fn accord_cuf_event_synchronize(event: &i64) -> i32 {
    code(events::wait(*event))
}

#[unsafe(no_mangle)]
extern "C" fn accord_cuf_event_destroy(event: &mut i64) -> i32 {
    let code = code(events::destroy(*event));
    *event = 0;
    code
}

#[unsafe(no_mangle)]
extern "C" fn accord_cuf_event_elapsed(milliseconds: &mut f32, start: &i64, end: &i64) -> i32 {
    code(events::elapsed(*start, *end).map(|time| *milliseconds = time))
}

#[unsafe(no_mangle)]
extern "C" fn accord_cuf_stream_wait_event(stream: i64, event: &i64, flags: i32) -> i32 {
    if flags == 0 { code(events::stream_waits(stream, *event)) } else { keep(INVALID_VALUE) }
}

#[unsafe(no_mangle)]
extern "C" fn accord_cuf_stream_wait_event_default(stream: i64, event: &i64) -> i32 {
    accord_cuf_stream_wait_event(stream, event, 0)
}
