//! The embedded store: an internal partition of the log, one record per change, and a snapshot beside its segments.
//!
//! Lives on the core that leads the metadata log. One change of a topic at a time; a change is published when it is
//! durable. Values, of which there may be many at once, share a batch: what gathers while one is written is the next.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

use rillway_io::{Disk, Runtime, Semaphore, reply};
use rillway_log::{Log, LogConfig, PartitionId, Store, TopicId};
use rillway_wire::batch::{BatchBuilder, Codec, batches, decompress, records};

use crate::error::{Error, Result};
use crate::image::{Image, Topic};
use crate::snapshot;

/// Its directory's name; not a topic that clients see.
pub const METADATA_TOPIC: &str = "__rillway_metadata";
/// Records after which a snapshot is written and the log before it dropped.
const SNAPSHOT_EVERY: i64 = 1_000;
const READ_BYTES: usize = 1 << 20;
const SNAPSHOT_BYTES_MAX: usize = 256 << 20;

/// The store of a node that is alone.
pub struct Embedded {
    rt: Runtime,
    log: Rc<Log>,
    path: PathBuf,
    image: RefCell<Arc<Image>>,
    values: RefCell<Values>,
    /// Values that wait for their turn.
    waiting: RefCell<Vec<Waiting>>,
    snapshot_at: RefCell<i64>,
    turn: Semaphore,
}

/// Values by key.
pub(crate) type Values = BTreeMap<String, Vec<u8>>;

struct Waiting {
    key: String,
    value: Option<Vec<u8>>,
    done: rillway_io::ReplySender<std::result::Result<(), String>>,
}

/// What keys of values begin with: no topic's name has it.
pub const VALUE_PREFIX: char = '/';
/// Bytes of values that share a batch, unless one alone is larger.
const VALUES_TOGETHER: usize = 256 << 10;

impl Embedded {
    /// Opens the metadata log in `store`, or creates it, and reads what it says.
    pub async fn open(rt: &Runtime, store: &Store) -> Result<Embedded> {
        let id = PartitionId { topic: TopicId::METADATA, index: 0 };
        let config = LogConfig { retention_ms: -1, segment_bytes: 64 << 20, ..Default::default() };
        let log = store.create(id, METADATA_TOPIC, config).await?;
        let path = log.directory().join("snapshot");
        let (image, values) = read_snapshot(&rt.disk(), &path).await?.unwrap_or_default();
        let embedded = Embedded {
            rt: rt.clone(),
            log,
            path,
            snapshot_at: RefCell::new(image.version),
            image: RefCell::new(Arc::new(image)),
            values: RefCell::new(values),
            waiting: RefCell::new(Vec::new()),
            turn: Semaphore::new(1),
        };
        embedded.replay().await?;
        Ok(embedded)
    }

    /// The image as of the last durable change.
    pub fn image(&self) -> Arc<Image> {
        Arc::clone(&self.image.borrow())
    }

    /// Puts a topic, if it is still what `expected` says (`None`: absent). Durable when it returns.
    pub async fn put(&self, topic: &Topic, expected: Option<&Topic>) -> Result<Arc<Image>> {
        self.change(&topic.name, Some(topic), expected).await
    }

    /// Removes a topic, if it is still what `expected` says.
    pub async fn remove(&self, name: &str, expected: &Topic) -> Result<Arc<Image>> {
        self.change(name, None, Some(expected)).await
    }

    /// Values whose keys begin so, as of the last durable change.
    pub fn values(&self, prefix: &str) -> Vec<(String, Vec<u8>)> {
        let values = self.values.borrow();
        let from = values.range(prefix.to_owned()..);
        from.take_while(|(key, _)| key.starts_with(prefix))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect()
    }

