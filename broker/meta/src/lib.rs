//! rillway-meta
