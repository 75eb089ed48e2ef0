//! A seeded simulation of one group: up to eight consumers, a network that loses and delays, a log that fails, and
//! coordinators that restart with what was kept.
//!
//! After every step the oracle looks for what must never happen; after a quiet time at the end everybody who is alive
//! must have its part. `GROUP_START=s GROUP_SEEDS=n cargo test -p rillway-group --test simulation` runs others; a failure
//! names its seed.

mod client;
mod oracle;
mod random;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};

use world::World;

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

#[test]
fn whatever_happens_every_partition_has_one_owner_and_nobody_is_stuck() {
    let start = number("GROUP_START", 0);
    let mut reached = world::Reached::default();
    for seed in start..start + number("GROUP_SEEDS", 1_500) {
        match catch_unwind(AssertUnwindSafe(|| World::run(seed))) {
            Ok(of_seed) => reached.add(&of_seed),
            Err(panic) => {
                eprintln!("seed {seed} failed: GROUP_START={seed} GROUP_SEEDS=1 repeats it");
                std::panic::resume_unwind(panic);
            }
        }
    }
    // A simulation that never meets what it is for proves nothing.
    println!("{reached:?}");
    reached.check();
}
