//! Possible starts of jobs, and the pass.

use super::*;

impl Naive {
    pub(super) fn first_demand(&self, job: &NJob) -> BTreeMap<usize, u64> {
        self.choices(job).first().map_or_else(BTreeMap::new, |choice| self.demand(job, choice))
    }

    pub(super) fn demand(&self, job: &NJob, choice: &[Want]) -> BTreeMap<usize, u64> {
        let chunks = if job.request.per_rank { u64::from(job.request.ranks) } else { 1 };
        let mut demand = BTreeMap::new();
        for want in choice {
            *demand.entry(want.class).or_default() += u64::from(want.least) * chunks * self.each(want);
        }
        demand
    }

    pub(super) fn each(&self, want: &Want) -> u64 {
        match want.take {
            Take::Exclusive => 1_000,
            Take::Shared(amount) => u64::from(charge(amount, false, &self.classes[want.class])),
        }
    }

    pub(super) fn choices(&self, job: &NJob) -> Vec<Vec<Want>> {
        self.choices_of(&job.request.alternatives)
    }

    fn choices_of(&self, alternatives: &[Alternative]) -> Vec<Vec<Want>> {
        let mut all = Vec::new();
        for alternative in alternatives {
            let mut some: Vec<Vec<Want>> = vec![Vec::new()];
            for part in &alternative.parts {
                let mut longer = Vec::new();
                for before in &some {
                    for (class, of) in self.classes.iter().enumerate() {
                        let large = match part.take {
                            Take::Exclusive => true,
                            Take::Shared(amount) => amount.memory <= of.memory,
                        };
                        if part.class.matches(of) && large {
                            let mut next = before.clone();
                            next.push(Want {
                                class,
                                least: part.count.least,
                                most: part.count.most,
                                take: part.take,
                                cores: part.cores,
                                memory: part.host_memory,
                                of_device: match part.take {
                                    _ if of.kind != DeviceType::Cpu => 0,
                                    Take::Exclusive => of.memory,
                                    Take::Shared(amount) => amount.memory,
                                },
                            });
                            longer.push(next);
                        }
                    }
                }
                some = longer;
            }
            all.extend(some);
        }
        all
    }

    /// Returns the jobs whose reserved starts count.
    fn counted(&self) -> impl Iterator<Item = &NJob> {
        self.jobs.values().filter(|job| !self.aside.contains(&job.id))
    }

    /// Returns the time from which on a device may not be used, ignoring the claim of one job.
    pub(super) fn free_until(&self, at: At, but: Option<JobId>) -> Millis {
        self.free_until_but(at, but, None)
    }

    /// Returns the same time for a job's reserved start, which only earlier reserved starts precede.
    fn free_until_before(&self, at: At, job: JobId, starts: Millis) -> Millis {
        let others = self.counted().filter(|other| other.id != job).filter_map(|other| other.reserved_start.as_ref());
        let before =
            others.filter(|reserved_start| reserved_start.places.contains(&at) && reserved_start.starts <= starts);
        let device = self.device_id(at);
        let windows = self.reservations.values().filter(|of| of.ends > self.now && Self::is_reserved(of, device));
        let limits = windows.map(|of| of.starts).chain(before.map(|reserved_start| reserved_start.starts));
        limits.chain([self.deadline(device)]).min().unwrap_or(Millis::NEVER)
    }

    /// Returns the same time for jobs of a reservation. Other reservations count from their starts only if they take
    /// precedence.
    fn free_until_but(&self, at: At, but: Option<JobId>, within: Option<&Reservation>) -> Millis {
        let device = self.device_id(at);
        let mut until = self.deadline(device);
        for other in self.reservations.values().filter(|of| within.is_none_or(|within| within.id != of.id)) {
            if other.ends > self.now && Self::is_reserved(other, device) {
                until = until.min(within.map_or(other.starts, |within| Self::preempts_at(other, within)));
            }
        }
        for job in self.counted().filter(|job| Some(job.id) != but) {
            if let Some(reserved_start) =
                job.reserved_start.as_ref().filter(|reserved_start| reserved_start.places.contains(&at))
            {
                until = until.min(reserved_start.starts);
            }
        }
        until
    }

