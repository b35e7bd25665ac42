//! Sums over sets of classes of devices, which have a bit for each class.

use crate::ids::ClassId;

pub(crate) fn contains(classes: u128, class: ClassId) -> bool {
    classes >> class.index() & 1 == 1
}

pub(crate) fn change(of: &mut u64, by: u64, more: bool) {
    *of = if more { *of + by } else { *of - by };
}

pub(crate) fn sum_of(by_class: &[u64], classes: u128) -> u64 {
    let members = by_class.iter().enumerate().filter(|(at, _)| classes >> at & 1 == 1);
    members.map(|(_, of)| of).sum()
}

pub(crate) fn taken_of(demand: &[(ClassId, u64)], classes: u128) -> u64 {
    demand.iter().filter(|&&(class, _)| contains(classes, class)).map(|(_, milli)| milli).sum()
}
