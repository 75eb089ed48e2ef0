//! Reads the input on a thread of its own, since a pipe or a file may block, and hands it over in blocks of whole
//! records, a bounded number of them.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use bytes::{Buf, Bytes, BytesMut};
use rillway_io::{Inbox, mailbox};

use crate::error::{Error, Result};

/// Size of a block, unless one record is larger.
const BLOCK: usize = 1 << 20;
/// Blocks that wait to be taken.
const BLOCKS: usize = 4;
/// Longest line: a newline that does not come must not fill the memory.
const MAX_LINE: usize = 16 << 20;

/// How the input is cut into records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    /// At newlines, which are not part of the records. A last line without one is a record too.
    Lines,
    /// Every so many bytes; the last record may be shorter.
    Every(usize),
}

/// Some whole records.
#[derive(Debug)]
pub(crate) struct Block {
    /// Number of the first record, from 0.
    pub(crate) first: u64,
    pub(crate) bytes: Bytes,
}

/// The input: its length if it is known, and its blocks. The last thing that comes may be an error.
pub(crate) struct Source {
    pub(crate) len: Option<u64>,
    pub(crate) blocks: Inbox<Result<Block>>,
}

/// Starts to read a file, or standard input for `-`.
pub(crate) fn open(path: &Path, cut: Cut) -> Result<Source> {
    let failed = |source| Error::File { path: path.to_path_buf(), source };
    let (input, len): (Box<dyn Read + Send>, _) = if path == Path::new("-") {
        (Box::new(std::io::stdin()), None)
    } else {
        let file = File::open(path).map_err(failed)?;
        let meta = file.metadata().map_err(failed)?;
        (Box::new(file), meta.is_file().then_some(meta.len()))
    };
    let (to, blocks) = mailbox(BLOCKS);
    let mut reader = Reader {
        path: path.to_path_buf(),
        input,
        cut,
        left: BytesMut::new(),
        next: 0,
        ended: false,
    };
    let thread = std::thread::Builder::new().name("input".to_string());
    let read = move || {
        while let Some(block) = reader.block().transpose() {
            let failed = block.is_err();
            // Nobody takes blocks any more when the rest has failed.
            if to.send_blocking(block).is_err() || failed {
                return;
            }
        }
    };
    thread.spawn(read).map_err(failed)?;
    Ok(Source { len, blocks })
}

struct Reader {
    path: PathBuf,
    input: Box<dyn Read + Send>,
    cut: Cut,
    /// The beginning of the next block.
    left: BytesMut,
    next: u64,
    ended: bool,
}

impl Reader {
    /// The next block; `None` at the end.
    fn block(&mut self) -> Result<Option<Block>> {
        let mut want = match self.cut {
            Cut::Lines => BLOCK,
            Cut::Every(size) => size * (BLOCK / size).max(1),
        };
        loop {
            self.fill(want)?;
            let whole = match self.cut {
                _ if self.ended => self.left.len(),
                Cut::Every(_) => want,
                Cut::Lines => match self.left.iter().rposition(|byte| *byte == b'\n') {
                    Some(last) => last + 1,
                    None if self.left.len() >= MAX_LINE => {
                        let (line, limit) = (self.next + 1, MAX_LINE);
                        return Err(Error::LongLine { line, limit });
                    }
                    None => {
                        want = self.left.len() + BLOCK;
                        continue;
                    }
                },
            };
            if whole == 0 {
                return Ok(None);
            }
            let block = Block { first: self.next, bytes: self.left.split_to(whole).freeze() };
            self.next += records(&block.bytes, self.cut).count() as u64;
            return Ok(Some(block));
        }
    }

    /// Reads until `want` bytes are there, or the end.
    fn fill(&mut self, want: usize) -> Result<()> {
        while self.left.len() < want && !self.ended {
            let have = self.left.len();
            self.left.resize(want, 0);
            let got = self.input.read(&mut self.left[have..]);
            self.left.truncate(have + *got.as_ref().unwrap_or(&0));
            match got {
                Ok(0) => self.ended = true,
                Ok(_) => {}
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(source) => {
                    let path = self.path.clone();
                    return Err(Error::File { path, source });
                }
            }
        }
        Ok(())
    }
}

/// The records of a block.
pub(crate) fn records(block: &Bytes, cut: Cut) -> impl Iterator<Item = Bytes> + use<> {
    let mut rest = block.clone();
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        Some(match cut {
            Cut::Every(size) => rest.split_to(size.min(rest.len())),
            Cut::Lines => match rest.iter().position(|byte| *byte == b'\n') {
                Some(end) => {
                    let line = rest.split_to(end);
                    rest.advance(1);
                    line
                }
                None => rest.split_to(rest.len()),
            },
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(input: &[u8], cut: Cut) -> Vec<(u64, Bytes)> {
        let mut reader = Reader {
            path: PathBuf::from("test"),
            input: Box::new(std::io::Cursor::new(input.to_vec())),
            cut,
            left: BytesMut::new(),
            next: 0,
            ended: false,
        };
        let mut all = Vec::new();
        while let Some(block) = reader.block().expect("memory does not fail") {
            all.extend((block.first..).zip(records(&block.bytes, cut)));
        }
        all
    }

    #[test]
    fn lines_lose_their_newlines_and_nothing_else() {
        let lines: Vec<_> = read(b"a\n\nbc\r\nlast", Cut::Lines);
        let texts: Vec<&[u8]> = lines.iter().map(|(_, line)| &**line).collect();
        assert_eq!(texts, [&b"a"[..], b"", b"bc\r", b"last"]);
        assert!(read(b"", Cut::Lines).is_empty());
        assert_eq!(read(b"\n", Cut::Lines).len(), 1);
    }

    #[test]
    fn chunks_are_numbered_and_only_the_last_is_shorter() {
        let input: Vec<u8> = (0..3 * BLOCK + 5).map(|i| i as u8).collect();
        for size in [1000, BLOCK, BLOCK + 1] {
            let chunks = read(&input, Cut::Every(size));
            assert!(chunks.iter().enumerate().all(|(i, (n, _))| *n == i as u64));
            let (_, last) = chunks.last().expect("a chunk");
            assert_eq!(last.len(), (input.len() - 1) % size + 1);
            assert_eq!(chunks.iter().map(|(_, c)| &**c).collect::<Vec<_>>().concat(), input);
        }
    }

    #[test]
    fn a_line_may_span_blocks_but_not_fill_the_memory() {
        let mut long = vec![b'x'; 2 * BLOCK + 7];
        long.push(b'\n');
        assert_eq!(read(&long, Cut::Lines).len(), 1);
        let mut endless = Reader {
            path: PathBuf::from("test"),
            input: Box::new(std::io::repeat(b'x')),
            cut: Cut::Lines,
            left: BytesMut::new(),
            next: 0,
            ended: false,
        };
        assert!(matches!(endless.block(), Err(Error::LongLine { line: 1, .. })));
    }
}
