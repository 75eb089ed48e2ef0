//! The node's settings as clients see them: DescribeConfigs of a broker, and the sources of a topic's defaults. Made once
//! by the binary from its own table; read-only.

use std::collections::BTreeMap;
use std::sync::Arc;

use rillway_shard::{ConfigType, TopicConfig};
use rillway_wire::api::describe_configs::{SOURCE_DEFAULT, SOURCE_STATIC_BROKER, SOURCE_TOPIC};

/// One setting.
#[derive(Clone, Debug)]
pub struct BrokerConfig {
    pub name: &'static str,
    /// In force.
    pub value: String,
    /// Built in.
    pub default: String,
    /// Whether the file, the environment or a flag gave it.
    pub given: bool,
    pub config_type: ConfigType,
    pub doc: &'static str,
}

/// All of them. Clone: shared by the cores.
#[derive(Clone, Debug, Default)]
pub struct BrokerConfigs(Arc<[BrokerConfig]>);

impl From<Vec<BrokerConfig>> for BrokerConfigs {
    fn from(configs: Vec<BrokerConfig>) -> Self {
        BrokerConfigs(configs.into())
    }
}

impl BrokerConfigs {
    pub(crate) fn iter(&self) -> impl Iterator<Item = &BrokerConfig> {
        self.0.iter()
    }

    /// A setting that was given.
    pub(crate) fn given(&self, name: &str) -> Option<&BrokerConfig> {
        self.0.iter().find(|c| c.name == name && c.given)
    }

    /// Where a topic's value comes from: the topic, the broker's settings, or nobody.
    pub(crate) fn topic_source(
        &self,
        config: &TopicConfig,
        given: &BTreeMap<String, String>,
    ) -> i8 {
        if given.contains_key(config.name) {
            SOURCE_TOPIC
        } else if self.given(config.broker).is_some() {
            SOURCE_STATIC_BROKER
        } else {
            SOURCE_DEFAULT
        }
    }
}