    /// Whether a reservation takes precedence over another one on the same device at the same time.
    pub(super) fn has_precedence(one: &Reservation, other: &Reservation) -> bool {
        match (one.members.is_empty(), other.members.is_empty()) {
            (true, false) => true,
            (false, true) => false,
            _ => (one.created, one.id) < (other.created, other.id),
        }
    }

    /// Returns when a reservation takes a device from the jobs of another one.
    pub(super) fn preempts_at(one: &Reservation, other: &Reservation) -> Millis {
        if Self::has_precedence(one, other) {
            return one.starts;
        }
        if one.ends <= other.ends { Millis::NEVER } else { one.starts.max(other.ends) }
    }

    pub(super) fn is_reserved(reservation: &Reservation, device: DeviceId) -> bool {
        reservation.devices.covers(device)
    }

    pub(super) fn deadline(&self, device: DeviceId) -> Millis {
        let drains = [DrainTarget::Node(device.node), DrainTarget::Device(device)];
        drains.iter().filter_map(|target| self.drains.get(target)).map(|drain| drain.0).min().unwrap_or(Millis::NEVER)
    }

    pub(super) fn device_id(&self, at: At) -> DeviceId {
        DeviceId { node: self.nodes[at.0].id, ordinal: self.nodes[at.0].devices[at.1].ordinal }
    }

    pub(super) fn holders_of(&self, at: At) -> impl Iterator<Item = (&NJob, &NGrant)> {
        self.jobs.values().filter(|job| !self.lifted.contains(&job.id)).flat_map(move |job| {
            let held = job.grants.iter().filter(move |grant| grant.at == at && grant.hold.is_hold());
            held.map(move |grant| (job, grant))
        })
    }

    pub(super) fn is_sound(&self, at: At) -> bool {
        let device = &self.nodes[at.0].devices[at.1];
        self.nodes[at.0].up
            && !device.absent
            && !self.quarantined.contains_key(&self.device_id(at))
            && !self.is_awaited(at)
    }

    pub(super) fn places(&self) -> Vec<At> {
        let nodes = self.nodes.iter().enumerate();
        nodes.flat_map(|(node, of)| (0..of.devices.len()).map(move |device| (node, device))).collect()
    }

    /// Returns the capacity of each device for a job until its end: milli, memory, and whether it is whole.
    pub(super) fn place_for<'a>(&'a self, job: &'a NJob, with_bounded: bool) -> Vacancies<'a> {
        let until = self.now.plus(job.limit.unwrap_or(self.policy.quantum()));
        let mut rooms = BTreeMap::new();
        for at in self.places().into_iter().filter(|&at| self.is_sound(at)) {
            let device = &self.nodes[at.0].devices[at.1];
            let free_until = self.free_until(at, None);
            let holders: Vec<_> = self.holders_of(at).map(|(_, grant)| grant).collect();
            let mut left = Amount { milli: WHOLE, memory: device.memory };
            for grant in &holders {
                left.milli -= grant.amount.milli;
                left.memory -= grant.amount.memory;
            }
            // The device's memory does not include the driver's share for the first holder, or for this job.
            let parts = holders.len() as u64 * device.context;
            let holds_one_more = left.memory >= parts;
            left.memory = left.memory.saturating_sub(parts);
            let there = if holders.is_empty() {
                free_until == Millis::NEVER || with_bounded && until <= free_until
            } else {
                holders.iter().all(|grant| !grant.exclusive)
                    && holds_one_more
                    && left != Amount::default()
                    && until <= free_until
            };
            if there {
                rooms.insert(at, (left, holders.len()));
            }
        }
        Vacancies {
            nodes: &self.nodes,
            rooms,
            free: (0..self.nodes.len()).map(|node| self.left_for(node, until, &|_| true)).collect(),
            request: &job.request,
            path_times: self.path_times,
            origin: job.origin,
            allowed: (0..self.nodes.len()).filter(|&node| self.is_allowed(job, node)).collect(),
            sharers_max: self.policy.sharers_max as usize,
            all_whole: self
                .places()
                .into_iter()
                .filter(|&at| self.is_sound(at) && self.holders_of(at).next().is_none())
                .collect(),
            with_bounded,
        }
    }

