//! Topics come and go: the controller's work, one change at a time, on core 0.
//!
//! A topic is *creating* in the metadata, then every owner has flushed its CREATE, then it is *created* and shown. The
//! way back is the same: *deleting*, every owner's DELETE, gone. A crash at any step is finished at the next start.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use rillway_log::{PartitionId, TopicId};
use rillway_meta::{Embedded, Image, Topic, TopicState};
use rillway_wire::TopicName;

use crate::config::TopicSettings;
use crate::error::{PartitionError, TopicError};
use crate::groups::OFFSETS_TOPIC;
use crate::shard::{CONTROLLER, Shard};
use crate::view::{Owner, View};

/// What a client asks for. Negative numbers: the broker's default.
#[derive(Clone, Debug, Default)]
pub struct NewTopic {
    pub name: String,
    pub partitions: i32,
    pub replication_factor: i16,
    /// Node ids per partition, if placed by hand; hosts have been told apart already.
    pub assigned_partitions: Option<u32>,
    pub configs: BTreeMap<String, String>,
}

/// A topic as it was created, or would be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreatedTopic {
    pub id: TopicId,
    pub partitions: u32,
    /// What was given.
    pub configs: BTreeMap<String, String>,
    pub settings: TopicSettings,
}

impl Shard {
    /// Creates a topic, or only checks whether it could be. When it returns, every core shows it.
    pub async fn create_topic(
        &self,
        new: NewTopic,
        validate_only: bool,
    ) -> Result<CreatedTopic, TopicError> {
        if self.core() == CONTROLLER {
            return self.create_here(new, validate_only).await;
        }
        let asked = move |shard: Shard| async move { shard.create_here(new, validate_only).await };
        self.inner.mesh.call(CONTROLLER, asked).await.unwrap_or_else(stopping)
    }

    /// Deletes a topic. When it returns, no core shows it and a new one may have its name.
    pub async fn delete_topic(&self, name: &str) -> Result<TopicId, TopicError> {
        let name = name.to_owned();
        if self.core() == CONTROLLER {
            return self.delete_here(name).await;
        }
        let asked = move |shard: Shard| async move { shard.delete_here(name).await };
        self.inner.mesh.call(CONTROLLER, asked).await.unwrap_or_else(stopping)
    }

    pub(crate) fn controller(&self) -> Rc<Embedded> {
        Rc::clone(self.inner.controller.borrow().as_ref().expect("core 0 is the controller"))
    }

    async fn create_here(
        &self,
        new: NewTopic,
        validate_only: bool,
    ) -> Result<CreatedTopic, TopicError> {
        let _turn = self.inner.topics.acquire(1).await;
        let meta = self.controller();
        let (partitions, settings) = self.check_new(&new, &meta.image())?;
        let mut topic = Topic {
            name: new.name.clone(),
            id: TopicId(self.random_topic_id()),
            partitions,
            state: TopicState::Creating,
            configs: new.configs.clone(),
            growing: None,
        };
        let created = CreatedTopic { id: topic.id, partitions, configs: new.configs, settings };
        if validate_only {
            return Ok(created);
        }
        meta.put(&topic, None).await?;
        let made = match self.make_partitions(&topic, partitions, settings).await {
            Ok(()) => {
                let creating = topic.clone();
                topic.state = TopicState::Created;
                meta.put(&topic, Some(&creating)).await.map_err(TopicError::from).map(|_| created)
            }
            Err(e) => {
                // Give back what was made, so that the name is free again.
                self.take_back(&meta, &topic).await;
                Err(e)
            }
        };
        self.publish(meta.image()).await;
        made
    }

    async fn take_back(&self, meta: &Embedded, topic: &Topic) {
        let undone = async {
            self.drop_partitions(topic, 0).await?;
            meta.remove(&topic.name, topic).await.map_err(TopicError::from)
        };
        if let Err(e) = undone.await {
            tracing::error!(
                topic = topic.name,
                "could not be taken back: {e}; the next start finishes it"
            );
        }
    }

    fn random_topic_id(&self) -> [u8; 16] {
        let mut id = self.inner.rt.random_bytes::<16>();
        // A version 4 UUID, as Kafka's topic ids are.
        id[6] = id[6] & 0x0f | 0x40;
        id[8] = id[8] & 0x3f | 0x80;
        id
    }

    fn check_new(&self, new: &NewTopic, image: &Image) -> Result<(u32, TopicSettings), TopicError> {
        if let Err(e) = TopicName::new(&new.name) {
            return Err(TopicError::InvalidName(e.to_string()));
        }
        if image.topics.contains_key(&new.name) {
            return Err(TopicError::Exists(new.name.clone()));
        }
        let flat = new.name.replace('.', "_");
        if let Some(other) = image.topics.keys().find(|other| other.replace('.', "_") == flat) {
            return Err(TopicError::Collides { name: new.name.clone(), other: other.clone() });
        }
        let options = &self.inner.options;
        let limit = options.partitions_per_topic_max;
        let partitions = match (new.assigned_partitions, new.partitions) {
            (Some(n), _) => n,
            (None, -1) => options.num_partitions,
            (None, n) => u32::try_from(n).ok().filter(|n| *n > 0).unwrap_or(0),
        };
        if partitions == 0 || partitions > limit {
            return Err(TopicError::InvalidPartitions { got: new.partitions, limit });
        }
        if new.assigned_partitions.is_none() && ![-1, 1].contains(&new.replication_factor) {
            return Err(TopicError::InvalidReplicationFactor { got: new.replication_factor });
        }
        Ok((partitions, self.check_configs(&new.configs)?))
    }

