//! ApiVersions, key 18, served 0-4: what this broker can do.
//!
//! - The response header is version 0 in every version: the client does not know yet what the broker speaks.
//! - A version that we do not know is answered in version 0 with UNSUPPORTED_VERSION and the range of this API, and
//!   the connection stays open (KIP-511).
//! - No feature tags are sent: librdkafka before 2.2.0 skips tagged fields one byte short.

use rillway_wire::api::api_versions::{ApiVersion, Request as Body, Response};
use rillway_wire::{ApiKey, ErrorCode, ResponseMessage};

use crate::apis::{later, ready};
use crate::connection::{Answer, Close};
use crate::context::Request;
use crate::versions::SERVED;

/// Who is told of APIs that Kafka does not have.
const OUR_CLIENT: &str = "rillway";

pub(crate) async fn handle(request: Request, body: &Body<'_>) -> Result<Answer, Close> {
    // KIP-511: software names that could garble a metric's label are refused.
    let named = request.version < 3
        || (is_name(body.client_software_name) && is_name(body.client_software_version));
    if !named {
        return ready(
            &request,
            &Response { error_code: ErrorCode::InvalidRequest, ..Default::default() },
        );
    }
    let ours = body.client_software_name == OUR_CLIENT;
    let shown = SERVED.iter().filter(|s| ours || !s.api.is_own());
    let api_keys =
        shown.map(|s| ApiVersion { api_key: s.api.code(), min_version: s.min, max_version: s.max });
    ready(&request, &Response { api_keys: api_keys.collect(), ..Default::default() })
}

/// The answer to a version that is not served.
pub(crate) fn unsupported(request: Request) -> Answer {
    let own = SERVED.iter().filter(|s| s.api == ApiKey::ApiVersions).map(|s| ApiVersion {
        api_key: s.api.code(),
        min_version: s.min,
        max_version: s.max,
    });
    let response = Response {
        error_code: ErrorCode::UnsupportedVersion,
        api_keys: own.collect(),
        ..Default::default()
    };
    let frame = response.response_frame(0, request.correlation_id);
    let answer = later(async move {
        let mut list = rillway_io::IoList::new();
        list.push_bytes(frame.into_bytes().map_err(|_| Close("a response with holes".to_owned()))?);
        Ok(Some(list))
    });
    match answer {
        Ok(answer) => answer,
        Err(close) => Box::pin(std::future::ready(Err(close))),
    }
}

fn is_name(name: &str) -> bool {
    let inner = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.';
    let edge = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    name.chars().all(inner) && edge(name.chars().next()) && edge(name.chars().last())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn software_names_follow_the_pattern_of_kip_511() {
        for good in ["librdkafka", "a", "apache-kafka-java", "2.0.2", "franz-go.v1"] {
            assert!(is_name(good), "{good}");
        }
        for bad in ["", "-a", "a-", "a b", "ä", "a/b"] {
            assert!(!is_name(bad), "{bad}");
        }
    }
}
