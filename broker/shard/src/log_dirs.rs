//! DescribeLogDirs: what a node's partitions take on the disk, and what the disk has.

use rillway_log::TopicId;

use crate::error::TopicError;
use crate::shard::Shard;

/// A partition on the disk.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PartitionSize {
    pub topic: String,
    pub index: i32,
    /// Bytes of its segments, flushed.
    pub bytes: u64,
}

/// The volume of the data directory; all cores of a host share it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Volume {
    /// The data directory's absolute path.
    pub dir: String,
    /// Bytes in all and those that may still be taken, if the system tells.
    pub space: Option<(u64, u64)>,
}

impl Shard {
    /// The volume that this node writes to.
    pub async fn volume(&self) -> Volume {
        let dir = self.inner.store.dir();
        let shown = std::path::absolute(dir).unwrap_or_else(|_| dir.to_owned());
        let space = match self.inner.rt.disk().stat_fs(dir).await {
            Ok(stat) => Some((stat.total, stat.available)),
            Err(e) => {
                tracing::warn!("the room on the disk is not known: {e}");
                None
            }
        };
        Volume { dir: shown.display().to_string(), space }
    }

    /// The partitions of a core that topics have, by topic and number.
    pub async fn partition_sizes(&self, core: usize) -> Result<Vec<PartitionSize>, TopicError> {
        let sizes = self.on(core, |shard: Shard| async move {
            let logs = shard.inner.store.logs();
            let shown = logs.iter().filter(|log| log.id().topic != TopicId::METADATA);
            shown
                .map(|log| PartitionSize {
                    topic: log.topic().to_owned(),
                    index: i32::try_from(log.id().index).unwrap_or(i32::MAX),
                    bytes: log.size(),
                })
                .collect::<Vec<_>>()
        });
        let mut sizes = sizes.await?;
        sizes.sort_unstable();
        Ok(sizes)
    }
}
