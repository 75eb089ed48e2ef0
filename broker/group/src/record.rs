//! The form of what `__consumer_offsets` stores, byte for byte as Kafka 4.2 writes it, so that Kafka's tools read it.
//!
//! Keys: version 0 or 1 names a committed offset, 2 a group's metadata (`OffsetCommitKey`, `GroupMetadataKey`); others
//! belong to group types that are not here and are skipped. Values: `OffsetCommitValue` is written as version 4 and
//! `GroupMetadataValue` as version 3, both are read from 0 to 4. A null value is a tombstone and never comes here.
//! Runs wherever a log of offsets is read or written; allocates no more than the bytes it was given hold.

use rillway_wire::DecodeError;
use rillway_wire::DecodeErrorKind;
use rillway_wire::codec::{Context, Reader, Wire, Writer};

use crate::offsets::{Committed, TopicPartition};

/// Texts of keys and of `GroupMetadataValue` 3 have a 16-bit length.
pub const TEXT_MAX: usize = i16::MAX as usize;

/// What a record of `__consumer_offsets` is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Key {
    /// The value is a [`Committed`]: see [`decode_offset`].
    Offset { group: String, partition: TopicPartition },
    /// The value is a [`GroupState`].
    Group { group: String },
    /// A version of somebody else, to be skipped.
    Unknown { version: i16 },
}

const PLAIN: Context = Context { version: 0, flexible: false };

impl Key {
    /// # Errors
    /// What is wrong with the bytes, and in which field.
    pub fn decode(bytes: &[u8]) -> Result<Key, DecodeError> {
        let mut from = Reader::new(bytes);
        let version = field(&mut from, PLAIN, "Key.version")?;
        let key = match version {
            0 | 1 => {
                let group = text(&mut from, PLAIN, "OffsetCommitKey.group")?;
                let topic = text(&mut from, PLAIN, "OffsetCommitKey.topic")?;
                let partition = field(&mut from, PLAIN, "OffsetCommitKey.partition")?;
                Key::Offset { group, partition: TopicPartition { topic, partition } }
            }
            2 => Key::Group { group: text(&mut from, PLAIN, "GroupMetadataKey.group")? },
            version => return Ok(Key::Unknown { version }),
        };
        from.finish().map_err(|e| e.in_field("Key"))?;
        Ok(key)
    }
}

/// The key of a committed offset.
///
/// # Panics
/// When a name is longer than [`TEXT_MAX`]; [`crate::Coordinator::check_commit`] refuses such groups.
#[must_use]
pub fn offset_key(group: &str, partition: &TopicPartition) -> Vec<u8> {
    let mut to = Writer::default();
    1i16.encode(&mut to, PLAIN);
    group.encode(&mut to, PLAIN);
    partition.topic.as_str().encode(&mut to, PLAIN);
    partition.partition.encode(&mut to, PLAIN);
    finish(to)
}

/// The key of a group's state.
///
/// # Panics
/// When the name is longer than [`TEXT_MAX`]; [`crate::Coordinator::join`] refuses such groups.
#[must_use]
pub fn group_key(group: &str) -> Vec<u8> {
    let mut to = Writer::default();
    2i16.encode(&mut to, PLAIN);
    group.encode(&mut to, PLAIN);
    finish(to)
}

/// The value of a committed offset. One that says when it expires is written as version 1, the only one that can, as
/// Kafka does; it does not keep the leader epoch.
#[must_use]
pub fn encode_offset(committed: &Committed) -> Vec<u8> {
    let expire = committed.expire_ms.filter(|_| committed.metadata.len() <= TEXT_MAX);
    let version: i16 = if expire.is_some() { 1 } else { 4 };
    let context = Context { version, flexible: version >= 4 };
    let mut to = Writer::default();
    version.encode(&mut to, context);
    committed.offset.encode(&mut to, context);
    if version >= 3 {
        committed.leader_epoch.encode(&mut to, context);
    }
    committed.metadata.as_str().encode(&mut to, context);
    committed.commit_ms.encode(&mut to, context);
    if let Some(expire) = expire {
        expire.encode(&mut to, context);
    } else if committed.topic_id == [0; 16] {
        to.varint(0);
    } else {
        to.varint(1);
        to.tag(0, |to| to.put(&committed.topic_id));
    }
    finish(to)
}

