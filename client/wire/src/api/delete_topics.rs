//! DeleteTopics, key 20, versions 1-6, flexible from 4.
//!
//! | version | change |
//! |---|---|
//! | 1 | throttle time |
//! | 3 | `TOPIC_DELETION_DISABLED` may come back |
//! | 4 | flexible |
//! | 5 | a message goes with the error; `THROTTLING_QUOTA_EXCEEDED` may come back (KIP-599) |
//! | 6 | by name or by id (KIP-516) |

use crate::codec::api;
use crate::{Array, ErrorCode, Uuid};

api! {
    DeleteTopics 1..=6;

    request<'a> {
        topics: Array<'a, Topic<'a>> [6..],
        topic_names: Array<'a, &'a str> [1..=5],
        timeout_ms: i32 [1..],
    }

    response<'a> {
        throttle_time_ms: i32 [1..],
        responses: Array<'a, TopicResponse<'a>> [1..],
    }

    /// A topic to delete: exactly one of name and id is set.
    pub struct Topic<'a> {
        name: Option<&'a str> [6..],
        topic_id: Uuid [6..],
    }

    /// What became of a topic.
    pub struct TopicResponse<'a> {
        /// Null when an unknown id was named, or the client may not see the topic.
        name: Option<&'a str> [1..] null [6..],
        topic_id: Uuid [6..],
        error_code: ErrorCode [1..],
        error_message: Option<&'a str> [5..],
    }
}
