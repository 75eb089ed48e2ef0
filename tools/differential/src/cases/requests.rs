//! ApiVersions, and requests that are none: what a client meets before it has learned anything.

use rillway_wire::api::api_versions::Request;
use rillway_wire::{ApiKey, RequestHeader, codec::Writer};

use super::{Case, case, case_from};
use crate::peer::Peer;

pub(super) const CASES: &[Case] = &[
    case(ApiKey::ApiVersions, "the APIs that are served", served),
    case_from(ApiKey::ApiVersions, 3, "software names that are no names", software_names),
    case(ApiKey::ApiVersions, "a version from the future is answered in version 0", future),
    case(ApiKey::ApiVersions, "requests that nobody serves", nobody_serves),
];

fn served(peer: &mut Peer, version: i16) {
    let request = Request { client_software_name: "differential", client_software_version: "1" };
    peer.call("served", &request, version);
}

fn software_names(peer: &mut Peer, version: i16) {
    for (step, name, of) in [
        ("empty", "", ""),
        ("spaces", "a b", "1"),
        ("a dash at the end", "a-", "1"),
        ("the version too", "a", "1/2"),
        ("letters of elsewhere", "ä", "1"),
        ("fine after all", "a-b.c", "1.0-x"),
    ] {
        peer.call(
            step,
            &Request { client_software_name: name, client_software_version: of },
            version,
        );
    }
}

/// Header of version 1, whatever the API: enough for what is refused by its key and version.
fn header(api_key: i16, api_version: i16) -> Vec<u8> {
    let mut to = Writer::default();
    to.put(&api_key.to_be_bytes());
    to.put(&api_version.to_be_bytes());
    to.put(&7_i32.to_be_bytes());
    to.short_text(Some("d"));
    to.into_frame().into_bytes().unwrap_or_else(|_| panic!("no holes"))
}

fn future(peer: &mut Peer, _: i16) {
    let mut to = Writer::default();
    let header =
        RequestHeader { api_key: 18, api_version: 100, correlation_id: 7, client_id: None };
    header.encode(&mut to);
    let frame = to.into_frame().into_bytes().unwrap_or_else(|_| panic!("no holes"));
    peer.raw("version 100", &frame);
    peer.call("the connection goes on", &Request::default(), 0);
}

fn nobody_serves(peer: &mut Peer, _: i16) {
    peer.raw("no such API", &header(999, 0));
    peer.raw("a negative key", &header(-1, 0));
    peer.raw("Metadata of version 99", &header(3, 99));
    peer.raw("Metadata of version -1", &header(3, -1));
    peer.raw("Fetch of version 3, which Kafka 4 dropped", &header(1, 3));
    peer.raw("Metadata without a body", &header(3, 1));
    peer.raw("a frame of three bytes", &[0, 3, 0]);
    peer.raw("an empty frame", &[]);
    peer.raw("bytes behind the request", &[header(3, 1), vec![0, 0, 0, 0, 9, 9]].concat());
}
