//! Writes the output on a thread of its own; a bounded number of pieces waits for it.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;

use bytes::Bytes;
use rillway_io::{Mailbox, mailbox};

use crate::error::{Error, Result};

/// Pieces that wait to be written, of at most [`PIECE`] bytes or one record.
const PIECES: usize = 16;
/// What is collected before it is handed over.
const PIECE: usize = 1 << 20;

/// The output. Nothing is promised to be written before [`Sink::finish`].
pub(crate) struct Sink {
    path: PathBuf,
    to: Mailbox<Vec<Bytes>>,
    piece: Vec<Bytes>,
    size: usize,
    thread: JoinHandle<std::io::Result<()>>,
}

impl Sink {
    /// Creates the file, or writes to standard output for `-`.
    pub(crate) fn create(path: &Path) -> Result<Self> {
        let failed = |source| Error::File { path: path.to_path_buf(), source };
        let output: Box<dyn Write + Send> = if path == Path::new("-") {
            Box::new(std::io::stdout())
        } else {
            Box::new(File::create(path).map_err(failed)?)
        };
        let (to, mut pieces) = mailbox::<Vec<Bytes>>(PIECES);
        let write = move || {
            let mut output = BufWriter::with_capacity(256 << 10, output);
            while let Some(piece) = pieces.recv_blocking() {
                for bytes in piece {
                    output.write_all(&bytes)?;
                }
            }
            output.flush()
        };
        let thread = std::thread::Builder::new().name("output".to_string());
        Ok(Self {
            path: path.to_path_buf(),
            to,
            piece: Vec::new(),
            size: 0,
            thread: thread.spawn(write).map_err(failed)?,
        })
    }

    /// Appends bytes; waits when the thread is behind.
    pub(crate) async fn write(&mut self, bytes: Bytes) {
        self.size += bytes.len();
        self.piece.push(bytes);
        if self.size >= PIECE {
            self.hand_over().await;
        }
    }

    /// Hands over what was collected: before a wait for more.
    pub(crate) async fn hand_over(&mut self) {
        if !self.piece.is_empty() {
            self.size = 0;
            // A thread that is gone has failed; `finish` has its error.
            let _ = self.to.send(std::mem::take(&mut self.piece)).await;
        }
    }

    /// Whether writing has failed; [`Self::finish`] says why.
    pub(crate) fn has_failed(&self) -> bool {
        self.thread.is_finished()
    }

    /// Waits until everything is written.
    pub(crate) async fn finish(mut self) -> Result<()> {
        self.hand_over().await;
        drop(self.to);
        let written = self.thread.join().expect("writing does not panic");
        let path = self.path;
        written.map_err(|source| Error::File { path, source })
    }
}
