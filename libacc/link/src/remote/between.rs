//! Copies between devices of which at least one is on another node.

use super::core::Noise;
use super::link::LinkSpec;
use super::live::Live;
use super::neighbors::Neighbor;
use super::port::RemotePort;
use crate::cluster::LocalPort;
use accord_device::cuda::Reached;
use accord_device::{Device, Sink, Source};
use accord_fabric::exchange::{Arrival, ArrivalBytes, Exchange, Pushing};
use accord_fabric::handshake::FROM_PROGRAM;
use accord_fabric::wire::Command;
use accord_types::{DevicePtr, QueueId, Result, TransferId};
use std::sync::Arc;

/// One end of a copy.
pub(crate) struct End<'a, P: ?Sized> {
    pub(crate) port: &'a P,
    pub(crate) start: DevicePtr,
}

/// Between two devices of other nodes: directly from one executor to the other.
///
/// # Errors
/// A failure of either device or link.
pub(crate) fn remote_to_remote(
    queue: QueueId,
    source: &End<'_, RemotePort>,
    target: &End<'_, RemotePort>,
    len: u64,
) -> Result<()> {
    let (from, to) = (source.port.live()?, target.port.live()?);
    if Arc::ptr_eq(&from, &to) {
        return same_executor(queue, &from, source, target, len);
    }
    let transfer = from.spec.transfer();
    // A queue that can't push must not leave the target waiting.
    from.core().device(source.port.device())?.queue(queue)?;
    to.expect(target, transfer, from.party, len)?;
    from.push(queue, source, transfer, to.party, &to.spec.address, len)
}

fn same_executor(
    queue: QueueId,
    live: &Live,
    source: &End<'_, RemotePort>,
    target: &End<'_, RemotePort>,
    len: u64,
) -> Result<()> {
    let mut core = live.core_with_credit()?;
    let seq = core.device(target.port.device())?.queue(QueueId::SYNC)?.last;
    core.device(source.port.device())?.queue(queue)?.count(Noise::Noisy);
    let command = Command::Relay {
        device: source.port.device(),
        queue: queue.0,
        src: source.start.0,
        target: target.port.device(),
        dst: target.start.0,
        len,
        seq,
    };
    core.put(&command, &[])?;
    live.send(core, queue)
}

/// From a device of this machine to one of another node.
///
/// # Errors
/// A failure of either device or of the link.
pub(crate) fn local_to_remote(
    exchange: &Arc<Exchange>,
    queue: QueueId,
    source: &End<'_, dyn LocalPort>,
    target: &End<'_, RemotePort>,
    len: u64,
) -> Result<()> {
    let live = target.port.live()?;
    let transfer = live.spec.transfer();
    let pushing = exchange.push(transfer, live.party, len, live.outbox.clone())?;
    live.expect(target, transfer, FROM_PROGRAM, len)?;
    let device = source.port.device()?;
    let (neighbor, spec) = (live.spec.neighbor(live.party), live.spec.clone());
    let sink = ToRemote { pushing, neighbor, spec, device: device.clone(), len };
    let stream = source.port.stream(queue)?;
    let seq = device.copy_out(stream, source.start, len, Box::new(sink))?;
    source.port.advance(queue, seq);
    Ok(())
}

/// From a device of another node to one of this machine.
///
/// # Errors
/// A failure of either device or of the link.
pub(crate) fn remote_to_local(
    exchange: &Arc<Exchange>,
    queue: QueueId,
    source: &End<'_, RemotePort>,
    target: &End<'_, dyn LocalPort>,
    len: u64,
) -> Result<()> {
    let live = source.port.live()?;
    live.core().device(source.port.device())?.queue(queue)?;
    let transfer = live.spec.transfer();
    let device = target.port.device()?;
    let incoming = target.port.stream(QueueId::INCOMING)?;
    let (into, dst) = (device.clone(), target.start);
    let take = move |arrival: Arrival| {
        let Some((bytes, ending)) = arrival.split() else { return };
        match into.copy_in(incoming, dst, len, Box::new(FromRemote(bytes))) {
            Ok(seq) => into.notify(incoming, seq, Box::new(|outcome| ending.landed(outcome))),
            Err(error) => ending.landed(Err(error)),
        }
    };
    let placer = live.spec.neighbor(live.party).map(|neighbor| neighbor.placer(&device, dst, len));
    exchange.expect(transfer, live.party, len, Box::new(take), placer)?;
    let before = target.port.last(QueueId::SYNC);
    let stream = if before.0 == 0 { None } else { Some(target.port.stream(QueueId::SYNC)?) };
    match stream {
        // Asking is quicker than being told. A failure is told.
        Some(stream) if !device.reached(stream, before).unwrap_or(false) => {
            let exchange = exchange.clone();
            let due = move |outcome| exchange.due(transfer, outcome);
            device.notify(stream, before, Box::new(due));
        }
        _ => exchange.due(transfer, Ok(())),
    }
    live.push(queue, source, transfer, FROM_PROGRAM, "", len)
}

impl Live {
    /// Has the executor of `target` expect a transfer, after what the program did there synchronously.
    fn expect(&self, target: &End<'_, RemotePort>, transfer: TransferId, from: u32, len: u64) -> Result<()> {
        let device = target.port.device();
        let mut core = self.core_with_credit()?;
        let seq = core.device(device)?.queue(QueueId::SYNC)?.last;
        let command = Command::Expect { device, dst: target.start.0, len, transfer: transfer.0, from, seq };
        core.put(&command, &[])?;
        drop(core);
        // Another node waits for it.
        self.flush()
    }

    /// Has the executor of `source` push a transfer.
    fn push(
        &self,
        queue: QueueId,
        source: &End<'_, RemotePort>,
        transfer: TransferId,
        to: u32,
        address: &str,
        len: u64,
    ) -> Result<()> {
        let device = source.port.device();
        let command = Command::Push { device, queue: queue.0, src: source.start.0, len, transfer: transfer.0, to };
        self.operate(device, queue, Noise::Noisy, &command, &[address.as_bytes()])
    }
}

struct ToRemote {
    pushing: Pushing,
    neighbor: Option<Neighbor>,
    /// Of the target.
    spec: Arc<LinkSpec>,
    device: Arc<dyn Device>,
    len: u64,
}

impl Sink for ToRemote {
    fn drain(&mut self, piece: &[u8]) -> Result<()> {
        // Else it would look like the source's.
        self.pushing.drain(piece).map_err(|error| error.node(&self.spec.node_name))
    }

    fn finish(&mut self) -> Result<()> {
        self.pushing.finish().map_err(|error| error.node(&self.spec.node_name))
    }

    fn reach(&mut self) -> Result<Option<Reached>> {
        match &self.neighbor {
            Some(neighbor) => neighbor.reach(&mut self.pushing, &*self.device, self.len),
            None => Ok(None),
        }
    }
}

struct FromRemote(ArrivalBytes);

impl Source for FromRemote {
    fn fill(&mut self, piece: &mut [u8]) -> Result<()> {
        self.0.fill(piece);
        Ok(())
    }
}
