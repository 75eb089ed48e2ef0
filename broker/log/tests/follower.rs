//! The second door: batches that another leader assigned are kept as they are, or refused.

mod common;

use common::{Drill, End, batch, topic};
use rillway_log::AppendError;
use rillway_wire::batch::assign;

/// A batch as a leader of that epoch would have assigned it.
fn assigned(offset: i64, epoch: i32) -> Vec<u8> {
    let mut bytes = batch(offset as u64, 2_000);
    assign(&mut bytes, offset, epoch);
    bytes
}

#[test]
fn offsets_and_epochs_of_the_leader_are_kept_over_a_crash() {
    for end in [End::Clean, End::Kill, End::PowerCut] {
        let drill = Drill::new(3);
        drill.life(end, move |n| async move {
            let log = n.log(topic(1)).await;
            for (offset, epoch) in [(0, 4), (1, 4), (2, 7)] {
                let appended =
                    log.append_as_follower(&assigned(offset, epoch)).await.expect("continues");
                assert_eq!(appended.base_offset, offset);
                appended.receipt.wait().await.expect("flushed");
            }
        });
        drill.life(end, move |n| async move {
            let log = n.log(topic(1)).await;
            n.holds(&log, 3, 2_000).await;
            assert_eq!(log.flushed_state().epochs.entries(), [(4, 0), (7, 2)], "{end:?}");
            // Whoever leads next does so in an epoch above all of these.
            assert!(log.leader_epoch() > 7);
        });
    }
}

#[test]
fn a_batch_that_leaves_a_hole_or_comes_from_an_older_leader_is_refused() {
    let drill = Drill::new(3);
    drill.life(End::Clean, |n| async move {
        let log = n.log(topic(1)).await;
        log.append_as_follower(&assigned(0, 5))
            .await
            .expect("the first")
            .receipt
            .wait()
            .await
            .expect("flushed");
        for (offset, epoch) in [(2, 5), (0, 5), (1, 4)] {
            let refused = log.append_as_follower(&assigned(offset, epoch)).await.err();
            assert!(
                matches!(refused, Some(AppendError::NotTheNext { .. })),
                "{offset} {epoch}: {refused:?}"
            );
        }
        assert_eq!(log.flushed_end(), 1);
    });
}

#[test]
fn a_life_that_leads_after_following_begins_a_new_epoch_with_its_first_append() {
    let drill = Drill::new(3);
    drill.life(End::PowerCut, |n| async move {
        let log = n.log(topic(1)).await;
        log.append_as_follower(&assigned(0, 5))
            .await
            .expect("the first")
            .receipt
            .wait()
            .await
            .expect("flushed");
    });
    drill.life(End::PowerCut, |n| async move {
        let log = n.log(topic(1)).await;
        assert_eq!(n.append(&log, &batch(1, 2_000)).await, 1);
        assert_eq!(log.flushed_state().epochs.entries(), [(5, 0), (6, 1)]);
    });
    drill.life(End::Clean, |n| async move {
        let log = n.log(topic(1)).await;
        n.holds(&log, 2, 2_000).await;
        assert_eq!(log.leader_epoch(), 7);
    });
}
