//! Shapes: classes of requests that fit or fail together. A failed search is not repeated until a class of the shape
//! gains capacity.

use crate::amount::{Amount, WHOLE};
use crate::bitset::BitSet;
use crate::class::DeviceClass;
use crate::demand::host_memory_of;
use crate::ids::{ClassId, ReservationId};
use crate::pool::{HostResources, Node, Pool};
use crate::request::{Alternative, Locality, Part, Request, Take};
use crate::search::{Layout, PartDemand};
use crate::{accounts::JobOrder, arithmetic};
use accord_types::DeviceType;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// Most choices of classes for one alternative.
const CHOICES_MAX: usize = 64;

/// Most shapes without jobs that are kept for later requests.
const UNUSED_MAX: usize = 256;

/// The properties that requests of one shape share.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct ShapeKey {
    /// The request without its longest wait and priority, which do not affect the search.
    pub(crate) request: Arc<Request>,
    pub(crate) limit_ms: Option<u64>,
    /// Labels that the account requires in addition.
    pub(crate) labels: Vec<(String, String)>,
    /// The program's own node, if it decides whether the request fits ([`fits_by_own_node`]).
    pub(crate) own: Option<u32>,
}

/// A shape.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    pub(crate) key: ShapeKey,
    pub(crate) layout: Layout,
    /// The choices of classes for the parts, of all alternatives in order.
    pub(crate) choices: Vec<Vec<PartDemand>>,
    /// Number of choices of each alternative.
    pub(crate) of_alternative: Vec<usize>,
    /// The least demand of the first choice, in thousandths by class.
    pub(crate) first_demand: Vec<(ClassId, u64)>,
    /// The classes of all choices.
    pub(crate) classes: u128,
    /// The nodes that it may use; `None` for all nodes.
    pub(crate) nodes: Option<BitSet>,
    /// The pool's stamp at the last test.
    pub(crate) tested: Option<u64>,
    /// Reservations that do not suffice, with the stamps at that time (`ReservedFreeDevices::grown`).
    pub(crate) unfit: BTreeMap<ReservationId, u64>,
    /// Jobs that may start, by account.
    pub(crate) waiting: BTreeMap<u32, BTreeSet<JobOrder>>,
    /// Number of jobs with this shape.
    users: usize,
}

/// Whether the program's own node decides whether a request fits, not only where. `local` allows no other node. Parts that
/// are placed one after the other, from the own node on, may leave no cores or memory to each other, so that they fit from one
/// node but not from another.
pub(crate) fn fits_by_own_node(request: &Request) -> bool {
    // A CPU device takes memory of its node.
    let may_be_cpu = |part: &Part| matches!(part.class.kind, DeviceType::Cpu | DeviceType::NotHost);
    let may_take_host_resources = |part: &Part| part.cores > 0 || part.host_memory > 0 || may_be_cpu(part);
    let may_be_in_each_others_way = |alternative: &Alternative| {
        alternative.parts.len() > 1 && alternative.parts.iter().any(may_take_host_resources)
    };
    match request.locality {
        Locality::Local => true,
        Locality::OwnFirst => {
            request.nodes.is_none() && !request.per_rank && request.alternatives.iter().any(may_be_in_each_others_way)
        }
        Locality::Near | Locality::Pack | Locality::Spread => false,
    }
}

/// All shapes of waiting jobs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shapes {
    all: Vec<Shape>,
    free: Vec<usize>,
    by_key: HashMap<ShapeKey, usize>,
    /// Number of shapes without jobs in `by_key`.
    unused: usize,
    /// Shapes with waiting jobs, by class.
    pub(crate) by_class: Vec<BTreeSet<usize>>,
    /// Shapes with waiting jobs that fitted nowhere, but that may fit once nodes have less capacity
    /// ([`Shape::has_parts_in_each_others_way`]).
    pub(crate) retried: BTreeSet<usize>,
}

impl Shape {
    pub(crate) fn new(key: ShapeKey, pool: &Pool) -> Self {
        let request = &key.request;
        let layout = match request.nodes {
            _ if request.per_rank => Layout::Chunks(request.ranks),
            Some(nodes) => Layout::Nodes(nodes),
            None => Layout::Any(request.locality),
        };
        let layout = if request.locality == Locality::Local { Layout::Any(Locality::Local) } else { layout };
        let mut shape = Self {
            key,
            layout,
            choices: Vec::new(),
            of_alternative: Vec::new(),
            first_demand: Vec::new(),
            classes: 0,
            nodes: None,
            tested: None,
            unfit: BTreeMap::new(),
            waiting: BTreeMap::new(),
            users: 0,
        };
        shape.choose_classes(&pool.classes);
        if shape.is_choosy() {
            let mut nodes = BitSet::default();
            for (at, node) in (0..).zip(&pool.nodes) {
                if shape.allows(node) {
                    nodes.insert(at);
                }
            }
            shape.nodes = Some(nodes);
        }
        shape
    }