    pub(super) fn is_allowed(&self, job: &NJob, node: usize) -> bool {
        let of = &self.nodes[node];
        let own = self.path(job.account).into_iter().flat_map(|account| &self.policy.accounts[account].labels);
        let mut labels = job.request.labels.iter().chain(own);
        labels.all(|(name, value)| of.labels.get(name) == Some(value))
            && (job.request.only_nodes.is_empty() || job.request.only_nodes.contains(&of.name))
            && !job.request.avoid_nodes.contains(&of.name)
    }

    /// Returns a start that is possible now.
    pub(super) fn fit(&self, job: &NJob) -> Option<Fit> {
        if self.too_many_run(job.account) || self.spent(job.account).is_some() {
            return None;
        }
        if let Some(picks) = self.with_reserved_start(job) {
            let choice = job.reserved_start.as_ref()?.choice.clone();
            return self.allowed(job, &choice, &picks).then_some((choice, picks));
        }
        self.fit_anywhere(job)
    }

    /// Returns a start that is possible now on other devices than those of the job's reserved start.
    pub(super) fn fit_anywhere(&self, job: &NJob) -> Option<Fit> {
        if let Some((choice, picks)) = self.reserved_fit(job) {
            return self.allowed(job, &choice, &picks).then_some((choice, picks));
        }
        if job.request.reservation.is_some() {
            return None;
        }
        for alternative in &job.request.alternatives {
            let fits = self
                .choices_of(std::slice::from_ref(alternative))
                .into_iter()
                .filter_map(|choice| self.fit_choice(job, choice));
            if let Some(fit) = fits.min_by_key(|fit| self.cost(&fit.1)) {
                return Some(fit);
            }
        }
        None
    }

    fn fit_choice(&self, job: &NJob, choice: Vec<Want>) -> Option<Fit> {
        if self.beyond_most(job.account, &self.demand(job, &choice)) {
            return None;
        }
        let capped = self.capped(job, &choice);
        let picks = self.find(job, &capped)?;
        if self.allowed(job, &capped, &picks) {
            return Some((capped, picks));
        }
        let least: Vec<Want> = capped.iter().map(|want| Want { most: want.least, ..want.clone() }).collect();
        let picks = self.find(job, &least)?;
        self.allowed(job, &least, &picks).then_some((least, picks))
    }

    /// Returns the number of nodes, the free devices taken, and the free capacity of the nodes, with 16 cores counted
    /// as a device.
    fn cost(&self, picks: &[(usize, At)]) -> (usize, usize, u64) {
        let class = |at: At| self.nodes[at.0].devices[at.1].class;
        let is_free = |at: At| self.is_sound(at) && self.holders_of(at).next().is_none();
        let there: BTreeSet<(usize, usize)> = picks.iter().map(|(_, at)| (at.0, class(*at))).collect();
        let nodes: BTreeSet<usize> = there.iter().map(|(node, _)| *node).collect();
        let taken = picks.iter().filter(|(_, at)| is_free(*at)).count();
        let free = self.places().into_iter().filter(|&at| there.contains(&(at.0, class(at))) && is_free(at)).count();
        let cores: u64 = nodes.iter().map(|&node| self.left_of(node).0).sum();
        (nodes.len(), taken, free as u64 * 16_000 + cores)
    }

    /// Returns the cores and the host memory that a grant takes. The memory of CPU devices is the node's.
    pub(super) fn beside_of(&self, grant: &NGrant) -> (u64, u64) {
        let is_cpu = self.classes[grant.class].kind == DeviceType::Cpu;
        (grant.cores, grant.memory + if is_cpu { grant.amount.memory } else { 0 })
    }

    /// Returns the cores and host memory of a node that no job holds.
    pub(super) fn left_of(&self, node: usize) -> (u64, u64) {
        let there_still = self.jobs.values().filter(|job| !self.lifted.contains(&job.id));
        let grants = there_still.flat_map(|job| &job.grants);
        let there = grants.filter(|grant| grant.at.0 == node && grant.hold.is_hold());
        let used = there.map(|grant| self.beside_of(grant)).fold((0, 0), |sum, of| (sum.0 + of.0, sum.1 + of.1));
        let of = &self.nodes[node];
        (of.cores.saturating_sub(used.0), of.memory.saturating_sub(used.1))
    }

