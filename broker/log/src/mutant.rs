//! Mutants: builds with the feature `mutants` can break one rule of storage.md or of groups each, so that the simulator
//! and the power-cut test can show that they would notice. Without the feature every question is a constant `false`.

/// The rules that can be broken. Names on the command line are in kebab case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// An append is acknowledged before its frame is written.
    AckBeforeFlush,
    /// A destage round ends with a flush of the ring instead of a `syncfs`.
    RingFlushTrustedForSegments,
    /// A checkpoint counts destaged blocks, and the ring region is released, before `syncfs` returned.
    RegionReleasedBeforeSyncfs,
    /// Recovery counts what it destaged without a `syncfs`.
    RecoveryWithoutSyncfs,
    /// A duplicate batch is answered when it is recognised, not when its original is flushed.
    DuplicateAcknowledgedEarly,
    /// A REPLACE names new segments before a `syncfs` has made them durable.
    ReplaceBeforeSyncfs,
    /// Compaction unlinks old segments before the REPLACE is flushed.
    OldFilesGoneBeforeReplace,
    /// A commit of offsets is answered, and shown, before its batch is flushed.
    CommitAnsweredEarly,
    /// Members, generation and assignment of a group are not kept, and said to be.
    GroupNotKept,
    /// A group's generation and assignment are told before they are kept.
    GroupToldEarly,
    /// Commits of old generations are taken.
    OldGenerationCommits,
}

impl Mutant {
    pub const ALL: [(&'static str, Mutant); 11] = [
        ("ack-before-flush", Mutant::AckBeforeFlush),
        ("ring-flush-trusted-for-segments", Mutant::RingFlushTrustedForSegments),
        ("region-released-before-syncfs", Mutant::RegionReleasedBeforeSyncfs),
        ("recovery-without-syncfs", Mutant::RecoveryWithoutSyncfs),
        ("duplicate-acknowledged-early", Mutant::DuplicateAcknowledgedEarly),
        ("replace-before-syncfs", Mutant::ReplaceBeforeSyncfs),
        ("old-files-gone-before-replace", Mutant::OldFilesGoneBeforeReplace),
        ("commit-answered-early", Mutant::CommitAnsweredEarly),
        ("group-not-kept", Mutant::GroupNotKept),
        ("group-told-early", Mutant::GroupToldEarly),
        ("old-generation-commits", Mutant::OldGenerationCommits),
    ];

    pub fn by_name(name: &str) -> Option<Mutant> {
        Self::ALL.iter().find(|(n, _)| *n == name).map(|(_, m)| *m)
    }
}

/// Which mutant a store runs, if any.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Active(
    #[cfg_attr(not(feature = "mutants"), allow(dead_code))] pub Option<Mutant>,
);

impl Active {
    #[cfg(feature = "mutants")]
    pub(crate) fn is(self, m: Mutant) -> bool {
        self.0 == Some(m)
    }

    #[cfg(not(feature = "mutants"))]
    pub(crate) const fn is(self, _: Mutant) -> bool {
        false
    }
}
