//! What the runs reached. A kind that a long run never reached is a hole in the simulator, and fails the run.

use rillway_log::StoreCounters;

/// Sums over lives and seeds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Coverage {
    pub store: StoreCounters,
    pub operations: u64,
    pub acknowledged: u64,
    pub kills: u64,
    pub power_cuts: u64,
    pub clean_stops: u64,
    pub recovery_crashes: u64,
    pub core_changes: u64,
    pub eio_deaths: u64,
    pub recovered_twice: u64,
    pub deletes: u64,
    pub recreations: u64,
    pub retries: u64,
    pub disk_full_answers: u64,
    pub full_starts: u64,
    pub offset_commits: u64,
    pub offsets_expired: u64,
    pub rebalances: u64,
    pub assignments: u64,
    pub fenced_commits: u64,
    pub members_after_restart: u64,
    pub groups_not_available: u64,
}

impl Coverage {
    pub(crate) fn add(&mut self, other: &Coverage) {
        self.store.add(&other.store);
        self.operations += other.operations;
        self.acknowledged += other.acknowledged;
        self.kills += other.kills;
        self.power_cuts += other.power_cuts;
        self.clean_stops += other.clean_stops;
        self.recovery_crashes += other.recovery_crashes;
        self.core_changes += other.core_changes;
        self.eio_deaths += other.eio_deaths;
        self.recovered_twice += other.recovered_twice;
        self.deletes += other.deletes;
        self.recreations += other.recreations;
        self.retries += other.retries;
        self.disk_full_answers += other.disk_full_answers;
        self.full_starts += other.full_starts;
        self.offset_commits += other.offset_commits;
        self.offsets_expired += other.offsets_expired;
        self.rebalances += other.rebalances;
        self.assignments += other.assignments;
        self.fenced_commits += other.fenced_commits;
        self.members_after_restart += other.members_after_restart;
        self.groups_not_available += other.groups_not_available;
    }

    pub(crate) fn crashes(&self) -> u64 {
        self.kills + self.power_cuts + self.eio_deaths
    }

    /// Every kind, with its count.
    pub(crate) fn kinds(&self) -> Vec<(&'static str, u64)> {
        let s = &self.store;
        vec![
            ("operations", self.operations),
            ("batches acknowledged", self.acknowledged),
            ("commits", s.commits),
            ("mark frames", s.marks),
            ("extents", s.extents),
            ("ring laps", s.laps),
            ("destage rounds", s.destages),
            ("checkpoints", s.checkpoints),
            ("rolls", s.rolls),
            ("seals", s.seals),
            ("interrupted seals", s.interrupted_seals),
            ("frames replayed", s.replayed_frames),
            ("torn frames dropped", s.torn_frames),
            ("deletes", self.deletes),
            ("recreations", self.recreations),
            ("retention deletes", s.retention_deletes),
            ("cleanings", s.cleanings),
            ("segments replaced", s.segments_replaced),
            ("interrupted cleanings", s.interrupted_cleanings),
            ("core changes", self.core_changes),
            ("kills", self.kills),
            ("power cuts", self.power_cuts),
            ("crashes in recovery", self.recovery_crashes),
            ("clean stops", self.clean_stops),
            ("EIO deaths", self.eio_deaths),
            ("recovered twice", self.recovered_twice),
            ("disk full", s.no_space),
            ("disk full, answered", self.disk_full_answers),
            ("starts on a full disk", self.full_starts),
            ("retries", self.retries),
            ("duplicates answered", s.duplicates),
            ("backpressure waits", s.backpressure_waits),
            ("offsets committed", self.offset_commits),
            ("offsets expired", self.offsets_expired),
            ("rebalances", self.rebalances),
            ("assignments", self.assignments),
            ("fenced commits", self.fenced_commits),
            ("members that outlived a restart", self.members_after_restart),
            ("groups not available", self.groups_not_available),
        ]
    }

    pub(crate) fn missing(&self) -> Vec<&'static str> {
        self.kinds().into_iter().filter(|(_, n)| *n == 0).map(|(kind, _)| kind).collect()
    }
}
