//! Placement of the naive scheduler, by sorting all nodes and devices.

use crate::naive_near::{NodeOffer, near, spread};
use accord_scheduler::Millis;
use accord_scheduler::Request;
use accord_scheduler::amount::Amount;
use accord_scheduler::path_class::{PathClass, PathTimesByClass};
use accord_scheduler::request::{Locality, Take};
use accord_types::NodeId;
use std::collections::{BTreeMap, BTreeSet};

/// A device, as (node, position).
pub(crate) type At = (usize, usize);

/// Devices, each with the index of its part.
pub(crate) type Picks = Vec<(usize, At)>;

#[derive(Clone, Debug)]
pub(crate) struct NDevice {
    pub(crate) ordinal: u32,
    pub(crate) class: usize,
    pub(crate) memory: u64,
    /// The driver's share for each holder after the first.
    pub(crate) context: u64,
    pub(crate) absent: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct NNode {
    pub(crate) id: NodeId,
    pub(crate) name: String,
    pub(crate) incarnation: u64,
    pub(crate) up: bool,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) rack: Option<u32>,
    pub(crate) switch: Option<u32>,
    pub(crate) devices: Vec<NDevice>,
    pub(crate) cores: u64,
    pub(crate) memory: u64,
}

impl NNode {
    pub(crate) fn new(id: NodeId) -> Self {
        Self {
            id,
            name: String::new(),
            incarnation: 0,
            up: false,
            labels: BTreeMap::new(),
            rack: None,
            switch: None,
            devices: Vec::new(),
            cores: 0,
            memory: 0,
        }
    }
}

/// A part of a request with its class.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Want {
    pub(crate) class: usize,
    pub(crate) least: u32,
    pub(crate) most: u32,
    pub(crate) take: Take,
    pub(crate) cores: u64,
    pub(crate) memory: u64,
    /// What it takes of the node's memory as its device's.
    pub(crate) of_device: u64,
}

impl Want {
    /// Returns the cores and the host memory that each device takes. The memory of CPU devices is the node's.
    pub(crate) fn beside(&self) -> (u64, u64) {
        (self.cores, self.memory + self.of_device)
    }
}

/// The free capacity for one job.
pub(crate) struct Vacancies<'a> {
    pub(crate) nodes: &'a [NNode],
    /// The capacity left on usable devices, and the number of holders.
    pub(crate) rooms: BTreeMap<At, (Amount, usize)>,
    /// Free cores and host memory of nodes.
    pub(crate) free: Vec<(u64, u64)>,
    pub(crate) request: &'a Request,
    pub(crate) path_times: PathTimesByClass,
    pub(crate) origin: Option<usize>,
    pub(crate) allowed: BTreeSet<usize>,
    pub(crate) sharers_max: usize,
    /// Devices without a holder, with or without a bound.
    pub(crate) all_whole: BTreeSet<At>,
    pub(crate) with_bounded: bool,
}