    /// Puts a value, or removes it. Durable when it returns. Two changes of one key at once take place in any order:
    /// whoever owns a key changes it one by one.
    ///
    /// # Panics
    /// If the key could be a topic's name.
    pub async fn put_value(&self, key: &str, value: Option<&[u8]>) -> Result<()> {
        assert!(key.starts_with(VALUE_PREFIX), "a key of a value: {key}");
        let (answer, done) = reply();
        let waiting =
            Waiting { key: key.to_owned(), value: value.map(<[u8]>::to_vec), done: answer };
        self.waiting.borrow_mut().push(waiting);
        let _turn = self.turn.acquire(1).await;
        // Whoever had the turn before may have written this value too.
        self.write_waiting().await?;
        match done.await {
            Some(Ok(())) => Ok(()),
            Some(Err(what)) => Err(Error::Value { key: key.to_owned(), what }),
            // Whoever wrote it was cut off on the way: the node is stopping.
            None => {
                Err(Error::Value { key: key.to_owned(), what: "the broker is stopping".to_owned() })
            }
        }
    }

    async fn write_waiting(&self) -> Result<()> {
        loop {
            let together = self.take_waiting();
            if together.is_empty() {
                return Ok(());
            }
            let records = together.iter().map(|w| (w.key.as_str(), w.value.as_deref()));
            let written = self.append(records).await;
            let told = written.as_ref().map(|_| ()).map_err(ToString::to_string);
            if let Ok(first) = written {
                let mut values = self.values.borrow_mut();
                let mut image = Image::clone(&self.image());
                for (offset, waiting) in (first..).zip(&together) {
                    match &waiting.value {
                        Some(value) => values.insert(waiting.key.clone(), value.clone()),
                        None => values.remove(&waiting.key),
                    };
                    image.version = offset + 1;
                }
                *self.image.borrow_mut() = Arc::new(image);
            }
            for waiting in together {
                waiting.done.send(told.clone());
            }
            self.snapshot_if_due().await?;
        }
    }

    fn take_waiting(&self) -> Vec<Waiting> {
        let mut waiting = self.waiting.borrow_mut();
        let mut bytes = 0;
        let room = |w: &Waiting| {
            bytes += w.key.len() + w.value.as_ref().map_or(0, Vec::len);
            bytes <= VALUES_TOGETHER
        };
        let fit = waiting.iter().map(room).take_while(|fits| *fits).count();
        let count = fit.max(1).min(waiting.len());
        waiting.drain(..count).collect()
    }

    async fn change(
        &self,
        name: &str,
        topic: Option<&Topic>,
        expected: Option<&Topic>,
    ) -> Result<Arc<Image>> {
        let _turn = self.turn.acquire(1).await;
        let known = self.image().topics.get(name).cloned();
        if known.as_deref() != expected {
            let version = u64::try_from(self.image().version).unwrap_or(0);
            return Err(Error::Conflict { key: name.to_owned(), got: version, expected: version });
        }
        let value = topic.map(|t| serde_json::to_vec(t).expect("a topic is plain data"));
        let offset = self.append([(name, value.as_deref())].into_iter()).await?;
        let mut image = Image::clone(&self.image());
        apply(
            &mut image,
            &mut self.values.borrow_mut(),
            offset,
            name.as_bytes(),
            value.as_deref(),
        )?;
        *self.image.borrow_mut() = Arc::new(image);
        self.snapshot_if_due().await?;
        Ok(self.image())
    }

