//! Settings of consumer groups, all by Kafka's names.

use rillway_group::Options;
use rillway_shard::GroupSettings;

use super::Config;

impl Config {
    pub(super) fn groups(&self) -> Result<GroupSettings, String> {
        let int = |name| i32::try_from(self.get(name)).unwrap_or(i32::MAX);
        let options = Options {
            session_timeout_min_ms: int("group.min.session.timeout.ms"),
            session_timeout_max_ms: int("group.max.session.timeout.ms"),
            initial_rebalance_delay_ms: int("group.initial.rebalance.delay.ms"),
            size_max: self.size("group.max.size"),
            offset_metadata_max: self.size("offset.metadata.max.bytes"),
            offsets_retention_ms: self.get("offsets.retention.minutes").saturating_mul(60_000),
            ..Options::default()
        };
        if options.session_timeout_min_ms > options.session_timeout_max_ms {
            return Err(format!(
                "group.min.session.timeout.ms is {}, more than group.max.session.timeout.ms, which is {}",
                options.session_timeout_min_ms, options.session_timeout_max_ms
            ));
        }
        Ok(GroupSettings {
            options,
            offsets_partitions: self.size("offsets.topic.num.partitions") as u32,
            offsets_segment_bytes: self.get("offsets.topic.segment.bytes").unsigned_abs(),
            retention_check_interval: self.ms("offsets.retention.check.interval.ms"),
        })
    }
}