    fn is_choosy(&self) -> bool {
        let request = &self.key.request;
        !(request.labels.is_empty()
            && self.key.labels.is_empty()
            && request.only_nodes.is_empty()
            && request.avoid_nodes.is_empty())
    }

    fn allows(&self, node: &Node) -> bool {
        let request = &self.key.request;
        let mut labels = request.labels.iter().chain(&self.key.labels);
        labels.all(|(name, value)| node.labels.get(name) == Some(value))
            && (request.only_nodes.is_empty() || request.only_nodes.contains(&node.name))
            && !request.avoid_nodes.contains(&node.name)
    }

    fn choose_classes(&mut self, classes: &[DeviceClass]) {
        let of_each: Vec<Vec<Vec<PartDemand>>> =
            self.key.request.alternatives.iter().map(|alternative| choices(alternative, classes)).collect();
        self.of_alternative = of_each.iter().map(Vec::len).collect();
        self.choices = of_each.into_iter().flatten().collect();
        self.classes = self.choices.iter().flatten().fold(0, |set, part| set | 1 << part.class.index());
        self.first_demand = self.choices.first().map_or_else(Vec::new, |choice| self.demand(choice, classes));
        self.tested = None;
        self.unfit.clear();
    }

    /// Whether several parts of a choice are placed one after the other, and some take cores or memory of nodes. Parts of
    /// one class are on one node, which has enough for all of them or not.
    pub(crate) fn has_parts_in_each_others_way(&self) -> bool {
        let takes =
            |choice: &Vec<PartDemand>| choice.iter().any(|part| part.host_resources() != HostResources::default());
        let is_apart = |choice: &Vec<PartDemand>| {
            let classes: BTreeSet<ClassId> = choice.iter().map(|part| part.class).collect();
            choice.len() > 1 && classes.len() == choice.len()
        };
        matches!(self.layout, Layout::Any(_)) && self.choices.iter().any(|choice| is_apart(choice) && takes(choice))
    }

    /// Returns the least demand of a choice, in thousandths by class.
    pub(crate) fn demand(&self, choice: &[PartDemand], classes: &[DeviceClass]) -> Vec<(ClassId, u64)> {
        let chunks = if let Layout::Chunks(chunks) = self.layout { chunks } else { 1 };
        let mut demand: Vec<(ClassId, u64)> = Vec::new();
        for part in choice {
            let milli = u64::from(part.count.least) * u64::from(chunks) * each(part, classes);
            match demand.iter_mut().find(|(class, _)| *class == part.class) {
                Some((_, sum)) => *sum += milli,
                None => demand.push((part.class, milli)),
            }
        }
        demand
    }
}

/// Returns the charge of each device of a part, in thousandths.
pub(crate) fn each(part: &PartDemand, classes: &[DeviceClass]) -> u64 {
    let (amount, exclusive) = match part.take {
        Take::Exclusive => (Amount { milli: WHOLE, memory: 0 }, true),
        Take::Shared(amount) => (amount, false),
    };
    u64::from(arithmetic::charge(amount, exclusive, &classes[part.class.index()]))
}

/// Returns the choices of classes for an alternative: the classes of each part in order, with the last part varying
/// fastest.
fn choices(alternative: &Alternative, classes: &[DeviceClass]) -> Vec<Vec<PartDemand>> {
    let mut all: Vec<Vec<PartDemand>> = vec![Vec::new()];
    for part in &alternative.parts {
        let of_part = |(at, class): (u16, &DeviceClass)| demand(part, ClassId(at), class);
        let matching: Vec<PartDemand> = (0..).zip(classes).filter_map(of_part).collect();
        let longer = |before: &Vec<PartDemand>| -> Vec<Vec<PartDemand>> {
            matching.iter().map(|next| before.iter().chain([next]).cloned().collect()).collect()
        };
        all = all.iter().flat_map(longer).take(CHOICES_MAX).collect();
    }
    all
}

