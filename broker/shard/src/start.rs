//! From a data directory to a shard that may serve: recovery on every core, then core 0 reads the metadata, finishes
//! what a crash left half done, and shows every core the same view.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use rillway_io::{Mailbox, Notify, Runtime, Semaphore};
use rillway_log::{Error, RingRef, Storage, StorageOptions, Store, StoreOptions, TopicId};
use rillway_meta::{Embedded, TopicState};

use crate::groups::Groups;
use crate::mesh::{Port, serve};
use crate::shard::{CONTROLLER, Inner, Shard, ShardOptions};
use crate::view::View;

/// Everything that a core needs to start.
pub struct Start {
    pub port: Port,
    pub storage: StorageOptions,
    pub store: StoreOptions,
    pub options: ShardOptions,
    /// Core 0 opens the directory and hands the rings out here, one mailbox for each core; the others wait.
    pub rings: Vec<Mailbox<Result<RingRef, String>>>,
    pub ring: rillway_io::Inbox<Result<RingRef, String>>,
}

/// A started core. Core 0 holds the directory's lock.
pub async fn start(rt: &Runtime, start: Start) -> Result<(Shard, Option<Storage>), Error> {
    let core = rt.core();
    let Start { port, storage: storage_options, store: store_options, options, rings, mut ring } =
        start;
    let storage = if core == CONTROLLER {
        Some(hand_out(rt, &storage_options, &store_options, &rings).await?)
    } else {
        None
    };
    drop(rings);
    let reference = match ring.recv().await {
        Some(Ok(reference)) => reference,
        Some(Err(what)) => return Err(Error::Partition { partition: "all".to_owned(), what }),
        None => return Err(Error::Closed),
    };
    let store = Store::open(rt, &reference, &store_options).await?;
    let shard = Shard {
        inner: Rc::new(Inner {
            rt: rt.clone(),
            core,
            mesh: port.mesh.clone(),
            options,
            store,
            view: RefCell::new(Arc::new(View::default())),
            ready: Cell::new(false),
            became_ready: Notify::new(),
            quiet: Cell::new(0),
            became_quiet: Notify::new(),
            controller: RefCell::new(None),
            topics: Semaphore::new(1),
            groups: Groups::new(&options.groups),
            producer_ids: Cell::new((0, 0)),
            producer_ids_turn: Semaphore::new(1),
            stopping: Cell::new(false),
            stop_waits: rillway_io::Notify::new(),
            retention_due: Notify::new(),
            tasks: RefCell::new(Vec::new()),
        }),
    };
    let served = rt.spawn(rillway_io::Class::Data, serve(shard.clone(), port.inbox));
    shard.inner.tasks.borrow_mut().push(served);
    if core == CONTROLLER {
        shard.open_metadata().await?;
    }
    shard.until_ready().await;
    shard.spawn_retention();
    shard.spawn_cleaner();
    Ok((shard, storage))
}

async fn hand_out(
    rt: &Runtime,
    options: &StorageOptions,
    store: &StoreOptions,
    rings: &[Mailbox<Result<RingRef, String>>],
) -> Result<Storage, Error> {
    let opened = match Storage::open(rt, options, store).await {
        Ok(storage) if storage.rings().len() == options.rings => Ok(storage),
        Ok(storage) => Err(Error::Config {
            what: "--cores",
            got: format!("{} cores, and no room on the disk to go there", options.rings),
            expected: format!("{} cores, as last time, until there is room", storage.rings().len()),
        }),
        Err(e) => Err(e),
    };
    for (core, mailbox) in rings.iter().enumerate() {
        let ring = match &opened {
            Ok(storage) => Ok(storage.rings()[core].clone()),
            Err(e) => Err(e.to_string()),
        };
        // A core that is gone has said why.
        let _ = mailbox.send(ring).await;
    }
    opened
}

impl Shard {
    async fn open_metadata(&self) -> Result<(), Error> {
        let failed = |e: &dyn std::fmt::Display| Error::Partition {
            partition: "metadata".to_owned(),
            what: e.to_string(),
        };
        let meta =
            Embedded::open(&self.inner.rt, &self.inner.store).await.map_err(|e| failed(&e))?;
        let meta = Rc::new(meta);
        *self.inner.controller.borrow_mut() = Some(Rc::clone(&meta));
        self.publish(meta.image()).await;
        for topic in meta.image().topics.values().cloned().collect::<Vec<_>>() {
            let (settings, wrong) = self.inner.options.defaults.with_known(&topic.configs);
            if let Some(what) = wrong {
                tracing::error!(
                    topic = topic.name,
                    "{what}; its other settings and the defaults are used"
                );
            }
            match topic.state {
                TopicState::Created => {
                    self.finish_growth(&topic, settings).await.map_err(|e| failed(&e))?;
                }
                TopicState::Creating => {
                    self.make_partitions(&topic, topic.partitions, settings)
                        .await
                        .map_err(|e| failed(&e))?;
                    let created =
                        rillway_meta::Topic { state: TopicState::Created, ..(*topic).clone() };
                    meta.put(&created, Some(&topic)).await.map_err(|e| failed(&e))?;
                }
                TopicState::Deleting => {
                    self.drop_partitions(&topic, 0).await.map_err(|e| failed(&e))?;
                    meta.remove(&topic.name, &topic).await.map_err(|e| failed(&e))?;
                }
            }
            self.configure(topic.id, settings).await;
        }
        self.publish(meta.image()).await;
        self.report_differences(&meta).await;
        self.load_groups(&meta).await;
        for core in 0..self.cores() {
            let _ = self.on(core, |shard: Shard| async move { shard.set_ready() }).await;
        }
        Ok(())
    }

    /// Gives every log of a topic its settings.
    pub(crate) async fn configure(&self, topic: TopicId, settings: crate::config::TopicSettings) {
        for core in 0..self.cores() {
            let configured = self.on(core, move |shard: Shard| async move {
                for log in
                    shard.inner.store.logs().into_iter().filter(|log| log.id().topic == topic)
                {
                    log.configure(settings.log);
                }
            });
            let _ = configured.await;
        }
    }

    /// What metadata and rings do not agree on is said, and nothing is deleted for it (storage.md section 3).
    async fn report_differences(&self, meta: &Embedded) {
        let view = self.view();
        let image = meta.image();
        for topic in image.created() {
            let owners = view.owners().get(&topic.id);
            for index in 0..topic.partitions as usize {
                if owners.and_then(|o| o.get(index)).is_none_or(Option::is_none) {
                    tracing::error!(
                        topic = topic.name,
                        partition = index,
                        "refused: the metadata has it and no ring does. Its files are kept"
                    );
                }
            }
        }
        for core in 0..self.cores() {
            let known = Arc::clone(&image);
            let strays = self.on(core, move |shard: Shard| async move {
                let logs = shard.inner.store.logs();
                let stray = |log: &&Rc<rillway_log::Log>| {
                    log.id().topic != TopicId::METADATA
                        && known.topic_by_id(log.id().topic).is_none()
                };
                logs.iter()
                    .filter(stray)
                    .map(|log| format!("{}-{}", log.topic(), log.id().index))
                    .collect::<Vec<_>>()
            });
            for stray in strays.await.unwrap_or_default() {
                tracing::warn!(partition = stray, "kept: a ring has it and the metadata does not");
            }
        }
    }
}
