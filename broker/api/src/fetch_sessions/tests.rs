use super::*;

/// A cache on core 1 of 2, and a clock.
struct World {
    sessions: FetchSessions,
    now: Instant,
    random: u64,
}

const QUIET: Answered =
    Answered { told: Told { high_watermark: 0, log_start: 0 }, has_records: false, failed: false };

fn wanted(name: &str, index: i32) -> Wanted {
    Wanted {
        topic: TopicKey::Name(Rc::from(name)),
        index,
        offset: 0,
        max_bytes: 100,
        leader_epoch: -1,
    }
}

impl World {
    fn new(slots: usize) -> World {
        World { sessions: FetchSessions::new(slots, 1, 2), now: Instant::ZERO, random: 0 }
    }

    fn create(&mut self, partitions: i32) -> i32 {
        let answered: Vec<_> =
            (0..partitions).map(|index| (wanted("t", index), None, QUIET)).collect();
        let random = &mut self.random;
        self.sessions.create(self.now, false, answered.into_iter(), || {
            *random += 1;
            *random
        })
    }

    fn open(&mut self, id: i32, epoch: i32, put: &[i32], forget: &[i32]) -> Opened {
        let naming = Naming { id, epoch, by_id: false };
        let put = put.iter().map(|index| wanted("t", *index));
        let forget = forget.iter().map(|index| (wanted("t", 0).topic, *index));
        self.sessions.open(self.now, naming, put, forget)
    }

    fn next(&mut self, id: i32, epoch: i32) -> Rc<RefCell<Session>> {
        match self.open(id, epoch, &[], &[]) {
            Opened::Incremental(session, now) => {
                assert_eq!(now, next_epoch(epoch));
                session
            }
            other => panic!("session {id} at {epoch}: {other:?}"),
        }
    }
}

impl std::fmt::Debug for Opened {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Opened::Sessionless => f.write_str("Sessionless"),
            Opened::New => f.write_str("New"),
            Opened::Incremental(_, epoch) => write!(f, "Incremental({epoch})"),
            Opened::Refused(code) => write!(f, "Refused({code})"),
        }
    }
}

fn order(session: &Rc<RefCell<Session>>) -> Vec<i32> {
    session.borrow_mut().members().map(|(_, m)| m.wanted.index).collect()
}

#[test]
fn ids_are_positive_and_of_their_core() {
    let mut world = World::new(10);
    for _ in 0..10 {
        let id = world.create(1);
        assert!(id > 0 && id % 2 == 1, "{id}");
    }
    assert_eq!(world.create(1), 0, "the young are not evicted");
}

#[test]
fn epochs_are_counted_and_the_end_ends_the_session() {
    let mut world = World::new(10);
    let id = world.create(2);
    assert_eq!(order(&world.next(id, 1)), [0, 1]);
    world.next(id, 2);
    assert!(matches!(
        world.open(id, 2, &[], &[]),
        Opened::Refused(ErrorCode::InvalidFetchSessionEpoch)
    ));
    assert!(matches!(
        world.open(id + 2, 1, &[], &[]),
        Opened::Refused(ErrorCode::FetchSessionIdNotFound)
    ));
    assert!(matches!(world.open(id, FINAL_EPOCH, &[], &[]), Opened::Sessionless));
    assert!(matches!(
        world.open(id, 3, &[], &[]),
        Opened::Refused(ErrorCode::FetchSessionIdNotFound)
    ));
    assert_eq!(world.sessions.bytes, 0);
    assert!(world.sessions.by_use.is_empty() && world.sessions.by_size.is_empty());
    assert_eq!(next_epoch(i32::MAX), 1);
}

#[test]
fn a_new_session_replaces_the_one_that_its_request_names() {
    let mut world = World::new(1);
    let id = world.create(2);
    assert!(matches!(world.open(id, INITIAL_EPOCH, &[], &[]), Opened::New));
    assert_ne!(world.create(2), 0);
}

