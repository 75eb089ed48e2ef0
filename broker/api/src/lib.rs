//! rillway-api
