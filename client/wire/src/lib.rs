//! rillway-wire