#[test]
fn partitions_come_and_go_and_an_empty_session_ends() {
    let mut world = World::new(10);
    let id = world.create(2);
    assert!(matches!(world.open(id, 1, &[5], &[0]), Opened::Incremental(_, 2)));
    assert_eq!(order(&world.next(id, 2)), [1, 5]);
    assert!(matches!(world.open(id, 3, &[], &[1, 5, 7]), Opened::Sessionless));
    assert_eq!(world.sessions.bytes, 0);
}

#[test]
fn names_and_ids_of_topics_do_not_mix_in_a_session() {
    let mut world = World::new(10);
    let id = world.create(2);
    let naming = Naming { id, epoch: 1, by_id: true };
    let opened = world.sessions.open(world.now, naming, std::iter::empty(), std::iter::empty());
    assert!(matches!(opened, Opened::Refused(ErrorCode::FetchSessionTopicIdError)));
}

#[test]
fn only_records_errors_and_new_ends_are_told_and_those_with_records_go_last() {
    let mut world = World::new(10);
    let id = world.create(3);
    let session = world.next(id, 1);
    let turns: Vec<Turn> = session.borrow_mut().members().map(|(turn, _)| turn).collect();
    let mut s = session.borrow_mut();
    assert!(!s.answer(turns[1], QUIET));
    let grown =
        Answered { told: Told { high_watermark: 5, log_start: 0 }, has_records: false, ..QUIET };
    assert!(s.answer(turns[1], grown));
    assert!(!s.answer(turns[1], grown), "it was told");
    let trimmed = Answered { told: Told { high_watermark: 5, log_start: 3 }, ..QUIET };
    assert!(s.answer(turns[1], trimmed));
    let failed = Answered { told: NOTHING, has_records: false, failed: true };
    assert!(s.answer(turns[2], failed));
    assert!(s.answer(turns[2], failed), "an error is told each time");
    assert!(s.answer(turns[2], QUIET), "and that it has gone");
    assert!(s.answer(turns[0], Answered { has_records: true, ..QUIET }));
    drop(s);
    assert_eq!(order(&session), [1, 2, 0]);
}

#[test]
fn what_rests_longer_than_two_minutes_gives_way_and_the_smallest_of_the_old_to_larger_ones() {
    let mut world = World::new(2);
    let (small, large) = (world.create(1), world.create(5));
    world.now += Duration::from_secs(121);
    // Both are used, so neither rests; both are old now.
    world.next(small, 1);
    world.next(large, 1);
    assert_eq!(world.create(1), 0, "no larger than the smallest");
    let new = world.create(2);
    assert_ne!(new, 0);
    assert!(matches!(world.open(small, 2, &[], &[]), Opened::Refused(_)), "the smallest went");
    world.now += Duration::from_secs(1);
    world.next(large, 2);
    world.now += Duration::from_secs(121);
    assert_ne!(world.create(1), 0, "whatever its size, when one rests");
    assert!(matches!(world.open(new, 1, &[], &[]), Opened::Refused(_)), "the longest unused went");
}

#[test]
fn the_memory_of_all_sessions_has_a_bound() {
    let mut world = World::new(1000);
    let long = "x".repeat(30_000);
    let named = |names: std::ops::Range<usize>| -> Vec<_> {
        names.map(|n| (wanted(&format!("{long}{n}"), 0), None, QUIET)).collect()
    };
    let create = |world: &mut World, names: std::ops::Range<usize>| {
        let mut next = 0;
        world.sessions.create(world.now, false, named(names).into_iter(), || {
            next += 1;
            next
        })
    };
    assert_eq!(create(&mut world, 0..3_000), 0, "more than there is room for");
    assert_eq!(world.sessions.bytes, 0);
    let id = create(&mut world, 0..2_000);
    assert_ne!(id, 0);
    assert_eq!(create(&mut world, 0..1_000), 0);
    let naming = Naming { id, epoch: 1, by_id: false };
    let more = named(2_000..3_000).into_iter().map(|(wanted, ..)| wanted);
    let opened = world.sessions.open(world.now, naming, more, std::iter::empty());
    assert!(matches!(opened, Opened::Refused(ErrorCode::FetchSessionIdNotFound)));
    assert_eq!(world.sessions.bytes, 0);
}

#[test]
fn without_slots_there_are_no_sessions() {
    assert_eq!(World::new(0).create(1), 0);
}
