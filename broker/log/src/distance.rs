//! How many bytes lie behind an offset: what a group still has to read.

use std::rc::Rc;

use crate::error::Result;
use crate::limits::INDEX_INTERVAL;
use crate::log::Log;

impl Log {
    /// Bytes of the batch that holds `offset` and of all flushed ones behind it. Walks headers of less than one interval
    /// of the coarse index.
    ///
    /// # Errors
    /// If the segment cannot be read.
    pub async fn bytes_from(self: &Rc<Self>, offset: i64) -> Result<u64> {
        let (segment, behind) = {
            let state = self.state();
            let flushed = &state.flushed;
            if offset >= flushed.end {
                return Ok(0);
            }
            let offset = offset.max(flushed.log_start);
            let Some(segment) = flushed.segment_of(offset).cloned() else { return Ok(0) };
            let base = segment.base;
            let later = flushed.segments.iter().filter(|s| s.base > base);
            (segment, later.map(|s| s.length).sum::<u64>())
        };
        let from = self.index_floor(&segment, offset).await?;
        let length = segment.length;
        let mut walker = self.walker(segment, INDEX_INTERVAL as usize)?;
        let first = walker.find(offset, from).await?;
        Ok(behind + first.map_or(0, |batch| length - batch.position))
    }
}
