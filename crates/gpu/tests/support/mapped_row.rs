//! Copies of one stream to another process, whose targets are ready while earlier ones are in progress.

use super::ends::{Bytes, keep};
use super::{CudaDevice, Importer, MIB, Other, Test, from_hex, map, owner, read, until};
use accord_device::{
    CopySink, CopySource, Device, FetchTo, MappedRange, MemoryHandle, NativeSink, PeerSink, PeerWay, Sink,
};
use accord_types::{DevicePtr, Error, ErrorCode, QueueId, Result, Seq, StreamId};
use libtest_mimic::Failed;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

const COPIES: usize = 8;
/// Number of a device's slots for few bytes. With one more copy the stream would wait for all of them.
const SLOTS: usize = 128;
const SOON: Duration = Duration::from_secs(20);

/// The answer of a sink about its target.
enum Way {
    Mapped(Option<MappedRange>),
    /// The target turned out not to be mapped.
    Lane,
    Gone,
}

/// A sink of a row, which reports its calls.
struct InRow {
    number: usize,
    way: Way,
    printed: Sender<(&'static str, usize)>,
    /// The first one blocks until it is released, before it returns its target.
    reported: Option<Receiver<()>>,
}

impl InRow {
    fn say(&self, what: &'static str) {
        // Closed at the end of a failed test.
        let _ = self.printed.send((what, self.number));
        if let Some(reported) = &self.reported {
            let _ = reported.recv();
        }
    }
}

impl Sink for InRow {
    fn drain(&mut self, _: &[u8]) -> Result<()> {
        self.say("bytes");
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        self.say("end");
        Ok(())
    }
}

impl PeerSink for InRow {
    fn fetch_to(&self) -> FetchTo {
        FetchTo::Nowhere
    }

    fn follows(&self) -> bool {
        true
    }

    fn way(&mut self, _: bool) -> Result<PeerWay> {
        self.say("where");
        Ok(match &mut self.way {
            Way::Mapped(reached) => reached.take().map_or(PeerWay::Host, PeerWay::Mapped),
            Way::Lane => PeerWay::Host,
            Way::Gone => return Err(Error::new(ErrorCode::DeviceUnavailable, "it is gone")),
        })
    }

