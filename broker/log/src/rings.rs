//! Making a ring: preallocated, pre-written, identified (FORMAT.md 3), with its first checkpoint.

use std::path::{Path, PathBuf};

use rillway_io::{Chunk, DirectFile, Disk, OpenOptions};

use crate::bytes::{Put, Take, salted_crc};
use crate::checkpoint::CheckpointHeader;
use crate::error::{Error, Result};
use crate::ids::{RingId, Sequence};
use crate::limits::{BLOCK, FORMAT_VERSION, RING_BYTES_MIN};
use crate::storage::RingRef;

const MAGIC: &[u8; 8] = b"RWRING01";
const HEADER_LEN: usize = 52;
/// What a ring is pre-written with: some devices turn zeros into holes, and then a commit would allocate.
pub(crate) const PATTERN: u8 = 0xa5;
const WRITE: usize = 1 << 20;
const CHECKPOINT_STEP: u64 = 256 << 10;

/// Where frames begin.
pub(crate) const FRAMES_START: u64 = BLOCK as u64;

pub(crate) fn ring_path(dir: &Path, id: RingId) -> PathBuf {
    dir.join("rings").join(format!("{id}.ring"))
}

pub(crate) fn checkpoint_path(dir: &Path, id: RingId, slot: usize) -> PathBuf {
    dir.join("rings").join(format!("{id}.{}", ["a", "b"][slot]))
}

/// A body of checkpoint records, with what its header says of them.
#[derive(Default)]
pub(crate) struct CheckpointBody {
    pub bytes: Vec<u8>,
    pub partitions: u32,
    pub deletions: u32,
    pub next_producer_id: i64,
}

/// Creates ring and first checkpoint, and flushes both. Nothing lists the ring yet.
pub(crate) async fn create_ring(
    disk: &Disk,
    ring: &RingRef,
    body: CheckpointBody,
    wall_ms: i64,
) -> Result<()> {
    if ring.bytes < RING_BYTES_MIN || !ring.bytes.is_multiple_of(BLOCK as u64) {
        return Err(Error::Config {
            what: "ring.bytes",
            got: ring.bytes.to_string(),
            expected: format!("a multiple of {BLOCK} that is at least {RING_BYTES_MIN}"),
        });
    }
    let path = ring_path(&ring.dir, ring.id);
    let file = disk
        .open(
            &path,
            OpenOptions { write: true, create: true, truncate: true, ..Default::default() },
        )
        .await?;
    file.allocate(0, ring.bytes).await.map_err(|e| no_space(e, &path, "a ring"))?;
    let pattern = Chunk::copy_from(&vec![PATTERN; WRITE]);
    let mut position = 0;
    while position < ring.bytes {
        let n = WRITE.min((ring.bytes - position) as usize);
        file.write_at(pattern.slice(0..n), position).await?;
        position += n as u64;
    }
    file.write_at(Chunk::copy_from(&header_block(ring)), 0).await?;
    file.fdatasync().await?;
    file.close().await?;

    let header = CheckpointHeader {
        clean: true,
        storage: ring.storage,
        ring: ring.id,
        number: 1,
        replay_position: FRAMES_START,
        replay_sequence: Sequence(1),
        previous_crc: 0,
        body_crc: salted_crc(ring.salt, &body.bytes),
        body_len: body.bytes.len() as u64,
        wall_ms,
        next_producer_id: body.next_producer_id,
        partitions: body.partitions,
        deletions: body.deletions,
    };
    for slot in 0..2 {
        let path = checkpoint_path(&ring.dir, ring.id, slot);
        let file = disk
            .open(
                &path,
                OpenOptions { write: true, create: true, truncate: true, ..Default::default() },
            )
            .await?;
        grow_checkpoint(&file, 0, body.bytes.len()).await?;
        // The second file stays empty: its turn is next.
        if slot == 0 {
            write_checkpoint(&file, &header, ring.salt, &body.bytes).await?;
        }
        file.close().await?;
    }
    disk.sync_dir(&ring.dir.join("rings")).await?;
    Ok(())
}

