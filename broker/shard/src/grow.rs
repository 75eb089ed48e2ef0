//! More partitions for a topic that exists (KIP-195).
//!
//! The topic is *growing* in the metadata, then every owner has flushed its CREATE, then the new number is there and
//! shown. A crash on the way is finished at the next start; a failure is taken back.

use rillway_meta::{Embedded, Topic};

use crate::config::TopicSettings;
use crate::error::TopicError;
use crate::groups::OFFSETS_TOPIC;
use crate::shard::{CONTROLLER, Shard};
use crate::topics::stopping;

/// What a client asks for.
#[derive(Clone, Debug)]
pub struct Growth {
    pub name: String,
    /// Partitions in all.
    pub count: i32,
    /// How many new partitions were placed by hand, if they were; hosts have been told apart already.
    pub assigned: Option<usize>,
}

impl Shard {
    /// Adds partitions, or only checks whether they could be. When it returns, every core shows and serves them.
    pub async fn grow_topic(&self, growth: Growth, validate_only: bool) -> Result<(), TopicError> {
        if self.core() == CONTROLLER {
            return self.grow_here(growth, validate_only).await;
        }
        let asked = move |shard: Shard| async move { shard.grow_here(growth, validate_only).await };
        self.inner.mesh.call(CONTROLLER, asked).await.unwrap_or_else(stopping)
    }

    async fn grow_here(&self, growth: Growth, validate_only: bool) -> Result<(), TopicError> {
        let _turn = self.inner.topics.acquire(1).await;
        let meta = self.controller();
        let Some(topic) = meta.image().topic(&growth.name).cloned() else {
            return Err(TopicError::Unknown(growth.name));
        };
        let count = check(&topic, &growth, self.inner.options.partitions_per_topic_max)?;
        if validate_only {
            return Ok(());
        }
        let growing = Topic { growing: Some(count), ..Topic::clone(&topic) };
        meta.put(&growing, Some(&topic)).await?;
        let settings = self.view().settings(topic.id);
        let grown = self.finish_growth(&growing, settings).await;
        if grown.is_err() {
            self.take_growth_back(&meta, &growing, &topic).await;
        }
        self.publish(meta.image()).await;
        grown
    }

    /// Makes the partitions of a topic that is growing, and shows them.
    pub(crate) async fn finish_growth(
        &self,
        growing: &Topic,
        settings: TopicSettings,
    ) -> Result<(), TopicError> {
        let Some(count) = growing.growing else { return Ok(()) };
        self.make_partitions(growing, count, settings).await?;
        let grown = Topic { partitions: count, growing: None, ..growing.clone() };
        self.controller().put(&grown, Some(growing)).await?;
        Ok(())
    }

    async fn take_growth_back(&self, meta: &Embedded, growing: &Topic, before: &Topic) {
        let undone = async {
            self.drop_partitions(growing, growing.partitions).await?;
            meta.put(before, Some(growing)).await.map_err(TopicError::from)
        };
        if let Err(e) = undone.await {
            tracing::error!(
                topic = growing.name,
                "new partitions could not be taken back: {e}; the next start finishes them"
            );
        }
    }
}

fn check(topic: &Topic, growth: &Growth, limit: u32) -> Result<u32, TopicError> {
    if topic.name == OFFSETS_TOPIC {
        // A group's partition follows from their number: groups would not find what they have committed.
        let why = format!("The number of partitions of {OFFSETS_TOPIC} cannot change.");
        return Err(TopicError::CannotGrow(why));
    }
    let now = topic.partitions;
    let count = match u32::try_from(growth.count) {
        Ok(count) if count > now && count <= limit => count,
        Ok(count) if count == now => {
            let why = format!("Topic already has {now} partitions.");
            return Err(TopicError::CannotGrow(why));
        }
        Ok(count) if count > limit => {
            let why = format!("{count} partitions were asked for, a topic may have {limit}.");
            return Err(TopicError::CannotGrow(why));
        }
        Ok(_) | Err(_) => {
            let why = format!(
                "Topic currently has {now} partitions, which is higher than the requested {}.",
                growth.count
            );
            return Err(TopicError::CannotGrow(why));
        }
    };
    if topic.growing.is_some() {
        let why = "the topic is growing; restart the broker to finish it".to_owned();
        return Err(TopicError::Failed(why));
    }
    let added = (count - now) as usize;
    match growth.assigned {
        Some(assigned) if assigned != added => Err(TopicError::InvalidAssignment(format!(
            "Increasing the number of partitions by {added} but {assigned} assignments provided."
        ))),
        Some(_) | None => Ok(count),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rillway_log::TopicId;
    use rillway_meta::TopicState;

    fn asked(count: i32, assigned: Option<usize>) -> Result<u32, TopicError> {
        let topic = Topic {
            name: "t".to_owned(),
            id: TopicId([1; 16]),
            partitions: 3,
            state: TopicState::Created,
            configs: Default::default(),
            growing: None,
        };
        check(&topic, &Growth { name: "t".to_owned(), count, assigned }, 10)
    }

    #[test]
    fn a_topic_only_grows_and_not_beyond_the_limit() {
        assert_eq!(asked(4, None), Ok(4));
        for count in [-1, 0, 2, 3, 11, i32::MAX, i32::MIN] {
            assert!(matches!(asked(count, None), Err(TopicError::CannotGrow(_))), "{count}");
        }
    }

    #[test]
    fn assignments_are_as_many_as_new_partitions() {
        assert_eq!(asked(5, Some(2)), Ok(5));
        assert!(matches!(asked(5, Some(1)), Err(TopicError::InvalidAssignment(_))));
    }
}