    /// Makes every partition of a topic below `end` that does not exist yet, each on a core that has the fewest
    /// of its topic, and of those the fewest in all.
    pub(crate) async fn make_partitions(
        &self,
        topic: &Topic,
        end: u32,
        settings: TopicSettings,
    ) -> Result<(), TopicError> {
        let mut counts = self.partitions_per_core().await?;
        let known = self.view();
        let mut of_topic = vec![0; counts.len()];
        for owner in known.owners().get(&topic.id).into_iter().flatten().flatten() {
            of_topic[owner.core] += 1;
        }
        for index in 0..end {
            let id = PartitionId { topic: topic.id, index };
            if known.owner(id).is_some() {
                continue;
            }
            // A topic is spread before the whole is: its partitions are what one load is shared over.
            let load = |core: &usize| (of_topic[*core], counts[*core]);
            let core = (0..counts.len()).min_by_key(load).expect("there is a core");
            counts[core] += 1;
            of_topic[core] += 1;
            let name = topic.name.clone();
            let made = move |shard: Shard| async move {
                let made = shard.inner.store.create(id, &name, settings.log).await;
                made.map(|_| ()).map_err(PartitionError::from)
            };
            self.on(core, made).await??;
        }
        Ok(())
    }

    async fn partitions_per_core(&self) -> Result<Vec<usize>, TopicError> {
        let mut counts = Vec::new();
        for core in 0..self.cores() {
            counts.push(
                self.on(core, |shard: Shard| async move { shard.inner.store.logs().len() }).await?,
            );
        }
        Ok(counts)
    }

    /// Deletes the partitions of a topic from number `from` on.
    pub(crate) async fn drop_partitions(&self, topic: &Topic, from: u32) -> Result<(), TopicError> {
        for core in 0..self.cores() {
            let id = topic.id;
            let dropped = move |shard: Shard| async move {
                let dropped =
                    |log: &Rc<rillway_log::Log>| log.id().topic == id && log.id().index >= from;
                for log in shard.inner.store.logs().into_iter().filter(dropped) {
                    shard.inner.store.delete(log.id()).await?;
                }
                Ok::<(), rillway_log::Error>(())
            };
            self.on(core, move |shard| async move {
                dropped(shard).await.map_err(PartitionError::from)
            })
            .await??;
        }
        Ok(())
    }

    async fn delete_here(&self, name: String) -> Result<TopicId, TopicError> {
        let _turn = self.inner.topics.acquire(1).await;
        let meta = self.controller();
        let Some(topic) = meta.image().topic(&name).cloned() else {
            return Err(TopicError::Unknown(name));
        };
        if name == OFFSETS_TOPIC {
            let why = format!(
                "{name} holds what groups have committed and cannot be deleted; delete the groups"
            );
            return Err(TopicError::InvalidRequest(why));
        }
        let deleting = Topic { state: TopicState::Deleting, ..Topic::clone(&topic) };
        meta.put(&deleting, Some(&topic)).await?;
        // Nobody is to find it while its partitions go.
        self.publish(meta.image()).await;
        self.drop_partitions(&deleting, 0).await?;
        meta.remove(&name, &deleting).await?;
        self.publish(meta.image()).await;
        for core in 0..self.cores() {
            let name = name.clone();
            // A core that is stopping: what was committed is not served for another topic of this name either.
            let _ =
                self.on(core, |shard: Shard| async move { shard.forget_topic(&name).await }).await;
        }
        Ok(topic.id)
    }

    /// Collects who owns what and swaps the view of every core.
    pub(crate) async fn publish(&self, image: Arc<Image>) {
        let mut owners: BTreeMap<TopicId, Vec<Option<Owner>>> = BTreeMap::new();
        for topic in image.topics.values() {
            let all = topic.partitions.max(topic.growing.unwrap_or(0));
            owners.insert(topic.id, vec![None; all as usize]);
        }
        for core in 0..self.cores() {
            let owned = self.on(core, |shard: Shard| async move {
                let logs = shard.inner.store.logs();
                logs.iter().map(|log| (log.id(), log.leader_epoch())).collect::<Vec<_>>()
            });
            // A core that is stopping: a view without its partitions would say that they do not exist.
            let Ok(owned) = owned.await else { return };
            for (id, leader_epoch) in owned {
                let slot = owners.get_mut(&id.topic).and_then(|t| t.get_mut(id.index as usize));
                if let Some(slot) = slot {
                    *slot = Some(Owner { core, leader_epoch });
                }
            }
        }
        let defaults = self.inner.options.defaults;
        let settings =
            image.topics.values().map(|t| (t.id, defaults.with_known(&t.configs).0)).collect();
        let view = Arc::new(View::new(image, owners, settings));
        for core in 0..self.cores() {
            let view = Arc::clone(&view);
            // A core that is stopping needs no view.
            let _ = self.on(core, move |shard: Shard| async move { shard.set_view(view) }).await;
        }
    }

    /// Runs `work` on a core, this one included.
    pub(crate) async fn on<T, F, Fut>(&self, core: usize, work: F) -> Result<T, TopicError>
    where
        T: Send + 'static,
        F: FnOnce(Shard) -> Fut + Send + 'static,
        Fut: Future<Output = T> + 'static,
    {
        if core == self.core() {
            return Ok(work(self.clone()).await);
        }
        self.inner
            .mesh
            .call(core, work)
            .await
            .ok_or_else(|| TopicError::Failed("the broker is stopping".to_owned()))
    }
}

pub(crate) fn stopping<T>() -> Result<T, TopicError> {
    Err(TopicError::Failed("the broker is stopping".to_owned()))
}
