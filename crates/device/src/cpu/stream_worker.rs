//! The owner's thread of one stream: its copies and host work, in order.

use super::futex;
use super::owner_queue::{Op, Work};
use super::stream::Stream;
use crate::any_end::CopySink;
use crate::in_flight::{Sender, complete_in_order};
use accord_types::spin_policy::SpinPolicy;
use accord_types::{DevicePtr, Result, SpanKind};
use std::sync::atomic::{Ordering, fence};
use std::time::Duration;

/// Longest sleep.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);

/// Serves `stream` until it is closed.
pub(crate) fn run(stream: &Stream) {
    let mut spin = SpinPolicy::default();
    loop {
        let doorbell = stream.block().owner_doorbell.load(Ordering::Acquire);
        fence(Ordering::SeqCst);
        match stream.next_work() {
            None => return,
            Some(Work::Run(seq, op)) => stream.run(seq, op),
            Some(Work::Notify(due, result)) => {
                if let Some(output) = &stream.shared.output {
                    output.drain();
                }
                stream.take_spans();
                let idle = due.is_empty();
                for done in due {
                    done(result.clone());
                }
                // A failed stream with no operations to drop has no more work.
                if idle {
                    futex::wait(&stream.block().owner_doorbell, doorbell, Some(CHECK_INTERVAL));
                }
            }
            Some(Work::Sleep) => wait(stream, doorbell, &mut spin),
        }
    }
}

/// Blocks until the stream has reached a position that this process waits for, or the doorbell has rung; spins before
/// blocking.
fn wait(stream: &Stream, doorbell: u32, spin: &mut SpinPolicy) {
    let block = stream.block();
    // The wanted position may change meanwhile without a ring of the doorbell.
    let is_over = || stream.is_wanted();
    let has_rung = || block.owner_doorbell.load(Ordering::Acquire) != doorbell;
    let sleep = || {
        // The worker rings only for positions that were wanted when it reached them.
        fence(Ordering::SeqCst);
        if !is_over() {
            futex::wait(&block.owner_doorbell, doorbell, Some(CHECK_INTERVAL));
        }
    };
    spin.wait(|| is_over() || has_rung(), sleep);
}

/// Performs the operation at `seq`, on the thread whose turn it is, and with a copy out those that may follow. `seq` is then the last one's.
pub(crate) fn perform(stream: &Stream, seq: &mut u64, op: Op) -> Result<()> {
    let shared = &stream.shared;
    match op {
        Op::CopyIn { dst, len, mut source } => {
            let to = shared.arena.translate(dst, len)?;
            let span = shared.tracer.begin();
            // SAFETY: `translate` checked the range. The stream's order gives this operation the bytes, as for a DMA engine. A
            // racing program gets the same result as with one.
            source.fill(unsafe { std::slice::from_raw_parts_mut(to, len as usize) })?;
            shared.tracer.end(stream.queue, SpanKind::CopyIn, len, span);
            Ok(())
        }
        Op::CopyOut { src, len, sink } => copy_out(stream, seq, (src, len, sink)),
        Op::Unmap { start, len } => shared.arena.unmap(start, len),
    }
}

/// A copy out whose sink has received its bytes.
struct InFlight {
    seq: u64,
    len: u64,
    sink: CopySink,
    span: u64,
}

/// The copies in flight of one stream, of which `last` is the latest.
struct Window<'a> {
    stream: &'a Stream,
    last: &'a mut u64,
}

impl Window<'_> {
    fn send(&self, seq: u64, (src, len, mut sink): (DevicePtr, u64, CopySink)) -> Result<InFlight> {
        let shared = &self.stream.shared;
        let from = shared.arena.translate(src, len)?;
        let span = shared.tracer.begin();
        // SAFETY: as above.
        sink.drain(unsafe { std::slice::from_raw_parts(from, len as usize) })?;
        Ok(InFlight { seq, len, sink, span })
    }
}

impl Sender for Window<'_> {
    type Copy = InFlight;

    fn send_next(&mut self) -> Result<Option<InFlight>> {
        let Some(copy) = self.stream.take_following(*self.last) else { return Ok(None) };
        *self.last += 1;
        self.send(*self.last, copy).map(Some)
    }

    fn complete(&mut self, copy: InFlight, others: bool) -> Result<()> {
        let InFlight { seq, len, mut sink, span } = copy;
        sink.finish()?;
        drop(sink);
        self.stream.shared.tracer.end(self.stream.queue, SpanKind::CopyOut, len, span);
        if others {
            self.stream.has_done_one(seq);
        }
        Ok(())
    }
}

/// Performs the copy out at `last`, and those that may follow before it is complete. `last` is then the last one's.
fn copy_out(stream: &Stream, last: &mut u64, copy: (DevicePtr, u64, CopySink)) -> Result<()> {
    let mut window = Window { stream, last };
    let first = window.send(*window.last, copy)?;
    complete_in_order(&mut window, first)
}
