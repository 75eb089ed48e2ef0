//! Cuts a stream of bytes into frames, without taking memory for a length before its bytes have come.

use bytes::Bytes;
use rillway_wire::{DecodeError, frame_len};

/// Bytes asked for when nothing is known of the next frame: one read then brings several small answers.
const READ: usize = 64 << 10;
/// Most bytes asked for at once inside a large frame.
const READ_LARGE: usize = 1 << 20;

/// What was received and not yet handed on: at most one frame, and one read behind it.
#[derive(Debug, Default)]
pub(super) struct Frames {
    bytes: Vec<u8>,
}

impl Frames {
    /// Lends what there is, to be appended to; [`Self::extend`] takes it back.
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
        let Some((prefix, rest)) = self.bytes.split_first_chunk::<4>() else {
            return Ok(None);
        };
        let len = frame_len(*prefix, limit)?;
        if rest.len() < len {
            return Ok(None);
        }
        let behind = self.bytes.split_off(4 + len);
        let frame = std::mem::replace(&mut self.bytes, behind);
        Ok(Some(Bytes::from(frame).slice(4..)))
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
