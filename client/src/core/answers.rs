//! What comes in: each answer goes to the part of the client that asked.
//!
//! An answer that cannot be decoded, or that leaves out a partition it was asked about, ends its connection: what was
//! on its way over it is sent again elsewhere, as after any disconnect.

use std::time::Duration;

use bytes::Bytes;
use rillway_wire::api::{
    create_partitions, create_topics, delete_topics, describe_configs, fetch,
    incremental_alter_configs, init_producer_id, list_groups, list_offsets, metadata, produce,
};
use rillway_wire::{ApiKey, ErrorCode, Message};

use super::calls::{Call, CallId};
use super::link::{Answer, Received};
use super::peers::LinkId;
use super::producer::Sent;
use super::{Core, Purpose, TopicPartition};
use crate::error::{Error, Result};

pub(super) type Answered = Answer<Purpose>;

impl Core {
    /// Takes what a connection said. An error ends the connection.
    pub(super) fn handle(
        &mut self,
        link: LinkId,
        received: Received<Purpose>,
        now: Duration,
    ) -> Result<()> {
        let answer = match received {
            Received::Again(frame) => {
                self.push_frame(link, frame, &mut std::iter::empty());
                return Ok(());
            }
            Received::Ready => {
                self.peers.succeeded(link);
                return Ok(());
            }
            Received::Answer(answer) => answer,
        };
        let handled = match &answer.purpose {
            Purpose::Metadata => self.metadata_answered(link, &answer, now),
            Purpose::ProducerId => self.producer_id_answered(link, &answer, now),
            Purpose::Produce(sent) => self.produce_answered(link, &answer, sent, now),
            Purpose::Fetch(asked) => self.fetch_answered(link, &answer, asked, now),
            Purpose::Call(id, asked) => self.call_answered(link, &answer, *id, asked, now),
        };
        handled.inspect_err(|error| self.lost(answer.purpose, error, now))
    }

    pub(super) fn decode<'a, R: Message<'a>>(
        &mut self,
        link: LinkId,
        answer: &'a Answered,
    ) -> Result<R> {
        answer.decode().map_err(|source| match self.peers.link(link) {
            Some(open) => open.decode_error(R::API.name(), source),
            None => Error::Closed,
        })
    }

    fn metadata_answered(&mut self, link: LinkId, answer: &Answered, now: Duration) -> Result<()> {
        let answer: metadata::Response<'_> = self.decode(link, answer)?;
        self.metadata.update(&answer, now, self.config.backoff);
        Ok(())
    }

    fn producer_id_answered(
        &mut self,
        link: LinkId,
        answer: &Answered,
        now: Duration,
    ) -> Result<()> {
        let answer: init_producer_id::Response = self.decode(link, answer)?;
        let Some(producer) = &mut self.producer else {
            return Ok(());
        };
        let code = answer.error_code;
        if code == ErrorCode::None {
            producer.identified(answer.producer_id, answer.producer_epoch);
            return Ok(());
        }
        producer.unidentified(now);
        let doing = "asking for a producer id".to_string();
        let error = Error::Broker { doing, code, message: None };
        if code.is_retriable() {
            self.last_error = Some(error);
        } else {
            producer.fail_all(&error);
        }
        Ok(())
    }

    fn produce_answered(
        &mut self,
        link: LinkId,
        answer: &Answered,
        sent: &[Sent],
        now: Duration,
    ) -> Result<()> {
        let answer: produce::Response<'_> = self.decode(link, answer)?;
        let Some(producer) = &mut self.producer else {
            return Ok(());
        };
        let mut refresh = false;
        let mut left_out = None;
        for sent in sent {
            let topic = answer.responses.iter().find(|t| t.name == &*sent.at.topic);
            let part = topic
                .and_then(|t| t.partition_responses.iter().find(|p| p.index == sent.at.partition));
            match part {
                Some(part) => refresh |= producer.answered(sent, &part, now),
                None => {
                    left_out = Some(sent.at.to_string());
                    producer.retry(sent, now);
                }
            }
        }
        if refresh {
            self.metadata.refresh();
        }
        complete(ApiKey::Produce, left_out)
    }