/// Makes room for a body in a checkpoint file of `known` bytes, with some to spare, and returns its new size. The room is
/// written once, so that the flush of a checkpoint changes no metadata and waits for no transaction.
pub(crate) async fn grow_checkpoint(file: &DirectFile, known: u64, body: usize) -> Result<u64> {
    let need = (BLOCK + body).next_multiple_of(BLOCK) as u64;
    if need <= known {
        return Ok(known);
    }
    let wanted = (need + need / 4).next_multiple_of(CHECKPOINT_STEP);
    file.allocate(known, wanted - known)
        .await
        .map_err(|e| no_space(e, file.path(), "a checkpoint"))?;
    let pattern = Chunk::copy_from(&vec![PATTERN; WRITE]);
    let mut position = known;
    while position < wanted {
        let n = WRITE.min((wanted - position) as usize);
        file.write_at(pattern.slice(0..n), position).await?;
        position += n as u64;
    }
    file.fdatasync().await?;
    Ok(wanted)
}

/// Writes body, then header, then flushes. Torn in any way, the checksums tell.
pub(crate) async fn write_checkpoint(
    file: &DirectFile,
    header: &CheckpointHeader,
    salt: u64,
    body: &[u8],
) -> Result<()> {
    let mut position = BLOCK;
    for piece in body.chunks(WRITE) {
        let mut block = piece.to_vec();
        block.resize(piece.len().next_multiple_of(BLOCK), 0);
        file.write_at(Chunk::copy_from(&block), position as u64).await?;
        position += block.len();
    }
    file.write_at(Chunk::copy_from(&header.encode(salt)), 0).await?;
    file.fdatasync().await?;
    Ok(())
}

fn header_block(ring: &RingRef) -> Vec<u8> {
    let mut out = Vec::with_capacity(BLOCK);
    out.put(MAGIC);
    out.u16(FORMAT_VERSION);
    out.put(&[0; 6]);
    out.put(&ring.storage);
    out.u64(ring.id.0);
    out.u64(ring.bytes);
    let crc = crc32c::crc32c(&out);
    out.u32(crc);
    out.resize(BLOCK, 0);
    out
}

/// Checks a ring's block 0 against the line of `rings/current` that led to it.
pub(crate) fn check_header(path: &Path, ring: &RingRef, block: &[u8]) -> Result<()> {
    let bad =
        |what, got: String, expected: String| Err(Error::corrupt(path, 0, what, got, expected));
    let Some(header) = block.get(..HEADER_LEN) else {
        return bad("length", format!("{} bytes", block.len()), format!("{BLOCK} bytes at least"));
    };
    if &header[..8] != MAGIC {
        return bad("magic", format!("{:02x?}", &header[..8]), "RWRING01".to_owned());
    }
    let version = u16::from_le_bytes([header[8], header[9]]);
    if version != FORMAT_VERSION {
        return Err(Error::Version {
            path: path.into(),
            got: version.into(),
            expected: FORMAT_VERSION.into(),
        });
    }
    let parsed = || {
        let mut t = Take::new(&header[16..]);
        Ok::<_, crate::bytes::Malformed>((t.array::<16>()?, t.u64()?, t.u64()?, t.u32()?))
    };
    let Ok((storage, id, bytes, crc)) = parsed() else {
        return bad("length", format!("{} bytes", block.len()), format!("{HEADER_LEN} bytes"));
    };
    let computed = crc32c::crc32c(&header[..HEADER_LEN - 4]);
    if crc != computed {
        return bad("header CRC", format!("{crc:08x}"), format!("{computed:08x}"));
    }
    if storage != ring.storage {
        return Err(Error::ForeignStorage {
            path: path.into(),
            got: crate::directory::hex(&storage),
            expected: crate::directory::hex(&ring.storage),
        });
    }
    if (id, bytes) != (ring.id.0, ring.bytes) {
        return bad(
            "ring id and size",
            format!("{id}, {bytes}"),
            format!("{}, {}", ring.id, ring.bytes),
        );
    }
    Ok(())
}

pub(crate) fn no_space(e: rillway_io::Error, path: &Path, what: &str) -> Error {
    if e.is_no_space() {
        Error::NoSpace { path: path.into(), what: what.to_owned() }
    } else {
        e.into()
    }
}