fn demand(part: &Part, id: ClassId, class: &DeviceClass) -> Option<PartDemand> {
    let suits = part.class.matches(class)
        && match part.take {
            Take::Exclusive => true,
            Take::Shared(amount) => amount.memory <= class.memory,
        };
    suits.then_some(PartDemand {
        class: id,
        count: part.count,
        take: part.take,
        cores: part.cores,
        host_memory: part.host_memory.saturating_add(host_memory_of(class, part.take)),
    })
}

impl Shapes {
    pub(crate) fn get(&self, shape: usize) -> &Shape {
        &self.all[shape]
    }

    pub(crate) fn get_mut(&mut self, shape: usize) -> &mut Shape {
        &mut self.all[shape]
    }

    /// Returns the shapes with jobs that may start.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = usize> + '_ {
        self.all.iter().enumerate().filter(|(_, shape)| !shape.waiting.is_empty()).map(|(at, _)| at)
    }

    /// Returns the shape with this key, and counts a job for it.
    pub(crate) fn of(&mut self, key: &ShapeKey, pool: &Pool) -> usize {
        let known = self.by_key.get(key).copied();
        let at = known.unwrap_or_else(|| {
            let shape = Shape::new(key.clone(), pool);
            let at = self.free.pop().unwrap_or(self.all.len());
            if at == self.all.len() {
                self.all.push(shape);
            } else {
                self.all[at] = shape;
            }
            self.by_key.insert(key.clone(), at);
            at
        });
        self.unused -= usize::from(known.is_some() && self.all[at].users == 0);
        self.all[at].users += 1;
        at
    }

    /// Removes a job from the count of its shape.
    pub(crate) fn leave(&mut self, shape: usize) {
        let of = &mut self.all[shape];
        of.users -= 1;
        self.unused += usize::from(of.users == 0);
        if self.unused > UNUSED_MAX {
            self.forget_unused();
        }
    }

    fn forget_unused(&mut self) {
        let (all, free) = (&self.all, &mut self.free);
        self.by_key.retain(|_, &mut at| {
            let used = all[at].users > 0;
            if !used {
                free.push(at);
            }
            used
        });
        // Sorted, so that the index of the next shape does not depend on the order of the map.
        free.sort_unstable();
        self.unused = 0;
    }

    /// Adds a job of a shape to those that may start.
    pub(crate) fn enqueue(&mut self, shape: usize, account: u32, turn: JobOrder) {
        let of = &mut self.all[shape];
        if of.waiting.is_empty() {
            for class in classes_of(of.classes) {
                if self.by_class.len() <= class {
                    self.by_class.resize_with(class + 1, BTreeSet::new);
                }
                self.by_class[class].insert(shape);
            }
        }
        of.waiting.entry(account).or_default().insert(turn);
    }

    /// Removes a job of a shape from those that may start.
    pub(crate) fn dequeue(&mut self, shape: usize, account: u32, turn: JobOrder) {
        let of = &mut self.all[shape];
        if let Some(turns) = of.waiting.get_mut(&account) {
            turns.remove(&turn);
            if turns.is_empty() {
                of.waiting.remove(&account);
            }
        }
        if of.waiting.is_empty() {
            for class in classes_of(of.classes) {
                if let Some(shapes) = self.by_class.get_mut(class) {
                    shapes.remove(&shape);
                }
            }
        }
    }

    /// Updates all shapes for a new or changed node.
    pub(crate) fn note_node(&mut self, at: u32, node: &Node) {
        for shape in &mut self.all {
            if !shape.is_choosy() {
                continue;
            }
            let allows = shape.allows(node);
            let Some(nodes) = &mut shape.nodes else { continue };
            if allows {
                nodes.insert(at);
            } else {
                nodes.remove(at);
            }
            shape.tested = None;
            shape.unfit.clear();
        }
    }

    /// Updates all shapes for new classes.
    pub(crate) fn note_classes(&mut self, classes: &[DeviceClass]) {
        for of_class in &mut self.by_class {
            of_class.clear();
        }
        self.by_class.resize_with(classes.len(), BTreeSet::new);
        for (at, shape) in self.all.iter_mut().enumerate() {
            shape.choose_classes(classes);
            if !shape.waiting.is_empty() {
                for class in classes_of(shape.classes) {
                    self.by_class[class].insert(at);
                }
            }
        }
    }
}

/// Returns the members of a set of classes.
pub(crate) fn classes_of(mut set: u128) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        if set == 0 {
            return None;
        }
        let class = set.trailing_zeros() as usize;
        set &= set - 1;
        Some(class)
    })
}
