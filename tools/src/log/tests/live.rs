//! A node that writes while it is looked at, and that is killed at any moment.

use std::cell::{Cell, RefCell};
use std::path::{Path, PathBuf};
use std::time::Duration;

use proptest::prelude::*;
use rillway_io::sim::World;

use super::made::{DIR, End, NODE, busy, ended};
use super::{children, part, stamp};
use crate::log::files::{Files, Stamp};
use crate::log::findings::Findings;
use crate::log::verify::verify;

/// The disk of a node that goes on for a moment before each look at it.
struct Live {
    world: World,
    steps: RefCell<Vec<u64>>,
    looks: Cell<usize>,
}

impl Live {
    fn go_on(&self) {
        let steps = self.steps.borrow();
        let looks = self.looks.replace(self.looks.get() + 1);
        self.world.run_for(Duration::from_micros(steps[looks % steps.len()]));
    }

    fn bytes(&self, path: &Path) -> std::io::Result<Vec<u8>> {
        self.go_on();
        let found = self.world.disk(NODE).read(path);
        found.ok_or_else(|| std::io::Error::from(std::io::ErrorKind::NotFound))
    }
}

impl Files for Live {
    fn read(&self, path: &Path) -> std::io::Result<Vec<u8>> {
        self.bytes(path)
    }

    fn read_at(&self, path: &Path, position: u64, len: usize) -> std::io::Result<Vec<u8>> {
        Ok(part(&self.bytes(path)?, position, len))
    }

    fn list(&self, dir: &Path) -> std::io::Result<Vec<(PathBuf, bool)>> {
        self.go_on();
        children(self.world.disk(NODE).files().iter(), dir)
    }

    fn stamp(&self, path: &Path) -> Option<Stamp> {
        self.bytes(path).ok().map(|bytes| stamp(&bytes))
    }

    fn pause(&self, time: Duration) {
        self.world.run_for(time);
    }
}

fn told(findings: &Findings) -> String {
    let damages = findings.damages.iter().map(|d| format!("{d:?}\n")).collect::<String>();
    format!("{damages}{:?}", findings.notes)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn nothing_is_called_damaged_while_a_node_writes_it(
        seed in 0u64..1_000_000,
        begun_ms in 1u64..2_000,
        steps in proptest::collection::vec(prop_oneof![9 => 0u64..200, 1 => 0u64..20_000], 1..40),
    ) {
        let world = World::new(seed);
        busy(&world);
        world.run_for(Duration::from_millis(begun_ms));
        let live = Live { world, steps: RefCell::new(steps), looks: Cell::new(0) };
        if live.world.disk(NODE).read(&PathBuf::from(DIR).join("rings/current")).is_some() {
            let findings = verify(&live, Path::new(DIR)).expect("a verdict");
            prop_assert!(findings.damages.is_empty(), "{}", told(&findings));
            prop_assert!(live.world.is_running(NODE), "{:?}", live.world.death(NODE));
        }
    }

    #[test]
    fn nothing_is_called_damaged_that_a_kill_or_a_power_cut_leaves_at_any_moment(
        seed in 0u64..1_000_000,
        lives in proptest::collection::vec((1u64..2_000_000, any::<bool>()), 1..4),
    ) {
        let world = World::new(seed);
        for (us, power) in lives {
            busy(&world);
            world.run_for(Duration::from_micros(us));
            prop_assert!(world.is_running(NODE), "{:?}", world.death(NODE));
            let end = if power { End::PowerCut } else { End::Kill };
            let memory = ended(&world, end);
            // A power cut in the very first start keeps any of its names; without an identity the next one begins anew.
            let is_there = |name: &&str| memory.files.contains_key(&PathBuf::from(DIR).join(name));
            if ["storage", "rings/current"].iter().all(is_there) {
                let findings = verify(&memory, Path::new(DIR)).expect("a verdict");
                prop_assert!(findings.damages.is_empty(), "{}", told(&findings));
            }
        }
    }
}

#[test]
fn a_wrong_bit_is_found_although_the_node_goes_on_writing() {
    let world = World::new(5);
    busy(&world);
    let sealed = PathBuf::from(DIR).join("orders-1/00000000000000000000.log");
    let disk = world.disk(NODE);
    let is_sealed = || disk.read(&sealed.with_extension("meta")).is_some();
    world.run_until(is_sealed, Duration::from_secs(60)).expect("a sealed segment");
    world.run_for(Duration::from_millis(100));
    disk.flip(&sealed, 500, 3);
    let live = Live { world, steps: RefCell::new(vec![900]), looks: Cell::new(0) };
    let findings = verify(&live, Path::new(DIR)).expect("a verdict");
    assert_eq!(findings.damages.len(), 1, "{}", told(&findings));
    assert_eq!(findings.damages[0].path, sealed);
}
