//! The summary over all ranks: OpenACC's share of the run, and the places that take the most time.

use super::text::{heading, size, time};
use super::{PlaceTimes, Tally, Times};
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Most places that the summary's text shows.
const SHOWN_MAX: usize = 10;

/// The time of one program's ranks by place.
#[derive(Debug, Serialize)]
pub struct Summary {
    program: String,
    ranks: usize,
    /// Time from a rank's first call to its end.
    wall: Spread,
    /// Part of that time in OpenACC's constructs and routines, over all threads of a rank.
    openacc: Spread,
    /// Ranks that were killed, and the times of their last reports.
    unfinished: Vec<(Option<u32>, u64)>,
    /// The places, most expensive first.
    places: Vec<Cost>,
}

/// Nanoseconds by rank.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
struct Spread {
    total_ns: u64,
    min_ns: u64,
    mean_ns: u64,
    max_ns: u64,
}

/// The cost of one place, on all devices.
#[derive(Debug, Serialize)]
struct Cost {
    /// File, lines, function and construct.
    place: String,
    calls: u64,
    /// Time of the program's threads there, waits included.
    host: Spread,
    /// Time of its regions on all ranks, by the devices' clocks.
    on_devices_ns: u64,
    bytes_in: u64,
    bytes_out: u64,
}

impl Times {
    /// Returns the times' summary as text.
    pub fn brief(&self) -> String {
        Summary::of(std::slice::from_ref(self)).text()
    }

    /// Returns the summary, and all details of each place, device and wire.
    pub fn text(&self) -> String {
        self.brief() + &self.details()
    }
}

impl Spread {
    /// Builds the spread over all `ranks`; ranks that are not in `of_ranks` count as 0.
    fn of(of_ranks: &[u64], ranks: usize) -> Self {
        let total_ns: u64 = of_ranks.iter().sum();
        let all = of_ranks.len() == ranks;
        Self {
            total_ns,
            min_ns: of_ranks.iter().copied().min().filter(|_| all).unwrap_or(0),
            mean_ns: total_ns.checked_div(ranks as u64).unwrap_or(0),
            max_ns: of_ranks.iter().copied().max().unwrap_or(0),
        }
    }
}

/// Returns the time that the program spent at a place. Waits inside of a construct are part of its elapsed time
/// already.
fn host(place: &PlaceTimes) -> Tally {
    if place.elapsed.count > 0 { place.elapsed } else { place.waits }
}

#[derive(Default)]
struct Sums {
    calls: u64,
    /// Host time of each rank that reached the place.
    host: BTreeMap<usize, u64>,
    on_devices_ns: u64,
    bytes_in: u64,
    bytes_out: u64,
}

impl Summary {
    /// Adds up the reports of a program's ranks.
    pub fn of(reports: &[Times]) -> Self {
        let mut places = BTreeMap::<String, Sums>::new();
        for (rank, report) in reports.iter().enumerate() {
            for place in &report.places {
                let sums = places.entry(heading(place)).or_default();
                let host = host(place);
                let launched: u64 = place.launches.iter().map(|launches| launches.count).sum();
                let copied = place.copies_in.count.max(place.copies_out.count);
                // Data clauses of a region are events without a duration of their own.
                sums.calls += if host.count > 0 { host.count } else { launched.max(copied) };
                *sums.host.entry(rank).or_default() += host.total_ns;
                // Devices report only the sum of a region that several places launch.
                let reported = place.launches.iter().filter(|launches| !launches.shared);
                sums.on_devices_ns += reported.map(|launches| launches.on_device.total_ns).sum::<u64>();
                sums.bytes_in += place.copies_in.bytes;
                sums.bytes_out += place.copies_out.bytes;
            }
        }
        let ranks = reports.len();
        let in_openacc = |report: &Times| report.places.iter().map(|place| host(place).total_ns).sum();
        let cost = |(place, sums): (String, Sums)| {
            let of_ranks: Vec<u64> = sums.host.into_values().collect();
            let Sums { calls, on_devices_ns, bytes_in, bytes_out, .. } = sums;
            Cost { place, calls, host: Spread::of(&of_ranks, ranks), on_devices_ns, bytes_in, bytes_out }
        };
        let mut places: Vec<Cost> = places.into_iter().map(cost).collect();
        // A region on an asynchronous queue costs its own line no host time, but a later wait.
        places.sort_by_key(|cost| Reverse(cost.host.total_ns.max(cost.on_devices_ns)));
        Self {
            program: reports.first().map(|report| report.program.clone()).unwrap_or_default(),
            ranks,
            wall: Spread::of(&reports.iter().map(|report| report.wall_ns).collect::<Vec<_>>(), ranks),
            openacc: Spread::of(&reports.iter().map(in_openacc).collect::<Vec<_>>(), ranks),
            unfinished: reports.iter().filter(|report| !report.ended).map(|it| (it.rank, it.wall_ns)).collect(),
            places,
        }
    }

