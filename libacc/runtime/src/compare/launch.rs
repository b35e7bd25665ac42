//! Launches a region on both devices and compares what it has reached.

use super::comparison::{Comparison, Comparisons};
use super::elements::{Elements, Tally};
use super::host::{ArrayDescription, ComparisonHost};
use super::mirror::{BUFFER_BYTES, Buffer, Copying, Mirror, Obstacle, Reached, ReachedBlock};
use crate::Runtime;
use crate::construct::Scratch;
use crate::issue::Issue;
use crate::memory::Purpose;
use crate::plan::{Plan, Step};
use accord_types::{Count, DevicePtr, HostRange, LaunchDims, QueueId, Result, Tolerance};
use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

/// Bytes by which the type of an array's elements is guessed.
const GUESSED_BYTES: usize = 64 << 10;
/// Relative difference up to which sums in another order may be the reason.
const ROUNDING_MAX: f64 = 1e-2;

/// A launch to compare.
struct Launch<'a> {
    issue: &'a Issue<'a>,
    scratch: &'a Scratch,
    function: usize,
    dims: LaunchDims,
}

/// Data on both devices.
#[derive(Clone, Copy, Debug)]
struct Section {
    device: DevicePtr,
    mirror: DevicePtr,
    bytes: u64,
    /// Its address in the program, or on the device if it has none.
    host: usize,
    /// Whether it is a small variable that is copied both ways, as those of reductions are.
    is_small: bool,
}

impl Runtime {
    /// Compares all regions from now on. Called before [`Runtime::observe`], at most once.
    pub fn compare(&self, tolerance: Tolerance, host: Box<dyn ComparisonHost>) {
        let _ = self.comparison.set(Comparison::new(tolerance, host));
    }

    /// Ends the comparison: reports the summary, and ends its CPU devices.
    pub fn end_comparison(&self) {
        let Some(comparison) = self.comparison.get() else { return };
        // Another thread may be in a region that does not end.
        let Some(mut turn) = comparison.turn.try_take() else {
            return comparison.report("a region is still running; there is no summary");
        };
        turn.findings.summary().iter().for_each(|line| comparison.report(line));
        for mirror in std::mem::take(&mut turn.mirrors).into_values().flatten() {
            // The program ends, and with it the device.
            let _ = mirror.client().shutdown();
        }
    }

    /// Forgets functions of an unloaded object.
    pub(crate) fn forget_compared(&self, functions: &Range<u64>) {
        let Some(comparison) = self.comparison.get() else { return };
        for mirror in comparison.turn.take().mirrors.values().flatten() {
            mirror.client().forget_functions(functions.clone());
        }
    }

    /// Launches a region on the device, and before that on the device's mirror, and compares what they reach. Waits for both.
    ///
    /// # Errors
    /// Returns an error if the launch fails, or a wait for the device. The comparison's own failures are only reported.
    #[cold]
    pub(crate) fn launch_compared(
        &self,
        comparison: &Comparison,
        issue: &Issue<'_>,
        scratch: &Scratch,
        (function, dims): (usize, LaunchDims),
        launch: &dyn Fn() -> Result<()>,
    ) -> Result<()> {
        let one = Launch { issue, scratch, function, dims };
        let mut turn = comparison.turn.take();
        let begun = comparison.host.now();
        let (device, queue) = (issue.device, issue.queue);
        if queue != QueueId::SYNC && turn.findings.is_first_of_queues() {
            comparison.report("regions of queues are compared one by one: nothing runs at the same time");
        }
        let mut queues: Vec<QueueId> = device.queues().all_busy().filter(|other| *other != queue).collect();
        queues.push(queue);
        queues.push(QueueId::SYNC);
        // Without a note in the queues' records, by which the construct's own memory would count as free.
        let wait = |queues: &[QueueId]| device.client().wait(queues).map_err(|error| device.place(error));
        wait(&queues)?;
        let name = || self.region_name(issue, function);
        let mut running = Duration::ZERO;
        let broken = turn.findings.broken(function);
        let mut reached = Reached::new(device);
        let prepared = match broken {
            true => Err(Obstacle(String::new())),
            false => self.run_on_mirror(comparison, &mut turn, &one, &mut reached, &mut running),
        };
        let before = comparison.host.now();
        let launched = launch().and_then(|()| wait(&[queue]));
        let launching = comparison.host.now().saturating_sub(before);
        let compared = prepared.and_then(|()| match &launched {
            Ok(()) => self.compare_sections(comparison, &mut turn, &one, &reached.blocks),
            Err(_) => Ok(false),
        });
        reached.release(device);
        launched?;
        match compared {
            Ok(differs) => turn.findings.compared(function, name, differs),
            Err(Obstacle(why)) => {
                if !broken {
                    turn.end_mirror(device.index);
                }
                if turn.findings.skip(function, name, &why) {
                    comparison.report(&format!("{}: is not compared: {why}", name()));
                }
            }
        }
        let all = comparison.host.now().saturating_sub(begun);
        turn.findings.took(running, all.saturating_sub(running).saturating_sub(launching));
        Ok(())
    }