    /// Returns the cores and host memory that a job may take of a node from now until a time, besides the reserved starts that count: at each
    /// start of these there must be enough, by the planned ends of jobs.
    fn left_for(&self, node: usize, until: Millis, counts: &dyn Fn(&NJob) -> bool) -> (u64, u64) {
        let of = &self.nodes[node];
        let firm = self.firm(node).into_iter().filter(|(job, ..)| counts(job)).filter(|(_, from, _)| *from < until);
        firm.fold(self.left_of(node), |least, (_, from, _)| {
            let taken = self.taken_at(node, from.max(self.now), counts);
            (least.0.min(of.cores.saturating_sub(taken.0)), least.1.min(of.memory.saturating_sub(taken.1)))
        })
    }

    /// Returns the jobs to whose reserved starts others yield on a node, with the starts, and the cores and host memory that they need there.
    fn firm(&self, node: usize) -> Vec<(&NJob, Millis, (u64, u64))> {
        let mut found = Vec::new();
        for job in self.counted() {
            let Some(reserved_start) = job.reserved_start.as_ref().filter(|of| of.rank > 0) else { continue };
            let mut needed = (0, 0);
            for at in reserved_start.places.iter().filter(|at| at.0 == node) {
                let class = self.nodes[at.0].devices[at.1].class;
                if let Some(want) = reserved_start.choice.iter().find(|want| want.class == class) {
                    let each = want.beside();
                    needed = (needed.0 + each.0, needed.1 + each.1);
                }
            }
            if needed != (0, 0) {
                found.push((job, reserved_start.starts, needed));
            }
        }
        found
    }

    /// Returns the cores and host memory of a node that jobs hold at a time, or that reserved starts need that count. All jobs that are there
    /// count as such now.
    fn taken_at(&self, node: usize, time: Millis, counts: &dyn Fn(&NJob) -> bool) -> (u64, u64) {
        self.taken_at_with(node, time, counts, None)
    }

    /// Returns the same if a job is renewed until then.
    fn taken_at_with(
        &self,
        node: usize,
        time: Millis,
        counts: &dyn Fn(&NJob) -> bool,
        renewed: Option<JobId>,
    ) -> (u64, u64) {
        let mut taken = (0, 0);
        let mut add = |of: (u64, u64)| taken = (taken.0 + of.0, taken.1 + of.1);
        let lasts = |job: &&NJob| time == self.now || job.planned_end > time || Some(job.id) == renewed;
        for job in self.jobs.values().filter(lasts).filter(|job| !self.lifted.contains(&job.id)) {
            let there = job.grants.iter().filter(|grant| grant.at.0 == node && grant.hold.is_hold());
            there.for_each(|grant| add(self.beside_of(grant)));
        }
        for (job, from, needed) in self.firm(node).into_iter().filter(|(job, ..)| counts(job)) {
            let ends = job.limit.map_or(Millis::NEVER, |limit| from.plus(limit));
            if from <= time && (time == self.now || ends > time) {
                add(needed);
            }
        }
        taken
    }

    /// Whether jobs hold so much of a node beyond a time that a reserved start before that time lacks cores or host memory, if a job is
    /// renewed until then.
    pub(super) fn is_short(&self, node: usize, until: Millis, renewed: JobId) -> bool {
        self.firm(node).into_iter().filter(|(_, from, _)| *from < until).any(|(_, from, _)| {
            let taken = self.taken_at_with(node, from.max(self.now), &|_| true, Some(renewed));
            taken.0 > self.nodes[node].cores || taken.1 > self.nodes[node].memory
        })
    }