    /// Returns the summary as text.
    pub fn text(&self) -> String {
        let mut out = String::new();
        // Writing to a String can't fail.
        let _ = self.write(&mut out);
        out
    }

    /// Returns the summary and its reports as one JSON object and a newline.
    pub fn json(&self, reports: &[Times]) -> String {
        #[derive(Serialize)]
        struct All<'a> {
            summary: &'a Summary,
            reports: &'a [Times],
        }
        // Only maps with keys that are no strings fail, and there are none.
        serde_json::to_string(&All { summary: self, reports }).unwrap_or_default() + "\n"
    }

    fn write(&self, out: &mut String) -> std::fmt::Result {
        let ranks = if self.ranks > 1 { format!(", {} ranks", self.ranks) } else { String::new() };
        let wall = self.wall.max_ns;
        writeln!(
            out,
            "\nAccord times: {}{ranks}, {} from the first OpenACC call to the end",
            self.program,
            time(wall)
        )?;
        let share = |ns: u64| ns as f64 * 100.0 / self.wall.total_ns.max(1) as f64;
        let Spread { total_ns, min_ns, mean_ns, max_ns } = self.openacc;
        let by_rank =
            if self.ranks > 1 { format!("  (each rank {} to {})", time(min_ns), time(max_ns)) } else { String::new() };
        writeln!(out, "  in OpenACC  {:>9} {:>4.0} %{by_rank}", time(mean_ns), share(total_ns))?;
        match self.wall.total_ns.checked_sub(total_ns) {
            Some(rest) => {
                let mean = rest.checked_div(self.ranks as u64).unwrap_or(0);
                writeln!(out, "  outside     {:>9} {:>4.0} %", time(mean), share(rest))?;
            }
            None => writeln!(out, "  (the sum of several threads)")?,
        }
        for (rank, at) in &self.unfinished {
            let rank = rank.map_or("the program".to_owned(), |rank| format!("rank {rank}"));
            writeln!(out, "  {rank} did not end by itself: what counts is its last report, at {}", time(*at))?;
        }
        if self.places.is_empty() {
            return Ok(());
        }
        let spread = if self.ranks > 1 { "     mean       min       max" } else { "     time" };
        writeln!(out, "\n     % {spread}  on devices         in        out    calls  place")?;
        for cost in self.places.iter().take(SHOWN_MAX) {
            let Spread { total_ns, min_ns, mean_ns, max_ns } = cost.host;
            write!(out, "  {:>4.0} {:>9}", share(total_ns), time(mean_ns))?;
            if self.ranks > 1 {
                write!(out, " {:>9} {:>9}", time(min_ns), time(max_ns))?;
            }
            let known = |is_known: bool, text: String| if is_known { text } else { "-".to_owned() };
            writeln!(
                out,
                "   {:>9}  {:>9}  {:>9} {:>8}  {}",
                known(cost.on_devices_ns > 0, time(cost.on_devices_ns)),
                known(cost.bytes_in > 0, size(cost.bytes_in)),
                known(cost.bytes_out > 0, size(cost.bytes_out)),
                cost.calls,
                cost.place
            )?;
        }
        if let Some(rest) = self.places.get(SHOWN_MAX..).filter(|rest| !rest.is_empty()) {
            let ns: u64 = rest.iter().map(|cost| cost.host.mean_ns).sum();
            writeln!(out, "  {} more places, {} in all: --time=full or ACCORD_TIME=full", rest.len(), time(ns))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Copies, Launches};
    use super::*;

    const MS: u64 = 1_000_000;

    fn tally(count: u64, each: u64) -> Tally {
        let mut tally = Tally::default();
        (0..count).for_each(|_| tally.add(each));
        tally
    }

    fn place(line: u32, elapsed: Tally, waits: Tally) -> PlaceTimes {
        let (file, construct) = ("/src/a.c".into(), "compute construct".into());
        PlaceTimes {
            file,
            function: "main".into(),
            line: Some(line),
            construct,
            elapsed,
            waits,
            ..PlaceTimes::default()
        }
    }

    fn report(rank: u32, wall_ns: u64, ended: bool, places: Vec<PlaceTimes>) -> Times {
        Times { program: "a".into(), rank: Some(rank), wall_ns, ended, places, ..Times::default() }
    }

    fn rows(text: &str) -> Vec<Vec<&str>> {
        let table = text.lines().skip_while(|line| !line.ends_with("place")).skip(1);
        table.map(|line| line.split_whitespace().collect()).collect()
    }

    /// Two ranks: a wait inside a construct is counted once, one rank was killed, and only one reached line 30.
    #[test]
    fn ranks_are_added_up_and_the_most_expensive_place_is_first() {
        let slow = place(10, tally(2, 30 * MS), tally(2, 20 * MS));
        let on_two =
            [Some(0), Some(1)].map(|device| PlaceTimes { device, ..place(20, tally(1, MS), Tally::default()) });
        let rare = PlaceTimes {
            copies_in: Copies { count: 1, bytes: 8_000 },
            ..place(30, Tally::default(), tally(1, 10 * MS))
        };
        let [first, second] = on_two;
        let reports = [
            report(0, 100 * MS, true, vec![slow.clone(), first, second]),
            report(1, 100 * MS, false, vec![slow, rare]),
        ];
        let text = Summary::of(&reports).text();
        for part in [
            "Accord times: a, 2 ranks, 100.00 ms from the first OpenACC call to the end\n",
            "  in OpenACC   66.00 ms   66 %  (each rank 62.00 ms to 70.00 ms)\n",
            "  outside      34.00 ms   34 %\n",
            "  rank 1 did not end by itself: what counts is its last report, at 100.00 ms\n",
        ] {
            assert!(text.contains(part), "{part:?} is not in\n{text}");
        }
        let rows = rows(&text);
        assert_eq!(rows[0][..7], ["60", "60.00", "ms", "60.00", "ms", "60.00", "ms"], "{text}");
        assert_eq!(rows[0][10..], ["4", "a.c:10,", "main:", "compute", "construct"], "{text}");
        assert_eq!(rows[1][..7], ["5", "5.00", "ms", "0", "ns", "10.00", "ms"], "{text}");
        assert_eq!(rows[1][7..12], ["-", "8.00", "kB", "-", "1"], "{text}");
        // The place's launches on both devices.
        assert_eq!(rows[2][10..12], ["2", "a.c:20,"], "{text}");
        assert_eq!(rows.len(), 3);
    }

    /// A region that is launched asynchronously costs its line no host time, yet is the most expensive.
    #[test]
    fn a_regions_time_on_devices_counts_for_its_line() {
        let on_device = tally(1, 80 * MS);
        let launches = vec![Launches { kernel: "k".into(), count: 1, on_device, ..Launches::default() }];
        let region = PlaceTimes { launches, ..place(5, tally(1, MS), Tally::default()) };
        let mut places = vec![place(9, Tally::default(), tally(1, 70 * MS)), region];
        places.extend((100..120).map(|line| place(line, tally(1, 1_000), Tally::default())));
        let text = Summary::of(&[report(0, 100 * MS, true, places)]).text();
        let rows = rows(&text);
        assert_eq!(rows[0][..5], ["1", "1.00", "ms", "80.00", "ms"], "{text}");
        assert!(rows[0].contains(&"a.c:5,") && rows[1].contains(&"a.c:9,"), "{text}");
        assert_eq!(rows.len(), SHOWN_MAX + 1);
        assert!(text.contains("\n  12 more places, 12.00 us in all: --time=full or ACCORD_TIME=full\n"), "{text}");
    }

    #[test]
    fn threads_that_add_up_to_more_than_the_run_are_said_to_be_several() {
        let text = Summary::of(&[report(0, 10 * MS, true, vec![place(1, tally(4, 10 * MS), Tally::default())])]).text();
        assert!(text.contains("in OpenACC   40.00 ms  400 %\n  (the sum of several threads)\n"), "{text}");
    }
}