    /// Copies what a region reaches to the mirror, and runs it there.
    fn run_on_mirror(
        &self,
        comparison: &Comparison,
        turn: &mut Comparisons,
        one: &Launch<'_>,
        reached: &mut Reached,
        running: &mut Duration,
    ) -> Result<(), Obstacle> {
        let device = one.issue.device;
        if turn.buffers.is_none() {
            turn.buffers = Some([Buffer::new(&*self.host)?, Buffer::new(&*self.host)?]);
        }
        let moved =
            turn.mirrors.get(&device.index).is_some_and(|mirror| mirror.as_ref().is_ok_and(|one| !one.fits(device)));
        if moved {
            // The device has another place since a shutdown.
            turn.end_mirror(device.index);
        }
        let Some([buffer, _]) = &turn.buffers else { return Err(Obstacle("there is no memory".to_owned())) };
        let start = || Mirror::start(device, &*comparison.host).map_err(|error| error.to_string());
        let mirror = turn.mirrors.entry(device.index).or_insert_with(start);
        let mirror = mirror.as_mut().map_err(|why| Obstacle(format!("there is no CPU device for it: {why}")))?;
        mirror.know_variables(device, &self.all_globals())?;
        let block = one.scratch.block.finish();
        let named = named_by_clauses(one);
        Copying { device, host: &*self.host, mirror, buffer, reached, pending: Vec::new() }.all(block, &named)?;
        let before = comparison.host.now();
        let spec = || self.host.function(one.function);
        let ran = mirror.run(one.function as u64, &spec, one.dims, block);
        *running = comparison.host.now().saturating_sub(before);
        ran
    }

    /// Compares all that a region has reached. Returns whether anything differs.
    fn compare_sections(
        &self,
        comparison: &Comparison,
        turn: &mut Comparisons,
        one: &Launch<'_>,
        reached: &BTreeMap<u64, ReachedBlock>,
    ) -> Result<bool, Obstacle> {
        let device = one.issue.device;
        let Comparisons { mirrors, findings, buffers } = turn;
        let (Some(Ok(mirror)), Some(buffers)) = (mirrors.get_mut(&device.index), buffers) else { return Ok(false) };
        let mut differs = false;
        for section in sections(one.issue, &one.scratch.plan, mirror, reached) {
            let pair = Pair { comparison, runtime: self, one, mirror, buffers };
            let (tally, description) = pair.compare(section)?;
            let name = || self.region_name(one.issue, one.function);
            differs |= tally.differing > 0;
            if findings.array(one.function, name, (section.device.0, section.bytes), &tally)
                && let Some(array) = description
            {
                comparison.report(&line(&name(), &array, &tally, section.is_small));
            }
        }
        mirror.clear()?;
        Ok(differs)
    }

