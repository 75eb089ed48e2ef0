//! FindCoordinator, key 10, served 0-4: advertised for what clients infer from it, not for groups yet.
//!
//! librdkafka (2.0.2 and 2.16 alike) turns lz4 off, in silence, when the advertised ranges lack version 0 of this API:
//! a producer's batches then arrive uncompressed. So it is answered: there is no coordinator for groups yet (retriable),
//! and never one for transactions (fatal at once; UNSUPPORTED_VERSION makes Java and librdkafka wait for their timeout).

use rillway_wire::ErrorCode;
use rillway_wire::api::find_coordinator::{
    Coordinator, GROUP, Request as Body, Response, TRANSACTION,
};

use crate::apis::ready;
use crate::connection::{Answer, Close};
use crate::context::Request;

pub(crate) async fn handle(request: Request, body: &Body<'_>) -> Result<Answer, Close> {
    let (error_code, why) = if body.key_type == GROUP {
        request.context.note_group_client(request.peer);
        (
            ErrorCode::CoordinatorNotAvailable,
            "consumer groups are not served by this version; assign partitions",
        )
    } else if body.key_type != TRANSACTION {
        (ErrorCode::InvalidRequest, "coordinators are of groups (0) and transactions (1)")
    } else {
        (
            ErrorCode::TransactionalIdAuthorizationFailed,
            "transactions are not served by this broker",
        )
    };
    // From version 4 on keys come in a list and so do the answers (KIP-699).
    let one = |key| Coordinator {
        key,
        node_id: -1,
        host: "",
        port: -1,
        error_code,
        error_message: Some(why),
    };
    let response = Response {
        error_code,
        error_message: Some(why),
        node_id: -1,
        port: -1,
        coordinators: body.coordinator_keys.iter().map(one).collect(),
        ..Default::default()
    };
    ready(&request, &response)
}
