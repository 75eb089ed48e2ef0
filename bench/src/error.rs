//! What can go wrong, what to do about it, and the exit code for scripts.

use std::path::PathBuf;

use rillway_wire::ErrorCode;

pub(crate) type Result<T, E = Error> = std::result::Result<T, E>;

/// Why there is no figure, or none to be trusted.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error(transparent)]
    Client(#[from] rillway_client::Error),
    #[error("cannot start: {0}")]
    Start(#[from] rillway_io::Error),
    #[error("{doing}: {source}")]
    Os { doing: String, source: std::io::Error },
    #[error("{}: {source}", path.display())]
    File { path: PathBuf, source: std::io::Error },
    #[error("process {pid}: {what}")]
    Process { pid: u32, what: String },
    #[error("topic {0} does not exist")]
    NoTopic(String),
    #[error("topic {topic} has {have} partitions, and --partitions says {want}")]
    Partitions { topic: String, have: usize, want: usize },
    #[error("{topic}-{partition} has no leader")]
    NoLeader { topic: String, partition: i32 },
    #[error("{topic}-{partition} answered {code}")]
    Refused { topic: String, partition: i32, code: ErrorCode },
    #[error("the broker's answer makes no sense: {0}")]
    Answer(#[from] rillway_wire::DecodeError),
    #[error("{topic}-{partition} has nothing to read: it starts at {start} and ends at {end}")]
    Empty { topic: String, partition: i32, start: i64, end: i64 },
    #[error("the size of topic {topic} did not change within {seconds} s")]
    Unchanged { topic: String, seconds: u64 },
    #[error("nothing was answered for {0} s")]
    Silence(u64),
    #[error("{0}")]
    Arguments(String),
}

impl Error {
    /// See the head of `main.rs`.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Client(error) if is_unreachable(error) => 4,
            Self::Arguments(_) => 2,
            Self::Client(_)
            | Self::Start(_)
            | Self::Os { .. }
            | Self::File { .. }
            | Self::Process { .. }
            | Self::NoTopic(_)
            | Self::Partitions { .. }
            | Self::NoLeader { .. }
            | Self::Refused { .. }
            | Self::Answer(_)
            | Self::Empty { .. }
            | Self::Unchanged { .. }
            | Self::Silence(_) => 1,
        }
    }

    /// What to do, where that does not follow from the message.
    pub(crate) fn advice(&self) -> Option<&'static str> {
        match self {
            Self::Client(error) if is_unreachable(error) => {
                Some("Is the broker running, and is --bootstrap one of its addresses?")
            }
            Self::Refused { code: ErrorCode::MessageTooLarge, .. } => {
                Some("Use smaller batches: --batch-bytes.")
            }
            Self::Refused { code: ErrorCode::InvalidRecord, .. } => {
                Some("Is the topic compacted? Then its records need keys: --keys N.")
            }
            Self::NoTopic(_) | Self::Empty { .. } => {
                Some("Fill it first: rillbench produce --topic NAME --bytes 1G.")
            }
            Self::Unchanged { .. } => {
                Some("Is it compacted, and is more than its active segment dirty? Raise --timeout.")
            }
            Self::Partitions { .. } => Some("Leave --partitions out, or choose another topic."),
            Self::Process { .. } => Some("Is --broker-pid a process of this machine and yours?"),
            Self::Silence(_) => Some("Look into the broker's log; raise --timeout if it is slow."),
            _ => None,
        }
    }
}

fn is_unreachable(error: &rillway_client::Error) -> bool {
    match error {
        rillway_client::Error::Connect { .. } => true,
        rillway_client::Error::Timeout { last, .. } => {
            last.as_ref().is_some_and(|e| is_unreachable(e))
        }
        _ => false,
    }
}