    /// Returns a region as messages name it: the construct's place, device and function.
    fn region_name(&self, issue: &Issue<'_>, function: usize) -> String {
        let place = self.host.describe_call(self.host.call());
        let name = self.host.function(function).map_or_else(|_| format!("region at {function:#x}"), |spec| spec.name);
        let place = place.map_or(name.clone(), |place| format!("{place}: region {name}"));
        format!("{place} on {} (node {})", issue.device.num(), issue.device.info().node_name)
    }
}

/// Returns addresses in the data that the construct's clauses name. The argument block may have none of them: of a member
/// (`copy(one.x)`) it has the address of the whole structure, which lies before the data.
fn named_by_clauses(one: &Launch<'_>) -> Vec<u64> {
    let Scratch { plan, region, .. } = one.scratch;
    let copied = plan.before.iter().chain(&plan.after).flat_map(Step::addresses);
    // Data that ends with the construct is in the table no more.
    let ending = plan.releases.blocks.iter().copied();
    let state = one.issue.device.lock();
    let present = region.mapped.iter().filter_map(|mapped| state.table.get(mapped.id)?.device());
    copied.chain(ending).chain(present).map(|address| address.0).collect()
}

/// The two copies of a region's data.
struct Pair<'a> {
    comparison: &'a Comparison,
    runtime: &'a Runtime,
    one: &'a Launch<'a>,
    mirror: &'a Mirror,
    buffers: &'a [Buffer; 2],
}

impl Pair<'_> {
    /// Compares one section. Describes the array if its bytes differ.
    fn compare(&self, section: Section) -> Result<(Tally, Option<ArrayDescription>), Obstacle> {
        let mut tally = Tally::default();
        let mut bytes =
            [vec![0; BUFFER_BYTES.min(section.bytes as usize)], vec![0; BUFFER_BYTES.min(section.bytes as usize)]];
        let mut done = 0;
        while done < section.bytes {
            let len = self.read(section, done, &mut bytes)?;
            if bytes[0][..len] != bytes[1][..len] {
                break;
            }
            done += len as u64;
        }
        let host = HostRange { start: section.host, len: section.bytes as usize };
        if done == section.bytes {
            return Ok((Tally::default(), None));
        }
        let mut array = self.comparison.host.array(host);
        let guessed = || Elements::guess(&bytes[0][..bytes[0].len().min(GUESSED_BYTES)]);
        let elements = array.elements.get_or_insert_with(guessed);
        let whole = (BUFFER_BYTES / elements.bytes).max(1) * elements.bytes;
        bytes.iter_mut().for_each(|bytes| bytes.truncate(whole));
        let same = |device: u64, mirror: u64| self.mirror.translated(device) == mirror;
        done = 0;
        while done < section.bytes {
            let len = self.read(section, done, &mut bytes)?;
            let pieces = (&bytes[0][..len], &bytes[1][..len]);
            elements.compare(pieces, done, &self.comparison.tolerance, same, &mut tally);
            done += len as u64;
        }
        Ok((tally, Some(array)))
    }

    /// Reads bytes of both copies, and returns how many there are.
    fn read(&self, section: Section, done: u64, [one, other]: &mut [Vec<u8>; 2]) -> Result<usize, Obstacle> {
        let len = (section.bytes - done).min(one.len() as u64) as usize;
        let (host, device) = (&*self.runtime.host, self.one.issue.device);
        let from = (&*device.client(), section.device.offset(done));
        self.buffers[0].read(from, host, &mut one[..len])?;
        let from = (self.mirror.client(), section.mirror.offset(done));
        self.buffers[1].read(from, host, &mut other[..len])?;
        Ok(len)
    }
}

