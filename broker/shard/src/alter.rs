//! Settings of a topic that exists: changed in the metadata first, then on every core that owns a partition of it, then
//! shown. When it returns, the next request is served by the new ones, and so is the next life.

use std::collections::BTreeMap;

use rillway_meta::Topic;

use crate::config::{TopicAlteration, TopicSettings};
use crate::error::TopicError;
use crate::shard::{CONTROLLER, Shard};
use crate::topics::stopping;

impl Shard {
    /// Changes a topic's settings, or only checks whether it could be done. All changes, or none.
    pub async fn alter_topic(
        &self,
        name: &str,
        alteration: TopicAlteration,
        validate_only: bool,
    ) -> Result<(), TopicError> {
        let name = name.to_owned();
        if self.core() == CONTROLLER {
            return self.alter_here(name, alteration, validate_only).await;
        }
        let asked = move |shard: Shard| async move {
            shard.alter_here(name, alteration, validate_only).await
        };
        self.inner.mesh.call(CONTROLLER, asked).await.unwrap_or_else(stopping)
    }

    async fn alter_here(
        &self,
        name: String,
        alteration: TopicAlteration,
        validate_only: bool,
    ) -> Result<(), TopicError> {
        let _turn = self.inner.topics.acquire(1).await;
        let meta = self.controller();
        let Some(topic) = meta.image().topic(&name).cloned() else {
            return Err(TopicError::Unknown(name));
        };
        let configs = alteration
            .apply(&topic.configs, &self.inner.options.defaults)
            .map_err(TopicError::InvalidConfig)?;
        let settings = self.check_configs(&configs)?;
        if validate_only || configs == topic.configs {
            return Ok(());
        }
        let altered = Topic { configs, ..Topic::clone(&topic) };
        meta.put(&altered, Some(&topic)).await?;
        self.configure(topic.id, settings).await;
        self.publish(meta.image()).await;
        for core in 0..self.cores() {
            let look = |shard: Shard| async move { shard.inner.retention_due.notify_all() };
            // A core that is stopping has no retention to look at.
            let _ = self.on(core, look).await;
        }
        Ok(())
    }

    /// Effective settings, if all that is given can be kept.
    pub(crate) fn check_configs(
        &self,
        configs: &BTreeMap<String, String>,
    ) -> Result<TopicSettings, TopicError> {
        let settings =
            self.inner.options.defaults.with(configs).map_err(TopicError::InvalidConfig)?;
        let largest = self.inner.store.batch_bytes_max();
        if configs.contains_key("max.message.bytes") && settings.log.max_message_bytes > largest {
            return Err(TopicError::InvalidConfig(format!(
                "Invalid value {} for configuration max.message.bytes: the broker's rings take batches of at most {largest} bytes",
                settings.log.max_message_bytes
            )));
        }
        Ok(settings)
    }
}