    fn native(&mut self) -> Option<&mut dyn NativeSink> {
        None
    }
}

/// The calls of the sinks, in order.
type SinkCalls = Receiver<(&'static str, usize)>;

fn printed(from: &SinkCalls, count: usize) -> core::result::Result<Vec<(&'static str, usize)>, Failed> {
    (0..count).map(|_| Ok(from.recv_timeout(SOON)?)).collect()
}

/// Enqueued copies, of which the first waits for its release.
struct Row {
    last: Seq,
    calls: SinkCalls,
    notify: Sender<()>,
}

/// The other process's memory, and its importer.
struct There {
    other: Other,
    handle: MemoryHandle,
    importer: Arc<Importer>,
}

impl There {
    fn begin() -> core::result::Result<Self, Failed> {
        let (other, handle, importer) = Other::giving()?;
        Ok(Self { other, handle, importer })
    }

    /// Enqueues [`COPIES`] copies with their starts and lengths from `place`. `way` chooses the answer for the mapped target.
    fn put(
        &self,
        device: &CudaDevice,
        stream: StreamId,
        place: impl Fn(usize) -> (DevicePtr, usize),
        mut way: impl FnMut(usize, MappedRange) -> Way,
    ) -> core::result::Result<Row, Failed> {
        let ((say, calls), (notify, reported)) = (channel(), channel());
        let (mut reported, mut last) = (Some(reported), Seq(0));
        for number in 0..COPIES {
            let reached = map(&self.importer, device, &self.handle).ok_or("it can't be reached")?;
            let sink = InRow { number, way: way(number, reached), printed: say.clone(), reported: reported.take() };
            let (src, len) = place(number);
            last = device.copy_out(stream, src, len as u64, CopySink::peer(sink))?;
        }
        Ok(Row { last, calls, notify })
    }
}

/// Bytes that have left the device may still be in flight to the program's memory.
pub(crate) fn behind_a_copy_to_the_host() -> Test {
    let (device, mut there) = (owner()?, There::begin()?);
    let stream = device.create_stream(QueueId(4))?;
    let start = device.addresses().0;
    for (round, len) in [64, MIB, 64, 20 * MIB].into_iter().enumerate() {
        let bytes = vec![round as u8 + 1; len as usize];
        let written = device.copy_in(stream, start, len, CopySource::new(Bytes(bytes.clone(), 0)))?;
        device.synchronize(stream, written)?;
        let kept = Arc::default();
        device.copy_out(stream, start, len, keep(&kept, len == 64))?;
        let way = |number, reached| if number % 3 == 1 { Way::Lane } else { Way::Mapped(Some(reached)) };
        let row = there.put(&device, stream, |_| (start, 8), way)?;
        // The first one begins once all are enqueued.
        drop(row.notify);
        device.synchronize(stream, row.last)?;
        assert!(*kept.lock().expect("test lock") == bytes);
        assert_eq!(from_hex(&there.other.ask("read 8")?), &bytes[..8]);
    }
    Ok(())
}

/// Without events each copy waits for the previous one, and later operations do too.
pub(crate) fn without_events() -> Test {
    let (device, mut there) = (owner()?, There::begin()?);
    let [stream, busy] = [device.create_stream(QueueId(4))?, device.create_stream(QueueId(5))?];
    let start = device.addresses().0;
    let written = device.store(stream, start, &[7; 8])?;
    device.synchronize(stream, written)?;
    // Few bytes stay in a slot, which has an event, until they are waited for.
    for _ in 0..SLOTS {
        device.copy_out(busy, start, 8, keep(&Arc::default(), true))?;
    }
    let row = there.put(&device, stream, |_| (start, 8), |_, reached| Way::Mapped(Some(reached)))?;
    let last = device.store(stream, start, &[8; 8])?;
    drop(row.notify);
    let expected: Vec<_> = (0..COPIES).flat_map(|number| [("where", number), ("end", number)]).collect();
    assert_eq!(printed(&row.calls, expected.len())?, expected);
    device.synchronize(stream, last)?;
    assert_eq!(from_hex(&there.other.ask("read 8")?), [7; 8]);
    Ok(())
}

/// Copy `number` writes its number to all but the last `number` of [`COPIES`] words, so that in the end each has one word.
pub(crate) fn go_together() -> Test {
    let (device, mut there) = (owner()?, There::begin()?);
    let stream = device.create_stream(QueueId(4))?;
    let at = |number: usize| device.addresses().0.offset(number as u64 * MIB);
    for odd in [None, Some(Way::Lane), Some(Way::Gone)] {
        for number in 0..COPIES {
            let words = [number as u64 + 1; COPIES].map(u64::to_le_bytes);
            let seq = device.store(stream, at(number), words.as_flattened())?;
            device.synchronize(stream, seq)?;
        }
        let is_gone = odd.as_ref().map(|odd| matches!(odd, Way::Gone));
        let mut odd = odd;
        // The third one differs, if `odd` is given.
        let way = |number, reached| odd.take_if(|_| number == 2).unwrap_or(Way::Mapped(Some(reached)));
        let Row { calls, notify, .. } =
            there.put(&device, stream, |number| (at(number), (COPIES - number) * 8), way)?;
        let last = device.store(stream, at(0), b"behind them all")?;
        assert_eq!(printed(&calls, 1)?, [("where", 0)]);
        notify.send(())?;
        if is_gone == Some(true) {
            assert_eq!(printed(&calls, 2)?, [("where", 1), ("where", 2)]);
            drop(notify);
            let failed = device.synchronize(stream, last).unwrap_err().to_string();
            assert!(failed.contains("it is gone"), "{failed}");
            assert_eq!(printed(&calls, 2)?, [("end", 0), ("end", 1)], "what was before it is told");
            break;
        }
        let mut expected: Vec<_> = (1..COPIES).map(|number| ("where", number)).collect();
        if is_gone.is_some() {
            // Its bytes are sent when its sink is asked: in the stream's order they are complete.
            expected.insert(2, ("bytes", 2));
        }
        assert_eq!(printed(&calls, expected.len())?, expected, "none waits for the end of another one");
        assert_eq!(printed(&calls, 1)?, [("end", 0)]);
        // Later operations do not wait either, but are not done before the copies.
        until("it is written", || read(&device, at(0), 6).is_ok_and(|bytes| bytes == b"behind"))?;
        assert!(!device.reached(stream, last)?);
        notify.send(())?;
        device.synchronize(stream, last)?;
        let ends: Vec<_> = (1..COPIES).map(|number| ("end", number)).collect();
        assert_eq!(printed(&calls, COPIES - 1)?, ends);
        let words = from_hex(&there.other.ask(&format!("read {}", COPIES * 8))?);
        let words: Vec<_> = words.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
        let left = |word: usize| (COPIES - word - usize::from(is_gone.is_some() && COPIES - word == 3)) as u64;
        assert_eq!(words, (0..COPIES).map(left).collect::<Vec<_>>(), "they are out of order");
    }
    Ok(())
}