impl Vacancies<'_> {
    pub(crate) fn find(&self, wants: &[Want]) -> Option<Picks> {
        let request = self.request;
        if request.locality == Locality::Local {
            return self.ranged(wants, |counts| self.on_node(self.own()?, wants, counts));
        }
        if request.per_rank {
            return self.in_chunks(wants, request.ranks);
        }
        if let Some(nodes) = request.nodes {
            return self.on_nodes(wants, nodes);
        }
        self.ranged(wants, |counts| self.anywhere(wants, counts))
    }

    fn own(&self) -> Option<usize> {
        self.origin.filter(|own| self.allowed.contains(own))
    }

    /// Returns the distance of a node from the program's own one, by the speed of the path's class.
    fn distance(&self, node: usize) -> usize {
        let Some(origin) = self.origin else { return 0 };
        let place = |node: usize| (self.nodes[node].rack, self.nodes[node].switch);
        let class = PathClass::between(&place(origin), &place(node));
        let order = self.path_times.order();
        if node == origin { 0 } else { 1 + order.iter().position(|&of| of == class).unwrap() }
    }

    /// Sorts nodes by their distance from the program's own one, if that matters.
    fn nearest(&self, mut nodes: Vec<usize>) -> Vec<usize> {
        if self.request.per_rank || self.request.nodes.is_none() && self.request.locality == Locality::OwnFirst {
            nodes.sort_by_key(|&node| self.distance(node));
        }
        nodes
    }

    fn class(&self, at: At) -> usize {
        self.nodes[at.0].devices[at.1].class
    }

    fn is_whole(&self, at: At) -> bool {
        self.rooms.get(&at).is_some_and(|space| space.1 == 0)
    }

    fn whole_on(&self, node: usize, class: usize) -> Vec<At> {
        let there = self.rooms.keys().copied().filter(|at| at.0 == node);
        there.filter(|&at| self.class(at) == class && self.is_whole(at)).collect()
    }

    /// Finds a place with the most devices, else with the least.
    fn ranged(&self, wants: &[Want], place: impl Fn(&[u32]) -> Option<Picks>) -> Option<Picks> {
        let mut most = Vec::new();
        for want in wants {
            let there = match want.take {
                Take::Shared(_) => want.most,
                Take::Exclusive if self.request.locality == Locality::Local => {
                    self.origin.map_or(0, |own| self.whole_on(own, want.class).len() as u32)
                }
                Take::Exclusive => {
                    let all: Vec<At> = if self.with_bounded {
                        self.all_whole.iter().copied().collect()
                    } else {
                        self.rooms.keys().copied().filter(|&at| self.is_whole(at)).collect()
                    };
                    all.into_iter().filter(|&at| self.class(at) == want.class).count() as u32
                }
            };
            let there = there.min(want.most);
            if there < want.least {
                return None;
            }
            most.push(there);
        }
        let least: Vec<u32> = wants.iter().map(|want| want.least).collect();
        place(&most).or_else(|| place(&least))
    }

    fn takes(&self, at: At, amount: Amount) -> bool {
        let Some(&(left, holders)) = self.rooms.get(&at) else { return false };
        left.covers(amount) && (holders == 0 || amount.milli > 0 || holders < self.sharers_max)
    }

    /// Returns shared devices with room for an amount, the fullest first.
    fn shared(&self, class: usize, amount: Amount) -> Vec<At> {
        let there = self.rooms.iter().filter(|(at, (_, holders))| *holders > 0 && self.class(**at) == class);
        let mut fitting: Vec<(Amount, At)> =
            there.filter(|(at, _)| self.takes(**at, amount)).map(|(at, space)| (space.0, *at)).collect();
        fitting.sort_unstable();
        fitting.into_iter().map(|(_, at)| at).collect()
    }

    /// Returns allowed nodes with at least `least` free devices, those with the fewest first.
    fn by_free(&self, class: usize, least: u32) -> Vec<usize> {
        let mut nodes: Vec<(usize, usize)> =
            self.allowed.iter().map(|&node| (self.whole_on(node, class).len(), node)).collect();
        nodes.retain(|&(free, _)| free > 0 && free >= least as usize);
        nodes.sort_unstable();
        nodes.into_iter().map(|(_, node)| node).collect()
    }

    /// Returns the nodes for a chunk in the order in which they are tried.
    fn candidates(&self, want: &Want, count: u32) -> Vec<usize> {
        let nodes = match want.take {
            Take::Exclusive => self.by_free(want.class, count),
            Take::Shared(amount) => {
                let shared = self.shared(want.class, amount).into_iter().map(|at| at.0);
                let mut nodes = Vec::new();
                for node in shared.filter(|node| self.allowed.contains(node)).chain(self.by_free(want.class, 1)) {
                    if !nodes.contains(&node) {
                        nodes.push(node);
                    }
                }
                nodes
            }
        };
        self.nearest(nodes)
    }

    pub(crate) fn carries(&self, wants: &[Want], picks: &[(usize, At)]) -> bool {
        (0..self.nodes.len()).all(|node| {
            let sum = Self::taken(node, wants, picks);
            sum.0 <= self.free[node].0 && sum.1 <= self.free[node].1
        })
    }

    /// Returns the cores and the host memory that picks take of a node.
    fn taken(node: usize, wants: &[Want], picks: &[(usize, At)]) -> (u64, u64) {
        let there = picks.iter().filter(|(_, at)| at.0 == node).map(|(part, _)| wants[*part].beside());
        there.fold((0, 0), |sum, each| (sum.0 + each.0, sum.1 + each.1))
    }

    fn on_node(&self, node: usize, wants: &[Want], counts: &[u32]) -> Option<Picks> {
        self.chunk(node, wants, counts, &[])
    }

    /// Adds a chunk on a node with existing picks. Returns all picks.
    fn chunk(&self, node: usize, wants: &[Want], counts: &[u32], beside: &[(usize, At)]) -> Option<Picks> {
        let mut picks = beside.to_vec();
        for (part, (want, &count)) in wants.iter().zip(counts).enumerate() {
            let there = self.devices_of(node, want, count, &picks)?;
            picks.extend(there.into_iter().map(|at| (part, at)));
        }
        self.carries(wants, &picks).then_some(picks)
    }

    /// So many devices of a node that are not picked: shared ones first, the fullest before others.
    fn devices_of(&self, node: usize, want: &Want, count: u32, picks: &[(usize, At)]) -> Option<Vec<At>> {
        let free = |at: &At| at.0 == node && self.class(*at) == want.class && picks.iter().all(|pick| pick.1 != *at);
        let mut fitting: Vec<(bool, Amount, At)> = match want.take {
            Take::Exclusive => {
                let whole = self.whole_on(node, want.class).into_iter().filter(free);
                whole.map(|at| (true, Amount::default(), at)).collect()
            }
            Take::Shared(amount) => {
                let there = self.rooms.iter().filter(|(at, _)| free(at) && self.takes(**at, amount));
                there.map(|(at, space)| (space.1 == 0, space.0, *at)).collect()
            }
        };
        fitting.sort_unstable();
        let first: Vec<At> = fitting.into_iter().take(count as usize).map(|(_, _, at)| at).collect();
        (first.len() == count as usize).then_some(first)
    }

    fn on_nodes(&self, wants: &[Want], nodes: u32) -> Option<Picks> {
        let least: Vec<u32> = wants.iter().map(|want| want.least / nodes).collect();
        let mut counts: Vec<u32> = wants.iter().map(|want| want.most / nodes).collect();
        loop {
            if self.request.locality == Locality::Near
                && let Some(mut picks) = self.in_laid_out_chunks(wants, &counts, nodes, 1)
            {
                picks.sort_by_key(|pick| pick.0);
                return Some(picks);
            }
            let fitting = self.candidates(&wants[0], counts[0]).into_iter();
            let chunks: Vec<Picks> =
                fitting.filter_map(|node| self.on_node(node, wants, &counts)).take(nodes as usize).collect();
            if chunks.len() == nodes as usize {
                let mut picks: Picks = chunks.concat();
                picks.sort_by_key(|pick| pick.0);
                return Some(picks);
            }
            let fewer: Vec<u32> = counts.iter().zip(&least).map(|(&count, &least)| (count - 1).max(least)).collect();
            if fewer == counts {
                return None;
            }
            counts = fewer;
        }
    }

    fn in_chunks(&self, wants: &[Want], chunks: u32) -> Option<Picks> {
        let counts: Vec<u32> = wants.iter().map(|want| want.least).collect();
        if matches!(self.request.locality, Locality::Near | Locality::Spread) {
            return self.in_laid_out_chunks(wants, &counts, chunks, chunks);
        }
        let mut order: Vec<usize> = self.own().into_iter().collect();
        order.extend(self.candidates(&wants[0], counts[0]).into_iter().filter(|&node| Some(node) != self.own()));
        let (mut all, mut left) = (Vec::new(), chunks);
        for node in order {
            let mut there = Vec::new();
            while left > 0
                && let Some(more) = self.chunk(node, wants, &counts, &there)
            {
                there = more;
                left -= 1;
            }
            all.extend(there);
        }
        (left == 0).then_some(all)
    }

    /// Lays chunks out over offered nodes: near to each other, or on as many nodes as possible.
    fn lay_out(&self, offers: &[NodeOffer], wanted: u32) -> Option<Vec<(usize, u32)>> {
        match self.request.locality {
            Locality::Spread => spread(offers, wanted),
            _ => near(offers, wanted, &self.path_times),
        }
    }

    /// Chunks near to each other or on as many nodes as possible; on a node not more than `most`.
    fn in_laid_out_chunks(&self, wants: &[Want], counts: &[u32], chunks: u32, most: u32) -> Option<Picks> {
        let on = |node: usize, chunks: u32| {
            (0..chunks).try_fold(Picks::new(), |picks, _| self.chunk(node, wants, counts, &picks))
        };
        let offers = self.allowed.iter().map(|&node| NodeOffer {
            node,
            rack: self.nodes[node].rack,
            switch: self.nodes[node].switch,
            space: (1..=most).take_while(|&chunks| on(node, chunks).is_some()).count() as u32,
            free: self.whole_on(node, wants[0].class).len() as u32,
        });
        let laid = self.lay_out(&offers.collect::<Vec<_>>(), chunks)?;
        laid.into_iter().map(|(node, chunks)| on(node, chunks)).collect::<Option<Vec<_>>>().map(|all| all.concat())
    }

    fn anywhere(&self, wants: &[Want], counts: &[u32]) -> Option<Picks> {
        let classes: BTreeSet<usize> = wants.iter().map(|want| want.class).collect();
        let apart = classes.len() == wants.len();
        let locality = self.request.locality;
        if locality != Locality::Spread {
            let own = self.own().filter(|_| locality == Locality::OwnFirst).into_iter();
            let mut order = own.chain(self.candidates(&wants[0], counts[0]));
            if let Some(picks) = order.find_map(|node| self.on_node(node, wants, counts)) {
                return Some(picks);
            }
        }
        if !apart {
            return None;
        }
        let mut picks = Vec::new();
        for (part, &count) in counts.iter().enumerate() {
            match wants[part].take {
                _ if matches!(locality, Locality::Near | Locality::Spread) => {
                    self.add_laid_out(wants, part, count, &mut picks)?;
                }
                Take::Shared(amount) => self.add_shares(wants, part, count, amount, &mut picks)?,
                Take::Exclusive => self.add_whole(wants, part, count, &mut picks)?,
            }
        }
        Some(picks)
    }

    /// Returns for how many more devices of a part a node has enough cores and host memory.
    fn carried(&self, node: usize, wants: &[Want], part: usize, picks: &[(usize, At)]) -> u32 {
        let (each, taken) = (wants[part].beside(), Self::taken(node, wants, picks));
        let fits = |more: &u64| {
            let sum = (taken.0 + more * each.0, taken.1 + more * each.1);
            sum.0 <= self.free[node].0 && sum.1 <= self.free[node].1
        };
        (1..=64).take_while(fits).count() as u32
    }

    fn space(&self, node: usize, wants: &[Want], part: usize, picks: &[(usize, At)]) -> u32 {
        let free = self.whole_on(node, wants[part].class).len() as u32;
        free.min(self.carried(node, wants, part, picks))
    }

    fn add(&self, node: usize, part: usize, class: usize, count: u32, picks: &mut Picks) {
        let free = self.whole_on(node, class).into_iter().filter(|at| picks.iter().all(|pick| pick.1 != *at));
        let more: Picks = free.take(count as usize).map(|at| (part, at)).collect();
        assert_eq!(more.len(), count as usize);
        picks.extend(more);
    }

    fn add_whole(&self, wants: &[Want], part: usize, count: u32, picks: &mut Picks) -> Option<()> {
        let class = wants[part].class;
        let (mut left, mut seen) = (count, BTreeSet::new());
        if let Some(own) = self.own().filter(|_| self.request.locality == Locality::OwnFirst) {
            let there = self.space(own, wants, part, picks).min(left);
            self.add(own, part, class, there, picks);
            left -= there;
            seen.insert(own);
        }
        while left > 0 {
            let order = self.by_free(class, 1).into_iter().filter(|node| !seen.contains(node));
            let order: Vec<usize> = order.filter(|&node| self.space(node, wants, part, picks) > 0).collect();
            let order = self.nearest(order);
            let distance = |node: usize| {
                let counts = self.request.locality == Locality::OwnFirst;
                if counts { self.distance(node) } else { 0 }
            };
            let nearest = distance(*order.first()?);
            let order: Vec<usize> = order.into_iter().filter(|&node| distance(node) == nearest).collect();
            let enough = order.iter().copied().find(|&node| {
                self.whole_on(node, class).len() >= left as usize && self.space(node, wants, part, picks) >= left
            });
            let largest =
                order.iter().copied().max_by_key(|&node| (self.whole_on(node, class).len(), usize::MAX - node));
            let node = enough.or(largest)?;
            let there = self.space(node, wants, part, picks).min(left);
            self.add(node, part, class, there, picks);
            left -= there;
            seen.insert(node);
        }
        Some(())
    }

    /// Adds devices near to each other or on as many nodes as possible.
    fn add_laid_out(&self, wants: &[Want], part: usize, count: u32, picks: &mut Picks) -> Option<()> {
        let offers = self.allowed.iter().map(|&node| NodeOffer {
            node,
            rack: self.nodes[node].rack,
            switch: self.nodes[node].switch,
            space: match wants[part].take {
                Take::Exclusive => self.space(node, wants, part, picks),
                Take::Shared(amount) => {
                    let rooms = self.rooms.keys().filter(|at| at.0 == node && self.class(**at) == wants[part].class);
                    let devices = rooms.filter(|at| self.takes(**at, amount)).count() as u32;
                    devices.min(self.carried(node, wants, part, picks))
                }
            },
            free: self.whole_on(node, wants[part].class).len() as u32,
        });
        for (node, devices) in self.lay_out(&offers.collect::<Vec<_>>(), count)? {
            let there = self.devices_of(node, &wants[part], devices, picks)?;
            picks.extend(there.into_iter().map(|at| (part, at)));
        }
        Some(())
    }

    fn add_shares(&self, wants: &[Want], part: usize, count: u32, amount: Amount, picks: &mut Picks) -> Option<()> {
        let class = wants[part].class;
        let mut left = count;
        let mut shared = self.shared(class, amount);
        if self.request.locality == Locality::OwnFirst {
            shared.sort_by_key(|at| self.distance(at.0));
        }
        for at in shared {
            if left > 0 && self.allowed.contains(&at.0) && self.carried(at.0, wants, part, picks) > 0 {
                picks.push((part, at));
                left -= 1;
            }
        }
        for node in self.nearest(self.by_free(class, 1)) {
            let there = self.space(node, wants, part, picks).min(left);
            self.add(node, part, class, there, picks);
            left -= there;
        }
        (left == 0).then_some(())
    }
}

