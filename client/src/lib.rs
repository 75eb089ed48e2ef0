//! rillway-client
