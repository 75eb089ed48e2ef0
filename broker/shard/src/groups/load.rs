//! After a restart: what groups have committed, read from the log, and who was in them, from the metadata store.
//!
//! Runs beside everything else; requests to groups wait for it a moment and are told COORDINATOR_LOAD_IN_PROGRESS then.
//! A member that comes back within its session goes on where it was, without a rebalance.

use std::rc::Rc;
use std::time::Duration;

use rillway_group::record::{self, Key};
use rillway_io::Class;
use rillway_log::{Log, PartitionId};
use rillway_meta::Embedded;
use rillway_wire::batch::{batches, decompress, records};

use crate::error::CoordinatorError;
use crate::groups::OFFSETS_TOPIC;
use crate::groups::keep::GROUP_KEY;
use crate::shard::Shard;

/// How long a request waits for the loading before its client is told to come again.
const PATIENCE: Duration = Duration::from_secs(1);
/// Bytes that are read at once.
const READ_BYTES: usize = 1 << 20;
/// What one batch of ours may unpack to.
const BATCH_BYTES_MAX: usize = 64 << 20;

impl Shard {
    /// Begins to load, on every core. Runs on the controller, when it has shown what exists.
    pub(crate) async fn load_groups(&self, meta: &Embedded) {
        let mut kept: Vec<Vec<(String, Vec<u8>)>> = vec![Vec::new(); self.cores()];
        for (key, state) in meta.values(GROUP_KEY) {
            let group = key[GROUP_KEY.len()..].to_owned();
            match self.coordinator_of(&group) {
                Some((core, _)) => kept[core].push((group, state)),
                None => tracing::error!(group, "kept, and has no partition of {OFFSETS_TOPIC}"),
            }
        }
        for (core, kept) in kept.into_iter().enumerate() {
            // A core that is stopping loads nothing.
            let _ = self
                .on(core, move |shard: Shard| async move {
                    let loading = shard.clone().load_own_groups(kept);
                    let task = shard.runtime().spawn(Class::Data, loading);
                    shard.inner.tasks.borrow_mut().push(task);
                    shard.spawn_group_timers();
                })
                .await;
        }
    }

    async fn load_own_groups(self, kept: Vec<(String, Vec<u8>)>) {
        let started = self.runtime().now();
        let view = self.view();
        let mut read = 0;
        if let Some(topic) = view.topic(OFFSETS_TOPIC) {
            for index in 0..topic.partitions {
                let Some(log) = self.inner.store.log(PartitionId { topic: topic.id, index }) else {
                    continue;
                };
                match self.load_partition(&log).await {
                    Ok(records) => read += records,
                    // What cannot be read is said; groups that lost by it begin by their own rule, as after an expiry.
                    Err(what) => tracing::error!(partition = index, "{OFFSETS_TOPIC}: {what}"),
                }
            }
        }
        let groups = &self.inner.groups;
        let clock = self.group_clock();
        for (group, state) in &kept {
            if let Err(what) = groups.coordinator.borrow_mut().restore(clock, group, state) {
                tracing::error!(group, "its members have to join anew: {what}");
            }
        }
        groups.loaded.set(true);
        groups.became_loaded.notify_all();
        groups.timer.notify_all();
        if read > 0 || !kept.is_empty() {
            let took = self.runtime().now() - started;
            tracing::info!(
                core = self.core(),
                groups = kept.len(),
                records = read,
                ?took,
                "groups are loaded"
            );
        }
    }

    async fn load_partition(&self, log: &Rc<Log>) -> Result<u64, String> {
        let mut offset = log.log_start();
        let mut read = 0;
        while offset < log.flushed_end() {
            let fetched =
                log.read(offset, READ_BYTES, true, READ_BYTES).await.map_err(|e| e.to_string())?;
            let bytes: Vec<u8> = fetched.chunks.iter().flat_map(|c| c.iter().copied()).collect();
            if bytes.is_empty() {
                return Ok(read);
            }
            for batch in batches(&bytes) {
                let batch = batch.map_err(|e| format!("offset {offset}: {e}"))?;
                if !batch.check_crc() {
                    return Err(format!("offset {offset}: the CRC of the batch does not fit"));
                }
                let codec = batch.codec().map_err(|e| format!("offset {offset}: {e}"))?;
                let payload = decompress(codec, batch.records(), BATCH_BYTES_MAX)
                    .map_err(|e| format!("offset {offset}: {e}"))?;
                for record in records(&payload) {
                    let record = record.map_err(|e| format!("offset {offset}: {e}"))?;
                    let at = batch.base_offset() + i64::from(record.offset_delta);
                    self.load_record(at, record.key.unwrap_or_default(), record.value);
                    read += 1;
                }
                offset = batch.next_offset();
            }
            self.runtime().yield_now().await;
        }
        Ok(read)
    }

    fn load_record(&self, at: i64, key: &[u8], value: Option<&[u8]>) {
        let loaded = Key::decode(key).and_then(|key| match key {
            Key::Offset { group, partition } => {
                let committed = value.map(record::decode_offset).transpose()?;
                let mut coordinator = self.inner.groups.coordinator.borrow_mut();
                coordinator.offsets_mut().put(&group, partition, at, committed);
                Ok(())
            }
            // Kafka keeps members here too; ours are in the metadata store.
            Key::Group { .. } | Key::Unknown { .. } => Ok(()),
        });
        if let Err(what) = loaded {
            tracing::error!(offset = at, "{OFFSETS_TOPIC}: record skipped: {what}");
        }
    }

    /// Waits a moment for what was committed before this life.
    pub(super) async fn until_groups_are_loaded(&self) -> Result<(), CoordinatorError> {
        let groups = &self.inner.groups;
        if groups.loaded.get() {
            return Ok(());
        }
        let loaded = groups.became_loaded.notified();
        let _ = self.runtime().timeout(PATIENCE, loaded).await;
        if groups.loaded.get() { Ok(()) } else { Err(CoordinatorError::Loading) }
    }
}
