//! ApiVersions: the first request of every client, and the one that decides about all others.

use rillway_wire::api::{api_versions, metadata};
use rillway_wire::{ApiKey, ErrorCode, Message};

use crate::client::{Client, decode, scenario};

#[test]
fn every_version_is_answered_with_a_header_of_version_0() {
    scenario(1, |rt| async move {
        let mut client = Client::connect(&rt).await;
        for version in 0..=4 {
            let request = api_versions::Request {
                client_software_name: "test",
                client_software_version: "1",
            };
            let sent = client.send(&request, version).await;
            let content = client.frame().await.expect("an answer");
            // A header of version 0 is the correlation id and nothing else: the body follows at byte 4.
            assert_eq!(content[..4], sent.to_be_bytes());
            let response: api_versions::Response<'_> = decode(&content[4..], version);
            assert_eq!(response.error_code, ErrorCode::None);
            let produce = response
                .api_keys
                .iter()
                .find(|k| k.api_key == ApiKey::Produce.code())
                .expect("Produce");
            assert_eq!((produce.min_version, produce.max_version), (0, 12));
        }
    });
}

#[test]
fn no_tagged_field_is_written_when_it_holds_its_default() {
    scenario(1, |rt| async move {
        let mut client = Client::connect(&rt).await;
        let request =
            api_versions::Request { client_software_name: "test", client_software_version: "1" };
        client.send(&request, 3).await;
        let content = client.frame().await.expect("an answer");
        // librdkafka before 2.2.0 skips tags one byte short; the last byte is the number of tags.
        assert_eq!(content.last(), Some(&0));
    });
}

#[test]
fn a_software_name_that_could_garble_a_metric_is_refused() {
    scenario(1, |rt| async move {
        let mut client = Client::connect(&rt).await;
        let request =
            api_versions::Request { client_software_name: "a b", client_software_version: "1" };
        let body = client.call(&request, 3).await;
        let response: api_versions::Response<'_> = decode(&body, 3);
        assert_eq!(response.error_code, ErrorCode::InvalidRequest);
    });
}

#[test]
fn what_is_advertised_can_be_decoded() {
    scenario(1, |rt| async move {
        let mut client = Client::connect(&rt).await;
        let body = client.call(&api_versions::Request::default(), 0).await;
        let response: api_versions::Response<'_> = decode(&body, 0);
        let metadata = response
            .api_keys
            .iter()
            .find(|k| k.api_key == ApiKey::Metadata.code())
            .expect("Metadata");
        for version in metadata.min_version..=metadata.max_version {
            assert!(metadata::Request::VERSIONS.contains(&version));
            let body = client
                .call(
                    &metadata::Request { topics: Some(Vec::new().into()), ..Default::default() },
                    version,
                )
                .await;
            let _: metadata::Response<'_> = decode(&body, version);
        }
    });
}
