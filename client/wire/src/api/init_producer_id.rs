//! InitProducerId, key 22, versions 0-5, flexible from 2: an id and an epoch for an idempotent or transactional producer.
//!
//! | version | change |
//! |---|---|
//! | 0 | KIP-98 |
//! | 2 | flexible |
//! | 3 | a producer may go on with the id it has (KIP-360) |
//! | 4 | `PRODUCER_FENCED` may come back (KIP-588) |
//! | 5 | `TRANSACTION_ABORTABLE` may come back (KIP-890) |

use crate::ErrorCode;
use crate::codec::api;

api! {
    InitProducerId 0..=5;

    request<'a> {
        /// Null: idempotence only.
        transactional_id: Option<&'a str> [0..],
        transaction_timeout_ms: i32 [0..],
        /// The id to go on with; -1: a new one.
        producer_id: i64 [3..] = -1,
        producer_epoch: i16 [3..] = -1,
    }

    response {
        throttle_time_ms: i32 [0..],
        error_code: ErrorCode [0..],
        /// -1 with an error.
        producer_id: i64 [0..] = -1,
        producer_epoch: i16 [0..],
    }
}
