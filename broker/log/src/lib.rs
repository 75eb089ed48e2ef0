//! rillway-log
