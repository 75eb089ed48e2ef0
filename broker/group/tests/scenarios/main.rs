//! Scenarios: what members and administrators of a group see, event by event.

mod admin;
mod commits;
mod joining;
mod keeping;
mod rebalancing;
mod sessions;
mod statics;
mod table;
