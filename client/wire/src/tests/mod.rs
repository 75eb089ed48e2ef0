//! What the tests derive from the tables besides the codec: random values and a description.

use crate::codec::{Array, Context, Nullable, Records, Wire};
use crate::{ErrorCode, Uuid};

mod apache_schema;
mod differential;
mod round_trip;

/// Calls a macro with every API: module, and the module of its messages in the `kafka-protocol` crate.
macro_rules! every_api {
    ($call:ident) => {
        $call! {
            alter_configs AlterConfigsRequest AlterConfigsResponse,
            api_versions ApiVersionsRequest ApiVersionsResponse,
            create_partitions CreatePartitionsRequest CreatePartitionsResponse,
            create_topics CreateTopicsRequest CreateTopicsResponse,
            delete_groups DeleteGroupsRequest DeleteGroupsResponse,
            delete_records DeleteRecordsRequest DeleteRecordsResponse,
            delete_topics DeleteTopicsRequest DeleteTopicsResponse,
            describe_cluster DescribeClusterRequest DescribeClusterResponse,
            describe_configs DescribeConfigsRequest DescribeConfigsResponse,
            describe_groups DescribeGroupsRequest DescribeGroupsResponse,
            describe_log_dirs DescribeLogDirsRequest DescribeLogDirsResponse,
            describe_topic_partitions DescribeTopicPartitionsRequest DescribeTopicPartitionsResponse,
            fetch FetchRequest FetchResponse,
            find_coordinator FindCoordinatorRequest FindCoordinatorResponse,
            heartbeat HeartbeatRequest HeartbeatResponse,
            incremental_alter_configs IncrementalAlterConfigsRequest IncrementalAlterConfigsResponse,
            init_producer_id InitProducerIdRequest InitProducerIdResponse,
            join_group JoinGroupRequest JoinGroupResponse,
            leave_group LeaveGroupRequest LeaveGroupResponse,
            list_config_resources ListConfigResourcesRequest ListConfigResourcesResponse,
            list_groups ListGroupsRequest ListGroupsResponse,
            list_offsets ListOffsetsRequest ListOffsetsResponse,
            metadata MetadataRequest MetadataResponse,
            offset_commit OffsetCommitRequest OffsetCommitResponse,
            offset_delete OffsetDeleteRequest OffsetDeleteResponse,
            offset_fetch OffsetFetchRequest OffsetFetchResponse,
            offset_for_leader_epoch OffsetForLeaderEpochRequest OffsetForLeaderEpochResponse,
            produce ProduceRequest ProduceResponse,
            sync_group SyncGroupRequest SyncGroupResponse,
        }
    };
}
pub(crate) use every_api;

/// A seeded source of choices (SplitMix64): the same seed, the same message.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `end`.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        (self.roll() % end as u64) as usize
    }
}

/// A random value that a version can carry: fields it does not have stay at their defaults.
pub(crate) trait Sample: Sized {
    fn sample(dice: &mut Dice, version: i16) -> Self;
}

/// A random value that is null only where the version has null.
pub(crate) fn sample_nullable<'a, T: Sample + Nullable<'a>>(
    dice: &mut Dice,
    version: i16,
    allowed: bool,
) -> T {
    loop {
        let value = T::sample(dice, version);
        if allowed || !value.is_null() {
            return value;
        }
    }
}

macro_rules! sample_integers {
    ($($ty:ty),*) => {$(
        impl Sample for $ty {
            fn sample(dice: &mut Dice, _: i16) -> Self {
                match dice.below(6) {
                    0 => 0,
                    1 => -1,
                    2 => <$ty>::MAX,
                    3 => <$ty>::MIN,
                    _ => dice.roll() as $ty,
                }
            }
        }
    )*};
}

sample_integers!(i8, i16, i32, i64);

impl Sample for bool {
    fn sample(dice: &mut Dice, _: i16) -> Self {
        dice.below(2) == 1
    }
}

impl Sample for ErrorCode {
    fn sample(dice: &mut Dice, _: i16) -> Self {
        Self::ALL[dice.below(Self::ALL.len())]
    }
}

impl Sample for Uuid {
    fn sample(dice: &mut Dice, _: i16) -> Self {
        let (high, low) = (dice.roll(), dice.roll());
        Self((u128::from(high) << 64 | u128::from(low)).to_be_bytes())
    }
}

/// Longer than 127 bytes, so that its compact length takes two.
const LONG: &str = "a text of more than one hundred and twenty-seven bytes, for the length of such a one \
                    takes two bytes of a varint; with umlauts: äöü";

impl Sample for &str {
    fn sample(dice: &mut Dice, _: i16) -> Self {
        ["", "orders", "__consumer_offsets", "größe", LONG][dice.below(5)]
    }
}

impl Sample for &[u8] {
    fn sample(dice: &mut Dice, _: i16) -> Self {
        [&[][..], &[0xff; 61], LONG.as_bytes()][dice.below(3)]
    }
}

impl Sample for Records<'_> {
    fn sample(dice: &mut Dice, _: i16) -> Self {
        match dice.below(4) {
            0 => Self::Null,
            1 => Self::Bytes(&[]),
            2 => Self::Bytes(&[0xff; 61]),
            _ => Self::Bytes(LONG.as_bytes()),
        }
    }
}

impl<T: Sample> Sample for Option<T> {
    fn sample(dice: &mut Dice, version: i16) -> Self {
        (dice.below(4) > 0).then(|| T::sample(dice, version))
    }
}

impl<'a, T: Sample + Wire<'a> + Clone> Sample for Array<'a, T> {
    fn sample(dice: &mut Dice, version: i16) -> Self {
        (0..dice.below(4)).map(|_| T::sample(dice, version)).collect()
    }
}

/// The schema of a version as text, to be compared with Apache Kafka's: `{}` a struct, `+` a flexible one, `[]` an
/// array, `?` may be null.
pub(crate) trait Describe {
    fn describe(context: Context) -> String;
}

/// A struct from the descriptions of its fields, those with tags last.
pub(crate) fn describe_struct(plain: Vec<String>, tagged: Vec<String>, context: Context) -> String {
    let fields = [plain, tagged].concat().join(", ");
    format!("{{{fields}}}{}", if context.flexible { "+" } else { "" })
}

macro_rules! describe {
    ($($ty:ty, $name:literal;)*) => {$(
        impl Describe for $ty {
            fn describe(_: Context) -> String {
                $name.to_string()
            }
        }
    )*};
}

describe! {
    bool, "boolean";
    i8, "int8";
    i16, "int16";
    i32, "int32";
    i64, "int64";
    ErrorCode, "int16";
    Uuid, "uuid";
    &str, "string";
    &[u8], "bytes";
    Records<'_>, "records?";
}

impl<T: Describe> Describe for Array<'_, T> {
    fn describe(context: Context) -> String {
        format!("[{}]", T::describe(context))
    }
}

impl<T: Describe> Describe for Option<T> {
    fn describe(context: Context) -> String {
        T::describe(context) + "?"
    }
}