    /// Whether the nodes have enough cores and host memory for a job's devices, besides the reserved starts that count.
    fn carries(&self, job: &NJob, choice: &[Want], picks: &Picks, counts: &dyn Fn(&NJob) -> bool) -> bool {
        let until = self.now.plus(self.lease(job));
        let mut vacancies = self.place_for(job, true);
        vacancies.free = (0..self.nodes.len()).map(|node| self.left_for(node, until, counts)).collect();
        vacancies.carries(choice, picks)
    }

    pub(super) fn find(&self, job: &NJob, choice: &[Want]) -> Option<Picks> {
        self.place_for(job, false).find(choice).or_else(|| self.place_for(job, true).find(choice))
    }

    pub(super) fn capped(&self, job: &NJob, choice: &[Want]) -> Vec<Want> {
        let mut capped = choice.to_vec();
        if choice.iter().all(|want| want.least == want.most) {
            return capped;
        }
        if let [want] = &mut capped[..] {
            for account in self.path(job.account) {
                for quota in &self.policy.accounts[account].most {
                    if self.is_of(quota, want.class) {
                        let left = (u64::from(quota.devices) * 1_000).saturating_sub(self.held(account, quota));
                        want.most = want.most.min((left / self.each(want)) as u32).max(want.least);
                    }
                }
            }
            return capped;
        }
        let mut most = BTreeMap::new();
        for want in choice {
            *most.entry(want.class).or_default() += u64::from(want.most) * self.each(want);
        }
        if self.beyond_most(job.account, &most) {
            capped.iter_mut().for_each(|want| want.most = want.least);
        }
        capped
    }

    /// Returns the devices of a job's reserved start, if all are free.
    pub(super) fn with_reserved_start(&self, job: &NJob) -> Option<Picks> {
        let reserved_start = job.reserved_start.as_ref()?;
        let until = self.now.plus(job.limit.unwrap_or(self.policy.quantum()));
        let free = |at: &At| {
            self.is_sound(*at)
                && self.holders_of(*at).next().is_none()
                && until <= self.free_until_before(*at, job.id, reserved_start.starts)
        };
        if !reserved_start.places.iter().all(free) {
            return None;
        }
        let part = |at: At| {
            let class = self.nodes[at.0].devices[at.1].class;
            reserved_start.choice.iter().position(|want| want.class == class)
        };
        let mut picks: Vec<_> = reserved_start.places.iter().map(|&at| Some((part(at)?, at))).collect::<Option<_>>()?;
        picks.sort_unstable();
        let place = |of: &NReservedStart, id: JobId| (3 - of.rank, of.starts, id);
        let precedes = |other: &NJob| {
            let of = other.reserved_start.as_ref();
            of.is_some_and(|of| place(of, other.id) < place(reserved_start, job.id))
        };
        self.carries(job, &reserved_start.choice, &picks, &precedes).then_some(picks)
    }

    pub(super) fn allowed(&self, job: &NJob, choice: &[Want], picks: &[(usize, At)]) -> bool {
        let mut demand = BTreeMap::new();
        for (part, _) in picks {
            *demand.entry(choice[*part].class).or_default() += self.each(&choice[*part]);
        }
        if self.beyond_most(job.account, &demand) {
            return false;
        }
        if !self.is_long(job) || self.entitled(job.account, &demand) {
            return true;
        }
        let mut taken = BTreeMap::new();
        for (_, at) in picks.iter().filter(|(_, at)| self.holders_of(*at).next().is_none()) {
            *taken.entry(self.nodes[at.0].devices[at.1].class).or_default() += 1_000;
        }
        self.leaves_guarantees(job, &taken)
    }

    pub(super) fn set(&self, quota: &Quota) -> Vec<usize> {
        (0..self.classes.len()).filter(|&class| self.is_of(quota, class)).collect()
    }

    pub(super) fn waiting_in_order(&self) -> Vec<JobId> {
        let mut waiting: Vec<&NJob> =
            self.jobs.values().filter(|job| job.phase == NPhase::Waiting && !job.on_hold).collect();
        waiting.sort_by(|one, other| self.order(one, other));
        waiting.into_iter().map(|job| job.id).collect()
    }