/// Reads the value of a committed offset.
///
/// # Errors
/// What is wrong with the bytes, an unknown version among it.
pub fn decode_offset(bytes: &[u8]) -> Result<Committed, DecodeError> {
    let mut from = Reader::new(bytes);
    let context = value_context(&mut from, "OffsetCommitValue.version")?;
    let offset = field(&mut from, context, "OffsetCommitValue.offset")?;
    let leader_epoch = if context.version >= 3 {
        field(&mut from, context, "OffsetCommitValue.leaderEpoch")?
    } else {
        -1
    };
    let metadata = text(&mut from, context, "OffsetCommitValue.metadata")?;
    let commit_ms = field(&mut from, context, "OffsetCommitValue.commitTimestamp")?;
    let expire: i64 = if context.version == 1 {
        field(&mut from, context, "OffsetCommitValue.expireTimestamp")?
    } else {
        -1
    };
    let mut topic_id = [0; 16];
    if context.flexible {
        from.tags(|tag, from| {
            if tag != 0 {
                return Ok(false);
            }
            topic_id = from.fixed()?;
            Ok(true)
        })
        .map_err(|e| e.in_field("OffsetCommitValue tags"))?;
    }
    from.finish().map_err(|e| e.in_field("OffsetCommitValue"))?;
    let expire_ms = (expire != -1).then_some(expire);
    Ok(Committed { offset, leader_epoch, metadata, commit_ms, expire_ms, topic_id })
}

/// `GroupMetadataValue`: what is kept of a group. No members: the group is empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupState {
    /// Empty: none.
    pub protocol_type: String,
    pub generation: i32,
    pub protocol: Option<String>,
    pub leader: Option<String>,
    /// Wall clock of the last change of phase; -1: not known (versions 0 and 1).
    pub since_ms: i64,
    pub members: Vec<KeptMember>,
}

/// A member of a stable group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptMember {
    pub member: String,
    pub instance: Option<String>,
    pub client_id: String,
    pub client_host: String,
    pub rebalance_timeout_ms: i32,
    pub session_timeout_ms: i32,
    /// What it said to the chosen assignor.
    pub subscription: Vec<u8>,
    pub assignment: Vec<u8>,
}

impl GroupState {
    /// # Panics
    /// When a text is longer than [`TEXT_MAX`]; [`crate::Coordinator::join`] refuses such members.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        const CONTEXT: Context = Context { version: 3, flexible: false };
        let mut to = Writer::default();
        CONTEXT.version.encode(&mut to, CONTEXT);
        self.protocol_type.as_str().encode(&mut to, CONTEXT);
        self.generation.encode(&mut to, CONTEXT);
        self.protocol.as_deref().encode(&mut to, CONTEXT);
        self.leader.as_deref().encode(&mut to, CONTEXT);
        self.since_ms.encode(&mut to, CONTEXT);
        to.long_len(Some(self.members.len()));
        for member in &self.members {
            member.member.as_str().encode(&mut to, CONTEXT);
            member.instance.as_deref().encode(&mut to, CONTEXT);
            member.client_id.as_str().encode(&mut to, CONTEXT);
            member.client_host.as_str().encode(&mut to, CONTEXT);
            member.rebalance_timeout_ms.encode(&mut to, CONTEXT);
            member.session_timeout_ms.encode(&mut to, CONTEXT);
            member.subscription.as_slice().encode(&mut to, CONTEXT);
            member.assignment.as_slice().encode(&mut to, CONTEXT);
        }
        finish(to)
    }

    /// # Errors
    /// What is wrong with the bytes, an unknown version among it.
    pub fn decode(bytes: &[u8]) -> Result<GroupState, DecodeError> {
        let mut from = Reader::new(bytes);
        let context = value_context(&mut from, "GroupMetadataValue.version")?;
        let mut state = GroupState {
            protocol_type: text(&mut from, context, "GroupMetadataValue.protocolType")?,
            generation: field(&mut from, context, "GroupMetadataValue.generation")?,
            protocol: optional_text(&mut from, context, "GroupMetadataValue.protocol")?,
            leader: optional_text(&mut from, context, "GroupMetadataValue.leader")?,
            since_ms: -1,
            members: Vec::new(),
        };
        if context.version >= 2 {
            state.since_ms = field(&mut from, context, "GroupMetadataValue.currentStateTimestamp")?;
        }
        let count = if context.flexible { from.compact_len() } else { from.long_len() };
        let count = count.and_then(|count| count.ok_or(DecodeErrorKind::Null.into()));
        // Grows with members that are there, not with the number that is claimed.
        for _ in 0..count.map_err(|e| e.in_field("GroupMetadataValue.members"))? {
            state.members.push(KeptMember::decode(&mut from, context)?);
        }
        skip_tags(&mut from, context, "GroupMetadataValue tags")?;
        from.finish().map_err(|e| e.in_field("GroupMetadataValue"))?;
        Ok(state)
    }
}

