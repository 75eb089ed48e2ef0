//! Calls about consumer groups and nodes, on [`Client`].

use crate::core::{
    Call, CallAnswer, ConfigInfo, GroupCall, GroupInfo, GroupListing, GroupReport, NodeInfo,
    PartitionOutcomes, TopicPartition,
};
use crate::error::Result;
use crate::transport::Client;

impl Client {
    /// The nodes of the cluster.
    ///
    /// # Errors
    /// As [`Client::call`].
    pub async fn nodes(&self) -> Result<Vec<NodeInfo>> {
        match self.call(Call::Nodes).await? {
            CallAnswer::Nodes(nodes) => Ok(nodes),
            other => unreachable!("the answer to Nodes is Nodes, not {other:?}"),
        }
    }

    /// The settings of a node.
    ///
    /// # Errors
    /// As [`Client::call`].
    pub async fn describe_broker(&self, node: i32) -> Result<Vec<ConfigInfo>> {
        match self.call(Call::DescribeBroker(node)).await? {
            CallAnswer::Configs(configs) => Ok(configs),
            other => unreachable!("the answer to DescribeBroker is Configs, not {other:?}"),
        }
    }

    /// The groups of every node, by name: each node tells of those only that it coordinates.
    ///
    /// # Errors
    /// As [`Client::call`]: one node that does not answer fails the whole, since a list with a hole looks like a list.
    pub async fn groups(&self) -> Result<Vec<GroupListing>> {
        let mut all = Vec::new();
        for node in self.nodes().await? {
            match self.call(Call::ListGroups(node.id)).await? {
                CallAnswer::Groups(groups) => all.extend(groups),
                other => unreachable!("the answer to ListGroups is Groups, not {other:?}"),
            }
        }
        all.sort();
        // Nodes of one process may know of each other's groups.
        all.dedup_by(|a, b| a.group == b.group);
        Ok(all)
    }

    async fn group(&self, group: &str, ask: GroupCall) -> Result<CallAnswer> {
        self.call(Call::Group { group: group.to_string(), ask }).await
    }

    /// State and members of a group. One that is not there is in the state `Dead`, or `GROUP_ID_NOT_FOUND`, as the
    /// broker has it.
    ///
    /// # Errors
    /// As [`Client::call`].
    pub async fn describe_group(&self, group: &str) -> Result<GroupInfo> {
        match self.group(group, GroupCall::Describe).await? {
            CallAnswer::Group(info) => Ok(info),
            other => unreachable!("the answer to Describe is Group, not {other:?}"),
        }
    }

    /// Lag and the last transitions of a group.
    ///
    /// # Errors
    /// As [`Client::call`]; [`crate::Error::Unsupported`] where the broker is not Rillway.
    pub async fn group_report(&self, group: &str) -> Result<GroupReport> {
        match self.group(group, GroupCall::Report).await? {
            CallAnswer::GroupReport(report) => Ok(report),
            other => unreachable!("the answer to Report is GroupReport, not {other:?}"),
        }
    }

    /// The offsets that a group has committed.
    ///
    /// # Errors
    /// As [`Client::call`].
    pub async fn group_offsets(&self, group: &str) -> Result<Vec<(TopicPartition, i64)>> {
        match self.group(group, GroupCall::Offsets).await? {
            CallAnswer::Offsets(offsets) => Ok(offsets),
            other => unreachable!("the answer to Offsets is Offsets, not {other:?}"),
        }
    }

    /// Commits offsets of a group that has no members.
    ///
    /// # Errors
    /// As [`Client::call`]; what is wrong with a partition stands beside it.
    pub async fn commit_offsets(
        &self,
        group: &str,
        offsets: Vec<(TopicPartition, i64)>,
    ) -> Result<PartitionOutcomes> {
        match self.group(group, GroupCall::Commit(offsets)).await? {
            CallAnswer::Outcomes(outcomes) => Ok(outcomes),
            other => unreachable!("the answer to Commit is Outcomes, not {other:?}"),
        }
    }

    /// Forgets offsets that a group has committed.
    ///
    /// # Errors
    /// As [`Client::call`]; what is wrong with a partition stands beside it.
    pub async fn delete_offsets(
        &self,
        group: &str,
        partitions: Vec<TopicPartition>,
    ) -> Result<PartitionOutcomes> {
        match self.group(group, GroupCall::DeleteOffsets(partitions)).await? {
            CallAnswer::Outcomes(outcomes) => Ok(outcomes),
            other => unreachable!("the answer to DeleteOffsets is Outcomes, not {other:?}"),
        }
    }

    /// Deletes a group without members, and its offsets.
    ///
    /// # Errors
    /// As [`Client::call`].
    pub async fn delete_group(&self, group: &str) -> Result<()> {
        self.group(group, GroupCall::Delete).await.map(drop)
    }
}