    pub(super) fn pass(&mut self, effects: &mut Vec<Effect>) {
        loop {
            self.check_reserved_starts();
            if self.paused {
                return;
            }
            let mut changed = self.start_before_suspended(effects);
            changed |= self.resume_waiting(effects);
            while let Some((id, (choice, picks))) =
                self.waiting_in_order().into_iter().find_map(|id| Some((id, self.fit(&self.jobs[&id])?)))
            {
                let is_named = self.jobs[&id].request.reservation.is_some();
                self.start(id, &choice, &picks, effects);
                self.check_reserved_starts();
                if is_named {
                    self.reserve_starts(effects);
                    self.check_reserved_starts();
                }
                changed = true;
            }
            changed |= self.reserve_starts(effects);
            changed |= self.preempt(effects);
            if !changed {
                return;
            }
        }
    }

    pub(super) fn start(&mut self, id: JobId, choice: &[Want], picks: &[(usize, At)], effects: &mut Vec<Effect>) {
        let account = self.jobs[&id].account;
        let is_first = self.leaf_first(account).is_some_and(|first| first.id == id);
        self.head = self.head.filter(|&head| head != id);
        self.path(account).into_iter().for_each(|account| self.settle(account));
        let grants: Vec<NGrant> = picks
            .iter()
            .map(|&(part, at)| {
                let (want, device) = (&choice[part], &self.nodes[at.0].devices[at.1]);
                let whole = Amount { milli: WHOLE, memory: device.memory };
                let (amount, exclusive) = match want.take {
                    Take::Exclusive => (whole, true),
                    Take::Shared(amount) => (amount, false),
                };
                let (cores, memory) = (want.cores, want.memory);
                let (device, class, milli) = (self.device_id(at), want.class, self.each(want));
                let there = self.nodes[at.0].devices.iter().filter(|of| of.class == class && !of.absent).count();
                let charged = charge_with_cores(milli, cores, self.nodes[at.0].cores, there as u64);
                NGrant { device, at, class, amount, exclusive, milli, charged, cores, memory, hold: NHold::Held }
            })
            .collect();
        let (now, quantum, grace) = (self.now, self.policy.quantum(), self.policy.grace_ms);
        let job = self.jobs.get_mut(&id).unwrap();
        job.phase = NPhase::Running;
        job.reserved_start = None;
        job.started = now;
        job.ends = now.plus(job.limit.unwrap_or(quantum));
        job.planned_end = if job.limit.is_some() { job.ends } else { Millis::NEVER };
        job.warned = Some(Millis(job.ends.0.saturating_sub(grace)).max(now));
        job.grants = grants;
        let leased =
            |grant: &NGrant| LeasedDevice { device: grant.device, amount: grant.amount, exclusive: grant.exclusive };
        effects.push(Effect::Started { job: id, devices: job.grants.iter().map(leased).collect(), ends: job.ends });
        if is_first {
            self.accounts[account].last_start = now;
        }
        self.touch(account);
    }

    /// Whether a reservation is for a user, or for an account or an ancestor.
    pub(super) fn is_for(&self, reservation: &Reservation, user: &str, account: usize) -> bool {
        let Members { accounts, users } = &reservation.members;
        let mut path = self.path(account).into_iter();
        users.iter().any(|member| member == user)
            || path.any(|above| accounts.contains(&self.policy.accounts[above].name))
    }

