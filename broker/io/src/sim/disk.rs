use std::path::Path;

use crate::chunk::Chunk;
use crate::disk::{DirEntry, FsStat, OpenOptions};
use crate::error::Result;
const NO: &str = "this backend follows in the next commit";
#[derive(Clone)]
pub(crate) struct Disk;
#[allow(clippy::unused_async, unused_variables)]
impl Disk {
    pub(crate) async fn open(&self, path: &Path, o: OpenOptions) -> Result<DirectFile> {
        panic!("{NO}")
    }
    pub(crate) async fn create_dir_all(&self, path: &Path) -> Result<()> {
        panic!("{NO}")
    }
    pub(crate) async fn read_dir(&self, path: &Path) -> Result<Vec<DirEntry>> {
        panic!("{NO}")
    }
    pub(crate) async fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        panic!("{NO}")
    }
    pub(crate) async fn remove_file(&self, path: &Path) -> Result<()> {
        panic!("{NO}")
    }
    pub(crate) async fn remove_dir_all(&self, path: &Path) -> Result<()> {
        panic!("{NO}")
    }
    pub(crate) async fn sync_dir(&self, path: &Path) -> Result<()> {
        panic!("{NO}")
    }
    pub(crate) async fn exists(&self, path: &Path) -> Result<bool> {
        panic!("{NO}")
    }
    pub(crate) async fn read_file(&self, path: &Path, max: usize) -> Result<Vec<u8>> {
        panic!("{NO}")
    }
    pub(crate) async fn write_file(&self, path: &Path, bytes: &[u8]) -> Result<()> {
        panic!("{NO}")
    }
    pub(crate) async fn stat_fs(&self, dir: &Path) -> Result<FsStat> {
        panic!("{NO}")
    }
    pub(crate) async fn try_lock(&self, path: &Path) -> Result<Option<FileLock>> {
        panic!("{NO}")
    }
    pub(crate) async fn anchor(&self, dir: &Path) -> Result<SyncAnchor> {
        panic!("{NO}")
    }
}
pub(crate) struct FileLock;
pub(crate) struct DirectFile;
#[allow(clippy::unused_async, unused_variables)]
impl DirectFile {
    pub(crate) async fn write_at(&self, chunk: Chunk, pos: u64) -> Result<()> {
        panic!("{NO}")
    }
    pub(crate) async fn read_at(&self, pos: u64, len: usize) -> Result<Chunk> {
        panic!("{NO}")
    }
    pub(crate) async fn fdatasync(&self) -> Result<()> {
        panic!("{NO}")
    }
    pub(crate) async fn allocate(&self, pos: u64, len: u64) -> Result<()> {
        panic!("{NO}")
    }
    pub(crate) async fn truncate(&self, len: u64) -> Result<()> {
        panic!("{NO}")
    }
    pub(crate) async fn len(&self) -> Result<u64> {
        panic!("{NO}")
    }
    pub(crate) fn try_lock(&self) -> Result<bool> {
        panic!("{NO}")
    }
    pub(crate) fn path(&self) -> &Path {
        panic!("{NO}")
    }
    pub(crate) async fn quiesce(&self) {
        panic!("{NO}")
    }
    pub(crate) async fn close(self) -> Result<()> {
        panic!("{NO}")
    }
}

pub(crate) struct SyncAnchor;
impl SyncAnchor {
    #[allow(clippy::unused_async)]
    pub(crate) async fn syncfs(&self) -> crate::error::Result<()> {
        panic!("this backend follows in the next commit")
    }
}
