//! Cuts a stream of bytes into frames, without taking memory for a length before its bytes have come.

use bytes::Bytes;
use rillway_wire::{DecodeError, frame_len};

/// Bytes asked for when nothing is known of the next frame: one read then brings several small answers.
const READ: usize = 64 << 10;
/// Most bytes asked for at once inside a large frame.
const READ_LARGE: usize = 1 << 20;

/// What was received and not yet handed on: the whole frames of one read, and at most one that has begun.
#[derive(Debug, Default)]
pub(super) struct Frames {
    /// Whole frames, handed on as slices: sixty small answers that came with one read cost one allocation, not sixty.
    whole: Bytes,
    /// What stands behind them.
    bytes: Vec<u8>,
}

impl Frames {
    /// Lends what has begun, to be appended to; [`Self::extend`] takes it back.
    pub(super) fn lend(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.bytes)
    }

    /// Takes received bytes, behind those that were not lent.
    pub(super) fn extend(&mut self, mut bytes: Vec<u8>) {
        if self.bytes.is_empty() {
            self.bytes = bytes;
        } else {
            self.bytes.append(&mut bytes);
        }
    }

    /// The content of the next whole frame, without its length.
    ///
    /// # Errors
    /// A length that is negative or above `limit`.
    pub(super) fn next(&mut self, limit: usize) -> Result<Option<Bytes>, DecodeError> {
        if self.whole.is_empty() {
            let end = span(&self.bytes, limit)?;
            if end == 0 {
                return Ok(None);
            }
            let behind = self.bytes.split_off(end);
            self.whole = Bytes::from(std::mem::replace(&mut self.bytes, behind));
        }
        let prefix = self.whole.first_chunk::<4>().expect("`span` ends behind a whole frame");
        let len = frame_len(*prefix, limit)?;
        let frame = self.whole.split_to(4 + len);
        Ok(Some(frame.slice(4..)))
    }

    /// How many bytes to ask for next.
    #[must_use]
    pub(super) fn want(&self, limit: usize) -> usize {
        let Some((prefix, rest)) = self.bytes.split_first_chunk::<4>() else {
            return READ;
        };
        let missing = frame_len(*prefix, limit).map_or(0, |len| len.saturating_sub(rest.len()));
        missing.clamp(READ, READ_LARGE)
    }
}

/// Where the last whole frame ends; 0: there is none yet.
///
/// # Errors
/// A first length that is negative or above `limit`. A later one is reported when it has become the first.
fn span(bytes: &[u8], limit: usize) -> Result<usize, DecodeError> {
    let mut end = 0;
    while let Some((prefix, rest)) = bytes[end..].split_first_chunk::<4>() {
        match frame_len(*prefix, limit) {
            Ok(len) if len <= rest.len() => end += 4 + len,
            Ok(_) => break,
            Err(_) if end > 0 => break,
            Err(error) => return Err(error),
        }
    }
    Ok(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_out_whole_however_the_stream_was_cut() {
        let mut stream = Vec::new();
        for content in [&b"first"[..], b"", b"a longer third frame"] {
            stream.extend_from_slice(&(content.len() as u32).to_be_bytes());
            stream.extend_from_slice(content);
        }
        for step in 1..stream.len() {
            let (mut frames, mut got) = (Frames::default(), Vec::new());
            for piece in stream.chunks(step) {
                frames.extend(piece.to_vec());
                while let Some(frame) = frames.next(100).expect("all lengths are below 100") {
                    got.push(frame);
                }
            }
            assert_eq!(got, [&b"first"[..], b"", b"a longer third frame"]);
        }
    }

    #[test]
    fn a_length_over_the_limit_is_refused_before_its_bytes_come() {
        let mut frames = Frames::default();
        frames.extend(101u32.to_be_bytes().to_vec());
        assert!(frames.next(100).is_err());
        let mut frames = Frames::default();
        frames.extend((-1i32).to_be_bytes().to_vec());
        assert!(frames.next(100).is_err());
    }
}