    /// Returns a start on devices of a reservation that the job may use.
    fn reserved_fit(&self, job: &NJob) -> Option<Fit> {
        let until = self.now.plus(job.limit.unwrap_or(self.policy.quantum()));
        for reservation in self.reservations.values() {
            let begun = reservation.starts <= self.now && self.now < reservation.ends;
            let named = job.request.reservation.as_ref().is_none_or(|name| *name == reservation.name);
            if !begun || !named || !self.is_for(reservation, &job.user, job.account) {
                continue;
            }
            // To a job that names the reservation all reserved starts after it yield.
            let is_named = job.request.reservation.is_some();
            let without = is_named.then(|| self.without_reserved_starts());
            let limit = |at: At| without.as_ref().unwrap_or(self).free_until_but(at, Some(job.id), Some(reservation));
            let mut free: Vec<At> = self
                .places()
                .into_iter()
                .filter(|&at| Self::is_reserved(reservation, self.device_id(at)) && self.is_allowed(job, at.0))
                .filter(|&at| self.is_sound(at) && self.holders_of(at).next().is_none())
                .filter(|&at| until <= limit(at))
                .collect();
            // Devices with the earliest bound are taken first.
            free.sort_by_key(|&at| (limit(at), at));
            for choice in self.choices(job) {
                let classes: BTreeSet<usize> = choice.iter().map(|want| want.class).collect();
                let apart = classes.len() == choice.len() && choice.iter().all(|want| want.take == Take::Exclusive);
                if !apart || self.beyond_most(job.account, &self.demand(job, &choice)) {
                    continue;
                }
                let first = |node: Option<usize>, want: &Want, count: u32| -> Option<Vec<At>> {
                    let there = free.iter().copied().filter(|at| node.is_none_or(|node| node == at.0));
                    let of_class = there.filter(|at| self.nodes[at.0].devices[at.1].class == want.class);
                    let first: Vec<At> = of_class.take(count as usize).collect();
                    (first.len() == count as usize).then_some(first)
                };
                let mut nodes: Vec<usize> = Vec::new();
                for at in free.iter().filter(|at| self.nodes[at.0].devices[at.1].class == choice[0].class) {
                    if !nodes.contains(&at.0) {
                        nodes.push(at.0);
                    }
                }
                let all = |node: Option<usize>, of: u32| -> Option<Picks> {
                    let parts = choice.iter().enumerate().map(|(part, want)| {
                        let spots = first(node, want, want.least / of)?;
                        Some(spots.into_iter().map(|at| (part, at)).collect::<Picks>())
                    });
                    parts.collect::<Option<Vec<Picks>>>().map(|parts| parts.concat())
                };
                let picks = match (job.request.locality, job.request.nodes) {
                    (Locality::Local, _) => job.origin.and_then(|own| all(Some(own), 1)),
                    (Locality::Spread, _) if job.request.per_rank => None,
                    _ if job.request.per_rank => self.ranks_within(&free, &nodes, &choice, job.request.ranks),
                    (_, Some(count)) => {
                        let chunks = nodes.iter().filter_map(|&node| all(Some(node), count));
                        let chunks: Vec<Picks> = chunks.take(count as usize).collect();
                        (chunks.len() == count as usize).then(|| chunks.concat())
                    }
                    (Locality::Spread, None) => None,
                    _ => all(None, 1),
                };
                let yields = |other: &NJob, picks: &Picks| {
                    let claims = other.reserved_start.as_ref().map_or(&[][..], |of| &of.places);
                    is_named && picks.iter().any(|(_, at)| claims.contains(at))
                };
                if let Some(mut picks) = picks
                    && self.carries(job, &choice, &picks, &|other| other.id != job.id && !yields(other, &picks))
                {
                    picks.sort_unstable();
                    return Some((choice, picks));
                }
            }
        }
        None
    }

    fn without_reserved_starts(&self) -> Self {
        let mut without = self.clone();
        without.jobs.values_mut().for_each(|job| job.reserved_start = None);
        without
    }

    /// Returns free devices for ranks, each on one node, with as many ranks as possible on the first nodes.
    fn ranks_within(&self, free: &[At], nodes: &[usize], choice: &[Want], ranks: u32) -> Option<Picks> {
        let (mut left, mut picks, mut ranks) = (free.to_vec(), Picks::new(), ranks);
        for &node in nodes {
            while ranks > 0 {
                let mut of_rank = Picks::new();
                for (part, want) in choice.iter().enumerate() {
                    let there = left.iter().filter(|at| at.0 == node);
                    let of_class = there.filter(|at| self.nodes[at.0].devices[at.1].class == want.class);
                    of_rank.extend(of_class.take(want.least as usize).map(|&at| (part, at)));
                }
                if of_rank.len() < choice.iter().map(|want| want.least as usize).sum() {
                    break;
                }
                left.retain(|at| !of_rank.iter().any(|(_, taken)| taken == at));
                picks.extend(of_rank);
                ranks -= 1;
            }
        }
        (ranks == 0).then_some(picks)
    }
}
