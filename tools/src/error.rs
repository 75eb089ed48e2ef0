//! What can go wrong, what to do about it, and the exit code for scripts.

use std::path::PathBuf;

use rillway_client::Error as ClientError;
use rillway_wire::ErrorCode;
use rillway_wire::batch::BatchError;

pub(crate) type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a subcommand did not do what it was told.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error("cannot start: {0}")]
    Start(#[from] rillway_io::Error),
    #[error("{}: {source}", path.display())]
    File { path: PathBuf, source: std::io::Error },
    #[error("topic {0} does not exist")]
    NoTopic(String),
    #[error("topic {topic} has {count} partitions, and none with number {partition}")]
    NoPartition { topic: String, partition: i32, count: usize },
    #[error(transparent)]
    Log(#[from] rillway_log::Error),
    #[error("{} lies in no data directory: no folder above it has a file `storage`", .0.display())]
    NoDataDirectory(PathBuf),
    #[error("{} is none of the files that a data directory has", .0.display())]
    UnknownFile(PathBuf),
    #[error("{}: {found} {}", path.display(), if *found == 1 { "damage" } else { "damages" })]
    Damaged { path: PathBuf, found: usize },
    #[error("there is no setting {0}")]
    NoSetting(String),
    #[error("the cluster has no node {node}, but {have:?}")]
    NoNode { node: i32, have: Vec<i32> },
    #[error("settings of a broker cannot be changed while it runs")]
    BrokerSettings,
    #[error("group {0} does not exist")]
    NoGroup(String),
    #[error("group {group} has members, and cannot be {doing} while it has")]
    GroupHasMembers { group: String, doing: &'static str },
    #[error("the offset of {at} was not reset: {code}")]
    NotReset { at: String, code: ErrorCode },
    #[error("this broker does not tell {what}: it is not Rillway, or too old")]
    NotRillway { what: &'static str },
    #[error("topic {topic} has {have} partitions, not {want}")]
    Partitions { topic: String, have: usize, want: usize },
    #[error("line {line} is longer than {limit} bytes")]
    LongLine { line: u64, limit: usize },
    #[error("{topic}-{partition}, batch at offset {offset}: {source}")]
    Batch { topic: String, partition: i32, offset: i64, source: BatchError },
    #[error("{failed} of {records} records were not delivered; first: {first}")]
    Undelivered { failed: u64, records: u64, first: ClientError },
    #[error("chunk {expected} is missing: {what}")]
    MissingChunk { expected: u64, what: String },
    #[error("{topic}-{partition} has chunk {got} behind chunk {last}")]
    ChunkOrder { topic: String, partition: i32, last: u64, got: u64 },
    #[error("offset {offset} of {topic}-{partition} is no chunk: its key is not 8 bytes long")]
    NoChunk { topic: String, partition: i32, offset: i64 },
}

impl Error {
    /// See the head of `main.rs`.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Client(error) if is_unreachable(error) => 4,
            Self::Client(ClientError::Batch { .. })
            | Self::Batch { .. }
            | Self::Log(_)
            | Self::Damaged { .. }
            | Self::MissingChunk { .. }
            | Self::ChunkOrder { .. }
            | Self::NoChunk { .. } => 5,
            Self::Client(_)
            | Self::Start(_)
            | Self::File { .. }
            | Self::NoTopic(_)
            | Self::NoPartition { .. }
            | Self::NoDataDirectory(_)
            | Self::UnknownFile(_)
            | Self::NoSetting(_)
            | Self::NoNode { .. }
            | Self::BrokerSettings
            | Self::NoGroup(_)
            | Self::GroupHasMembers { .. }
            | Self::NotReset { .. }
            | Self::NotRillway { .. }
            | Self::Partitions { .. }
            | Self::LongLine { .. }
            | Self::Undelivered { .. } => 1,
        }
    }

    /// What to do, where that does not follow from the message.
    pub(crate) fn advice(&self) -> Option<String> {
        let code = match self {
            Self::Client(error) | Self::Undelivered { first: error, .. } => error.code(),
            _ => None,
        };
        let advice = match self {
            Self::Client(error) if is_unreachable(error) => {
                "Is the broker running, and is --bootstrap one of its addresses?"
            }
            Self::Client(ClientError::RecordTooLarge { .. }) => {
                "Use smaller records (--record-bytes), or larger batches (--batch-bytes) if the topic's \
                 max.message.bytes allows them."
            }
            Self::NoTopic(topic) => {
                return Some(format!(
                    "See which there are: rillctl topic list. To make it: rillctl topic create --topic {topic} --partitions N."
                ));
            }
            Self::NoPartition { count, .. } => {
                return Some(format!("They are numbered 0 to {}.", count.saturating_sub(1)));
            }
            Self::NoDataDirectory(_) => "Give the broker's --data-dir, or a file in it.",
            Self::UnknownFile(_) => "See which there are: rillctl log dump DIR.",
            Self::Log(_) => {
                "The rest of the directory may be whole: rillctl log verify DIR says what is not."
            }
            Self::Damaged { .. } => {
                "Copy the directory before anything else; the lines above say which offsets are affected. Clients that check \
                 CRCs stop there; DeleteRecords up to behind them, or a seek, lets them go on."
            }
            Self::NoSetting(_) => {
                "See which there are: rillctl config list --topic NAME, or --broker for those of a broker."
            }
            Self::NoNode { .. } => "Choose one of these, or leave the id out.",
            Self::BrokerSettings => {
                "Change its configuration file and restart it; topics' settings change at once: config set --topic."
            }
            Self::NoGroup(_) => "See which there are: rillctl group list.",
            Self::GroupHasMembers { group, .. } => {
                return Some(format!(
                    "Stop its consumers and wait until they have left: rillctl group describe {group}."
                ));
            }
            Self::NotReset { .. } => {
                "Offsets of other partitions may have been reset: look with rillctl group describe."
            }
            Self::NotRillway { .. } => "Look into the coordinator's log instead.",
            Self::Client(ClientError::Unsupported { .. }) => {
                "The broker is too old or too new for this, or serves it not at all."
            }
            Self::Partitions { .. } => "Leave --partitions out, or choose another topic.",
            Self::LongLine { .. } => "Send the file as chunks: --record-bytes N.",
            Self::MissingChunk { .. } => {
                "Was the topic written by `rillctl produce --record-bytes`, and is it read --from earliest --until-end?"
            }
            Self::ChunkOrder { .. } => {
                "The topic holds more than one file. Read it with --format lines, or write each file to its own topic."
            }
            Self::NoChunk { .. } => "Read the topic with --format lines.",
            _ if code == Some(ErrorCode::MessageTooLarge) => {
                "Use smaller batches: --batch-bytes, or raise max.message.bytes of the topic."
            }
            _ if code == Some(ErrorCode::OffsetOutOfRange) => {
                "The log has no such offset (any more): use --from earliest."
            }
            _ => return None,
        };
        Some(advice.to_string())
    }
}

fn is_unreachable(error: &ClientError) -> bool {
    match error {
        ClientError::Connect { .. } => true,
        ClientError::Timeout { last, .. } => last.as_ref().is_some_and(|e| is_unreachable(e)),
        _ => false,
    }
}
