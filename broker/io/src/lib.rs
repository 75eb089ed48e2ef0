//! rillway-io