/// Returns the earliest start on devices that are available from the given times on.
pub(crate) fn plan(
    nodes: &[NNode],
    times: &BTreeMap<At, Millis>,
    wants: &[Want],
    request: &Request,
    origin: Option<usize>,
    beside_from: &dyn Fn(usize, (u64, u64)) -> Option<Millis>,
) -> Option<(Millis, Vec<At>)> {
    const CHUNK_MAX: u32 = 16;
    let classes: BTreeSet<usize> = wants.iter().map(|want| want.class).collect();
    if classes.len() < wants.len() {
        return None;
    }
    let of = |node: Option<usize>, class: usize| {
        let of_class = |at: &At| nodes[at.0].devices[at.1].class == class && node.is_none_or(|node| node == at.0);
        let mut there: Vec<(Millis, At)> =
            times.iter().filter(|(at, _)| of_class(at)).map(|(at, time)| (*time, *at)).collect();
        there.sort_unstable();
        there
    };
    let plus = |taken: (u64, u64), want: &Want, count: u32| {
        let each = want.beside();
        (taken.0 + each.0 * u64::from(count), taken.1 + each.1 * u64::from(count))
    };
    // Returns the first devices of a node for each part, and when the node has them and enough cores and memory.
    let on_node = |node: usize, wants: &[(&Want, u32)], mut taken: (u64, u64)| {
        let (mut starts, mut places) = (Millis(0), Vec::new());
        for (want, count) in wants {
            let there = of(Some(node), want.class);
            let first = there.get(..*count as usize)?;
            starts = starts.max(first.last()?.0);
            places.extend(first.iter().map(|(_, at)| *at));
            taken = plus(taken, want, *count);
        }
        Some((starts.max(beside_from(node, taken)?), places))
    };
    // Returns the nodes that have devices for all parts, in the order of their starts.
    let by_start = |wants: &[(&Want, u32)]| {
        let all = (0..nodes.len()).filter(|_| wants[0].1 <= CHUNK_MAX);
        let mut order: Vec<(Millis, usize)> =
            all.filter_map(|node| Some((on_node(node, wants, (0, 0))?.0, node))).collect();
        order.sort_unstable();
        order
    };
    let mut all: Vec<(Millis, Vec<At>)> = Vec::new();
    if let Some(count) = request.nodes.filter(|_| !request.per_rank) {
        let each: Vec<(&Want, u32)> = wants.iter().map(|want| (want, want.least / count)).collect();
        let found = by_start(&each).into_iter().take(count as usize);
        all.extend(found.filter_map(|(_, node)| on_node(node, &each, (0, 0))));
        if all.len() < count as usize {
            return None;
        }
    } else if request.per_rank {
        let [want] = wants else { return None };
        let mut left = request.ranks;
        for (_, node) in by_start(&[(want, want.least)]) {
            let chunks =
                (1..=left).rev().find_map(|fits| Some((fits, on_node(node, &[(want, fits * want.least)], (0, 0))?)));
            let Some((fits, found)) = chunks else { break };
            all.push(found);
            left -= fits;
        }
        if left > 0 {
            return None;
        }
    } else {
        let mut taken: BTreeMap<usize, (u64, u64)> = BTreeMap::new();
        for want in wants {
            let of_node = |taken: &BTreeMap<usize, (u64, u64)>, node| taken.get(&node).copied().unwrap_or_default();
            let (starts, places) = if request.locality == Locality::Local {
                on_node(origin?, &[(want, want.least)], of_node(&taken, origin?))?
            } else {
                let (mut there, mut found) = (taken.clone(), Vec::new());
                for (time, at) in of(None, want.class) {
                    let needed = plus(of_node(&there, at.0), want, 1);
                    let from = if want.beside() == (0, 0) { Some(Millis(0)) } else { beside_from(at.0, needed) };
                    if let Some(from) = from {
                        there.insert(at.0, needed);
                        found.push((time.max(from), at));
                    }
                }
                found.sort_unstable();
                found.truncate(want.least as usize);
                if found.len() < want.least as usize {
                    return None;
                }
                (found.last()?.0, found.into_iter().map(|(_, at)| at).collect())
            };
            for at in &places {
                let of_node = taken.entry(at.0).or_default();
                *of_node = plus(*of_node, want, 1);
            }
            all.push((starts, places));
        }
    }
    let starts = all.iter().map(|(time, _)| *time).max()?;
    Some((starts, all.into_iter().flat_map(|(_, places)| places).collect()))
}