impl KeptMember {
    fn decode(from: &mut Reader<'_>, context: Context) -> Result<KeptMember, DecodeError> {
        let member = text(from, context, "MemberMetadata.memberId")?;
        let instance = if context.version >= 3 {
            optional_text(from, context, "MemberMetadata.groupInstanceId")?
        } else {
            None
        };
        let client_id = text(from, context, "MemberMetadata.clientId")?;
        let client_host = text(from, context, "MemberMetadata.clientHost")?;
        let rebalance_timeout_ms = if context.version >= 1 {
            field(from, context, "MemberMetadata.rebalanceTimeout")?
        } else {
            -1
        };
        let session_timeout_ms = field(from, context, "MemberMetadata.sessionTimeout")?;
        let subscription: &[u8] = field(from, context, "MemberMetadata.subscription")?;
        let assignment: &[u8] = field(from, context, "MemberMetadata.assignment")?;
        skip_tags(from, context, "MemberMetadata tags")?;
        Ok(KeptMember {
            member,
            instance,
            client_id,
            client_host,
            // Before version 1 there was only one timeout.
            rebalance_timeout_ms: if rebalance_timeout_ms == -1 {
                session_timeout_ms
            } else {
                rebalance_timeout_ms
            },
            session_timeout_ms,
            subscription: subscription.to_vec(),
            assignment: assignment.to_vec(),
        })
    }
}

fn value_context(from: &mut Reader<'_>, name: &'static str) -> Result<Context, DecodeError> {
    let version: i16 = field(from, PLAIN, name)?;
    if !(0..=4).contains(&version) {
        return Err(DecodeError::new(DecodeErrorKind::Version(version)).in_field(name));
    }
    Ok(Context { version, flexible: version >= 4 })
}

fn field<'a, T: Wire<'a>>(
    from: &mut Reader<'a>,
    context: Context,
    name: &'static str,
) -> Result<T, DecodeError> {
    T::decode(from, context).map_err(|e| e.in_field(name))
}

fn text(
    from: &mut Reader<'_>,
    context: Context,
    name: &'static str,
) -> Result<String, DecodeError> {
    field::<&str>(from, context, name).map(str::to_owned)
}

fn optional_text(
    from: &mut Reader<'_>,
    context: Context,
    name: &'static str,
) -> Result<Option<String>, DecodeError> {
    Ok(field::<Option<&str>>(from, context, name)?.map(str::to_owned))
}

fn skip_tags(
    from: &mut Reader<'_>,
    context: Context,
    name: &'static str,
) -> Result<(), DecodeError> {
    if context.flexible {
        from.tags(|_, _| Ok(false)).map_err(|e| e.in_field(name))
    } else {
        Ok(())
    }
}

fn finish(to: Writer) -> Vec<u8> {
    to.into_frame().into_bytes().expect("no hole was left")
}