    /// One batch; its first offset, when it is durable.
    async fn append<'a>(
        &self,
        records: impl Iterator<Item = (&'a str, Option<&'a [u8]>)>,
    ) -> Result<i64> {
        let mut builder = BatchBuilder::new(Codec::None);
        for (key, value) in records {
            builder.push(self.rt.wall_ms(), Some(key.as_bytes()), value, &[]);
        }
        let batch =
            builder.build().map_err(|e| Error::Corrupt { offset: -1, what: e.to_string() })?;
        let appended = self.log.append_as_leader(&batch).await?;
        let offset = appended.base_offset;
        appended.receipt.wait().await?;
        Ok(offset)
    }

    async fn snapshot_if_due(&self) -> Result<()> {
        let version = self.image.borrow().version;
        if version - *self.snapshot_at.borrow() > SNAPSHOT_EVERY {
            self.write_snapshot().await?;
        }
        Ok(())
    }

    async fn write_snapshot(&self) -> Result<()> {
        let image = self.image();
        let disk = self.rt.disk();
        let temporary = self.path.with_extension("tmp");
        let replaced = async {
            let bytes = snapshot::encode(&image, &self.values.borrow());
            disk.write_file(&temporary, &bytes).await?;
            disk.rename(&temporary, &self.path).await?;
            disk.sync_dir(self.log.directory()).await
        };
        match replaced.await {
            Ok(()) => {}
            // The log has it all; the next change tries again.
            Err(e) if e.is_no_space() => {
                tracing::warn!("no room for a metadata snapshot: {e}");
                return Ok(());
            }
            Err(e) => self.rt.fatal(&format!("a flush of the metadata snapshot failed: {e}")),
        }
        *self.snapshot_at.borrow_mut() = image.version;
        self.log.drop_before(image.version).await?;
        Ok(())
    }

    async fn replay(&self) -> Result<()> {
        let mut image = Image::clone(&self.image());
        let mut offset = image.version.max(self.log.log_start());
        if image.version < self.log.log_start() {
            let what = format!(
                "the log starts at {}, the snapshot ends at {}",
                self.log.log_start(),
                image.version
            );
            return Err(Error::Corrupt { offset, what });
        }
        while offset < self.log.flushed_end() {
            let fetched = self.log.read(offset, READ_BYTES, true, READ_BYTES).await?;
            let bytes: Vec<u8> = fetched.chunks.iter().flat_map(|c| c.iter().copied()).collect();
            for batch in batches(&bytes) {
                let bad = |e: rillway_wire::batch::BatchError| Error::Corrupt {
                    offset,
                    what: e.to_string(),
                };
                let batch = batch.map_err(bad)?;
                if !batch.check_crc() {
                    return Err(Error::Corrupt {
                        offset,
                        what: "the CRC of the batch does not fit".to_owned(),
                    });
                }
                let codec = batch.codec().map_err(bad)?;
                let payload =
                    decompress(codec, batch.records(), SNAPSHOT_BYTES_MAX).map_err(bad)?;
                for record in records(&payload) {
                    let record = record.map_err(bad)?;
                    let at = batch.base_offset() + i64::from(record.offset_delta);
                    if at >= image.version {
                        let key = record.key.unwrap_or_default();
                        apply(&mut image, &mut self.values.borrow_mut(), at, key, record.value)?;
                    }
                }
                offset = batch.next_offset();
            }
        }
        *self.image.borrow_mut() = Arc::new(image);
        Ok(())
    }
}

fn apply(
    image: &mut Image,
    values: &mut Values,
    offset: i64,
    key: &[u8],
    value: Option<&[u8]>,
) -> Result<()> {
    let corrupt = |what: String| Error::Corrupt { offset, what };
    let name = std::str::from_utf8(key).map_err(|e| corrupt(e.to_string()))?;
    image.version = offset + 1;
    if name.starts_with(VALUE_PREFIX) {
        match value {
            Some(value) => values.insert(name.to_owned(), value.to_vec()),
            None => values.remove(name),
        };
        return Ok(());
    }
    match value {
        Some(json) => {
            let topic: Topic = serde_json::from_slice(json).map_err(|e| corrupt(e.to_string()))?;
            image.topics.insert(name.to_owned(), Arc::new(topic));
        }
        None => {
            image.topics.remove(name);
        }
    }
    Ok(())
}

async fn read_snapshot(disk: &Disk, path: &std::path::Path) -> Result<Option<(Image, Values)>> {
    match disk.read_file(path, SNAPSHOT_BYTES_MAX).await {
        Ok(bytes) => snapshot::decode(path, &bytes).map(Some),
        Err(e) if e.is_not_found() => Ok(None),
        Err(e) => Err(Error::Log(e.into())),
    }
}
