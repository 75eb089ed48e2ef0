//! InitProducerId, key 22, served 0-4: a producer id for idempotence (KIP-98).
//!
//! With a transactional id the answer is a fatal error at once: transactions are not served, and a client that hangs
//! would be worse. Kafka ignores the id and epoch that a producer without transactions sends along (KIP-360): it gets
//! a new id. An id without an epoch, an epoch without an id and an empty transactional id are INVALID_REQUEST.

use rillway_wire::ErrorCode;
use rillway_wire::api::init_producer_id::{Request as Body, Response};

use crate::apis::{later, list, ready};
use crate::connection::{Answer, Close};
use crate::context::Request;
use crate::error_codes;

pub(crate) async fn handle(request: Request, body: &Body<'_>) -> Result<Answer, Close> {
    let half = (body.producer_id == -1) != (body.producer_epoch == -1);
    let refused = match body.transactional_id {
        Some("") => Some(ErrorCode::InvalidRequest),
        Some(_) => Some(ErrorCode::TransactionalIdAuthorizationFailed),
        None if half || body.producer_id < -1 || body.producer_epoch < -1 => {
            Some(ErrorCode::InvalidRequest)
        }
        None => None,
    };
    if let Some(error_code) = refused {
        return ready(&request, &Response { error_code, producer_epoch: -1, ..Default::default() });
    }
    later(async move {
        let response = match request.context.shard().new_producer_id().await {
            Ok(producer_id) => Response { producer_id, producer_epoch: 0, ..Default::default() },
            Err(e) => {
                // Retriable: the client asks again.
                let error_code = match error_codes::partition(&e) {
                    ErrorCode::NotLeaderOrFollower | ErrorCode::KafkaStorageError => {
                        ErrorCode::CoordinatorNotAvailable
                    }
                    other => other,
                };
                Response { error_code, producer_epoch: -1, ..Default::default() }
            }
        };
        list(&request, &response)
    })
}
