//! `SealedFile`: a file that nobody writes any more, sent from the page cache.
//!
//! A descriptor of its own, beside the one for direct input and output. It must be opened after the last direct write
//! has completed: a direct write drops the pages it covers from the cache before and after it, so what is read through
//! this one is what is on the disk (kernel-notes/04-transfer.md). Absent on purpose: reading it into memory.

use std::fmt;
use std::path::Path;
use std::rc::Rc;

use crate::{kernel, sim};

pub(crate) enum SealedBackend {
    Kernel(kernel::sealed::SealedFile),
    Sim(sim::disk::SealedFile),
}

/// An open file that stays as it is. Counted: closed when the last clone is gone.
#[derive(Clone)]
pub struct SealedFile {
    backend: Rc<SealedBackend>,
}

impl SealedFile {
    pub(crate) fn new(backend: SealedBackend) -> SealedFile {
        SealedFile { backend: Rc::new(backend) }
    }

    pub(crate) fn backend(&self) -> &SealedBackend {
        &self.backend
    }

    /// The path it was opened by.
    pub fn path(&self) -> &Path {
        match &*self.backend {
            SealedBackend::Kernel(f) => f.path(),
            SealedBackend::Sim(f) => f.path(),
        }
    }
}

impl fmt::Debug for SealedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SealedFile({})", self.path().display())
    }
}