    fn fetch_answered(
        &mut self,
        link: LinkId,
        answered: &Answered,
        asked: &[(TopicPartition, i64)],
        now: Duration,
    ) -> Result<()> {
        let answer: fetch::Response<'_> = self.decode(link, answered)?;
        let Some(fetcher) = &mut self.fetcher else {
            return Ok(());
        };
        if answer.error_code != ErrorCode::None {
            let doing = "fetching".to_string();
            let code = answer.error_code;
            return Err(Error::Broker { doing, code, message: None });
        }
        let mut refresh = false;
        let mut left_out = None;
        for (at, from) in asked {
            let topic = answer.responses.iter().find(|t| t.topic == &*at.topic);
            let part =
                topic.and_then(|t| t.partitions.iter().find(|p| p.partition_index == at.partition));
            let Some(part) = part else {
                left_out = Some(at.to_string());
                fetcher.lost(at, now);
                continue;
            };
            let records = slice(&answered.frame, part.records.bytes());
            refresh |= fetcher.answered(at, *from, &part, records, self.config.max_frame, now);
        }
        if refresh {
            self.metadata.refresh();
        }
        complete(ApiKey::Fetch, left_out)
    }

    fn call_answered(
        &mut self,
        link: LinkId,
        answer: &Answered,
        id: CallId,
        asked: &[TopicPartition],
        now: Duration,
    ) -> Result<()> {
        let retry_at = now.saturating_add(self.config.backoff);
        let Some(pending) = self.calls.get(id) else {
            return Ok(());
        };
        match pending.call {
            Call::Group { .. } => self.group_answered(link, answer, id, now)?,
            Call::ListGroups(node) => {
                let answer: list_groups::Response<'_> = self.decode(link, answer)?;
                self.calls.listed(id, &answer, node, retry_at);
            }
            Call::Nodes => {
                let answer: metadata::Response<'_> = self.decode(link, answer)?;
                self.calls.nodes(id, &answer);
            }
            Call::Topics(_) => {
                let answer: metadata::Response<'_> = self.decode(link, answer)?;
                self.calls.topics(id, &answer);
            }
            Call::CreateTopic(_) => {
                let answer: create_topics::Response<'_> = self.decode(link, answer)?;
                self.calls.created(id, &answer, retry_at);
                self.metadata.refresh();
            }
            Call::DeleteTopic(_) => {
                let answer: delete_topics::Response<'_> = self.decode(link, answer)?;
                self.calls.deleted(id, &answer, retry_at);
                self.metadata.refresh();
            }
            Call::DescribeTopic(_) | Call::DescribeBroker(_) => {
                let answer: describe_configs::Response<'_> = self.decode(link, answer)?;
                self.calls.described(id, &answer, retry_at);
            }
            Call::AlterTopic { .. } => {
                let answer: incremental_alter_configs::Response<'_> = self.decode(link, answer)?;
                self.calls.altered(id, &answer, retry_at);
            }
            Call::GrowTopic { .. } => {
                let answer: create_partitions::Response<'_> = self.decode(link, answer)?;
                self.calls.grown(id, &answer, retry_at);
                self.metadata.refresh();
            }
            Call::ListOffsets { .. } => {
                let answer: list_offsets::Response<'_> = self.decode(link, answer)?;
                if self.calls.offsets(id, asked, &answer, retry_at) {
                    self.metadata.refresh();
                }
            }
        }
        Ok(())
    }
}

fn complete(api: ApiKey, left_out: Option<String>) -> Result<()> {
    match left_out {
        Some(what) => Err(Error::Incomplete { api, what }),
        None => Ok(()),
    }
}

/// The same bytes, as a part of the frame that owns them.
fn slice(frame: &Bytes, part: &[u8]) -> Bytes {
    if part.is_empty() { Bytes::new() } else { frame.slice_ref(part) }
}