/// Returns the sections of what a region has reached, of which the program has names.
fn sections(issue: &Issue<'_>, plan: &Plan, mirror: &Mirror, reached: &BTreeMap<u64, ReachedBlock>) -> Vec<Section> {
    let variables = mirror.variables.iter().map(|variable| Section {
        device: variable.device,
        mirror: variable.mirror,
        bytes: variable.host.len as u64,
        host: variable.host.start,
        is_small: false,
    });
    let of = |device: u64, bytes: u64, host: usize, is_small: bool| Section {
        device: DevicePtr(device),
        mirror: DevicePtr(device),
        bytes,
        host,
        is_small,
    };
    let mut all: Vec<Section> = variables.collect();
    for step in &plan.after {
        let Step::OutChanged { src, parts: (first, end), .. } = *step else { continue };
        let parts = plan.parts[first..end].iter();
        all.extend(parts.map(|part| of(src.0 + part.at as u64, part.dst.len as u64, part.dst.start, true)));
    }
    let state = issue.device.lock();
    for (start, block) in reached {
        let ReachedBlock { bytes, host, purpose } = *block;
        let inside = |at: u64| at.wrapping_sub(*start) < bytes;
        match purpose {
            Purpose::Data if host != 0 => all.push(of(*start, bytes, host, false)),
            Purpose::Arguments => {}
            _ => {
                let entries = state.table.iter().filter_map(|(_, entry)| Some((entry.device()?.0, entry.range())));
                let mut named: Vec<_> = entries.filter(|(device, _)| inside(*device)).collect();
                named.sort_unstable_by_key(|(device, _)| *device);
                let sections: Vec<_> = named
                    .iter()
                    .map(|(device, range)| {
                        of(*device, (range.len as u64).min(start + bytes - device), range.start, false)
                    })
                    .collect();
                // The program reaches all of its own memory; bytes between members that are present are nothing to it.
                if named.is_empty() || purpose == Purpose::Malloc {
                    let named = sections.iter().map(|section| (section.device.0, section.bytes));
                    all.extend(gaps((*start, bytes), named).map(|(at, bytes)| of(at, bytes, at as usize, false)));
                }
                all.extend(sections);
            }
        }
    }
    all
}

/// Returns starts and lengths of what is left of a block without `sections`, in order.
fn gaps((start, bytes): (u64, u64), sections: impl Iterator<Item = (u64, u64)>) -> impl Iterator<Item = (u64, u64)> {
    let mut from = start;
    let ends = sections.chain([(start + bytes, 0)]);
    ends.filter_map(move |(at, len)| {
        let gap = (from, at.saturating_sub(from));
        from = from.max(at + len);
        (gap.1 > 0).then_some(gap)
    })
}

/// Returns the message about an array that differs.
fn line(region: &str, array: &ArrayDescription, tally: &Tally, is_small: bool) -> String {
    let Some(first) = &tally.first else { return String::new() };
    let name = if is_small && array.name.starts_with("0x") { "a small variable copied both ways" } else { &array.name };
    let index = if is_small && tally.compared == 1 { String::new() } else { (array.index)(first.element) };
    let declared = if array.declared.is_empty() { String::new() } else { format!(" ({})", array.declared) };
    let mut line =
        format!("{region}: {name}{index}{}{declared} is {}, on the CPU device {}", first.path, first.device, first.cpu);
    if tally.compared > 1 {
        let differ = if tally.differing == 1 { "differs" } else { "differ" };
        line += &format!("; {} of {} {differ}", tally.differing, Count(tally.compared as usize, "element"));
    }
    if let Some(largest) = tally.largest {
        line += &format!(", by up to {largest:.1e} of the value");
    }
    if tally.largest.is_some_and(|largest| largest <= ROUNDING_MAX) {
        line += "; reductions and atomic updates add in another order on each device: rel= or ulp= of --compare allow for that";
    }
    line
}

#[cfg(test)]
mod tests {
    use super::gaps;

    #[test]
    fn gaps_are_what_sections_leave() {
        let left = |sections: &[(u64, u64)]| gaps((100, 50), sections.iter().copied()).collect::<Vec<_>>();
        assert_eq!(left(&[]), [(100, 50)]);
        assert_eq!(left(&[(100, 10), (110, 5), (130, 20)]), [(115, 15)]);
        assert_eq!(left(&[(120, 10)]), [(100, 20), (130, 20)]);
        assert!(left(&[(100, 50)]).is_empty());
    }
}
