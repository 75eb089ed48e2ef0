//! Where batches stand: every answer about an offset must agree with every other.

use rillway_wire::batch::batches;

use super::{Order, Partition, Placed, SendId, Shown, State, Ticket, compacted, hash};

impl State {
    pub(super) fn end(&mut self, ticket: &Ticket, end: i64) -> Result<(), String> {
        if end < ticket.end {
            return Err(format!(
                "the log ends at {end}, {} was acknowledged or shown before",
                ticket.end
            ));
        }
        let p = self.partition(ticket);
        p.end = p.end.max(end);
        Ok(())
    }

    pub(super) fn log_start(&mut self, ticket: &Ticket, start: i64) -> Result<(), String> {
        let retention = self.incarnation(ticket).retention_bytes;
        let p = self.partition(ticket);
        if start < ticket.start {
            return Err(format!("the log starts at {start}, it was {} before", ticket.start));
        }
        if start > 0 && retention < 0 {
            return Err(format!("the log starts at {start}, and nothing may have moved it"));
        }
        let split = p.placed.range(..start).next_back().filter(|(base, b)| *base + b.count > start);
        if let Some((base, b)) = split {
            return Err(format!(
                "the log starts at {start}, inside the batch {base}..{}",
                base + b.count
            ));
        }
        p.start = p.start.max(start);
        Ok(())
    }

    pub(super) fn check_shown(
        &mut self,
        ticket: &Ticket,
        shown: &Shown<'_>,
        stable: bool,
    ) -> Result<i64, String> {
        let mut next = shown.offset;
        let mut first = true;
        let compacted = compacted::is_compacted(&ticket.topic);
        if stable {
            self.log_start(ticket, shown.log_start)?;
            self.end(ticket, shown.high_watermark)?;
            if shown.alone && shown.bytes.is_empty() && shown.offset < shown.high_watermark {
                return Err(format!(
                    "nothing at offset {}, below {}",
                    shown.offset, shown.high_watermark
                ));
            }
        }
        for batch in batches(shown.bytes) {
            let batch = batch.map_err(|e| format!("fetch at {}: {e}", shown.offset))?;
            let (base, end) = (batch.base_offset(), batch.next_offset());
            if !batch.check_crc() {
                return Err(format!("the CRC of the batch {base}..{end} does not fit"));
            }
            let follows = if compacted {
                next < end && (first || base >= next)
            } else if first {
                base <= next && next < end
            } else {
                base == next
            };
            if !follows {
                return Err(format!("a batch {base}..{end} where offset {next} was to be"));
            }
            first = false;
            next = end;
            let origin = if compacted {
                self.origin(&batch).map_err(|e| format!("the batch {base}..{end}: {e}"))?
            } else {
                let Some(send) = self.by_hash.get(&hash(batch.bytes())).copied() else {
                    return Err(format!("the batch {base}..{end} was sent by nobody"));
                };
                Some((send, base))
            };
            let Some((send, first_offset)) = origin else { continue };
            if (base, end - base) != (first_offset, self.sent[send.0].count) {
                return Err(format!("the batch {base}..{end} was sent with other offsets"));
            }
            let sent = &self.sent[send.0];
            if (sent.topic.as_str(), sent.index) != (ticket.topic.as_str(), ticket.index) {
                return Err(format!(
                    "the batch {base}..{end} was sent to {}-{}",
                    sent.topic, sent.index
                ));
            }
            if stable {
                if end > shown.high_watermark {
                    return Err(format!(
                        "the batch {base}..{end} is beyond the high watermark {}",
                        shown.high_watermark
                    ));
                }
                self.place(ticket, base, send, Some(batch.leader_epoch()), false)
                    .map_err(|e| format!("shown: {e}"))?;
            }
        }
        Ok(next)
    }

    /// A batch stands at an offset. Everything that was ever said about that offset, and that batch, must agree.
    pub(super) fn place(
        &mut self,
        ticket: &Ticket,
        base: i64,
        send: SendId,
        epoch: Option<i32>,
        acknowledged: bool,
    ) -> Result<(), String> {
        let born = self.incarnation(ticket).born;
        let sent = &mut self.sent[send.0];
        let (count, order, attempts) = (sent.count, sent.order, sent.attempts);
        let end = base + count;
        if sent.last.is_some_and(|last| last < born) {
            return Err(format!(
                "the batch {base}..{end} belongs to a topic of this name that is deleted"
            ));
        }
        if attempts == 0 {
            return Err(format!(
                "the batch {base}..{end} was refused ({order:?}, first sent at change {})",
                sent.first
            ));
        }
        let here = sent.places.iter().filter(|(b, _)| *b == born).count();
        if !sent.places.contains(&(born, base)) {
            let most = match order {
                Order::Producer { .. } => 1,
                Order::Connection { .. } => attempts,
            };
            if here >= most {
                let bytes = sent.bytes;
                return Err(format!(
                    "the batch {base}..{end} ({bytes} bytes, {order:?}) is at {:?} already, sent {attempts} times",
                    sent.places
                ));
            }
            sent.places.push((born, base));
        }
        let p = self.partition(ticket);
        let before = p.placed.range(..end).next_back().map(|(b, x)| (*b, *x));
        if let Some((other, x)) = before
            && (other + x.count > base)
            && (other, x.send) != (base, send)
        {
            let was = if x.acknowledged { "acknowledged" } else { "shown" };
            return Err(format!(
                "the batch at {base}..{end} is another than the one that was {was} at {other}..{}",
                other + x.count
            ));
        }
        if epoch.is_some() {
            let lower = p.placed.range(..base).next_back().and_then(|(_, x)| x.epoch);
            let upper = p.placed.range(end..).next().and_then(|(_, x)| x.epoch);
            if lower.is_some_and(|l| Some(l) > epoch) || upper.is_some_and(|u| Some(u) < epoch) {
                return Err(format!(
                    "leader epoch {epoch:?} at {base}, between {lower:?} and {upper:?}"
                ));
            }
        }
        let placed = p.placed.entry(base).or_insert(Placed { send, count, epoch, acknowledged });
        placed.acknowledged |= acknowledged;
        if let (Some(was), Some(is)) = (placed.epoch, epoch)
            && was != is
        {
            return Err(format!("the batch at {base} has leader epoch {is}, it was {was}"));
        }
        placed.epoch = placed.epoch.or(epoch);
        p.end = p.end.max(end);
        // A retried batch without a producer id may stand anywhere, once for each attempt.
        if matches!(order, Order::Connection { .. }) && attempts > 1 {
            return Ok(());
        }
        p.in_order(order, base)
    }
}

impl Partition {
    fn in_order(&mut self, order: Order, base: i64) -> Result<(), String> {
        let same = |other: &Order| match (order, other) {
            (Order::Connection { connection: a, .. }, Order::Connection { connection: b, .. }) => {
                a == *b
            }
            (Order::Producer { id: a, .. }, Order::Producer { id: b, .. }) => a == *b,
            (Order::Connection { .. }, Order::Producer { .. })
            | (Order::Producer { .. }, Order::Connection { .. }) => false,
        };
        let before = self.orders.range(..order).next_back().filter(|(o, _)| same(o));
        let after = self
            .orders
            .range((std::ops::Bound::Excluded(order), std::ops::Bound::Unbounded))
            .next()
            .filter(|(o, _)| same(o));
        if let Some((o, at)) =
            before.filter(|(_, at)| **at >= base).or(after.filter(|(_, at)| **at <= base))
        {
            return Err(format!("order: {order:?} stands at {base}, and {o:?} at {at}"));
        }
        self.orders.insert(order, base);
        Ok(())
    }
}
