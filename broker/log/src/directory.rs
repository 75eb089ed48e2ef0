//! The data directory's names and its two text files, `storage` and `rings/current` (FORMAT.md 1).

use std::path::{Path, PathBuf};

use rillway_io::Disk;

use crate::error::{Error, Result};
use crate::ids::{PartitionId, RingId, TopicId};
use crate::limits::FORMAT_VERSION;

const TEXT_MAX: usize = 1 << 20;

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

fn unhex<const N: usize>(text: &str) -> Option<[u8; N]> {
    if text.len() != 2 * N || !text.is_ascii() {
        return None;
    }
    let mut out = [0; N];
    for (i, b) in out.iter_mut().enumerate() {
        *b = u8::from_str_radix(&text[2 * i..2 * i + 2], 16).ok()?;
    }
    Some(out)
}

/// `DIR/storage`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StorageFile {
    pub id: [u8; 16],
}

/// One line of `rings/current`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RingLine {
    pub id: RingId,
    pub salt: u64,
    pub bytes: u64,
}

/// `DIR/rings/current`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CurrentFile {
    pub storage: [u8; 16],
    pub generation: u32,
    pub next: u64,
    pub rings: Vec<RingLine>,
}

fn with_crc(mut text: String) -> String {
    let crc = crc32c::crc32c(text.as_bytes());
    text.push_str(&format!("crc {crc:08x}\n"));
    text
}

/// The lines of a text file after its first, once name, version and checksum fit.
fn checked<'a>(path: &Path, kind: &str, bytes: &'a [u8]) -> Result<Vec<(&'a str, Vec<&'a str>)>> {
    let corrupt =
        |what, got: &str, expected: String| Err(Error::corrupt(path, 0, what, got, expected));
    let Ok(text) = std::str::from_utf8(bytes) else {
        return corrupt("text", "bytes that are not UTF-8", "UTF-8".to_owned());
    };
    let first: Vec<&str> = text.lines().next().unwrap_or("").split(' ').collect();
    if first.first() != Some(&kind) {
        return corrupt("first word", first.first().unwrap_or(&""), kind.to_owned());
    }
    let Some(version) = first.get(1).and_then(|v| v.parse::<u32>().ok()) else {
        return corrupt("version", text.lines().next().unwrap_or(""), format!("{kind} <number>"));
    };
    if version != u32::from(FORMAT_VERSION) {
        return Err(Error::Version {
            path: path.into(),
            got: version,
            expected: FORMAT_VERSION.into(),
        });
    }
    let Some(at) = text.rfind("crc ") else {
        return corrupt("checksum", "none", "a last line `crc ...`".to_owned());
    };
    let computed = format!("crc {:08x}\n", crc32c::crc32c(&bytes[..at]));
    if text[at..] != computed {
        return corrupt("checksum", text[at..].trim_end(), computed.trim_end().to_owned());
    }
    Ok(text[..at]
        .lines()
        .skip(1)
        .map(|line| {
            let mut words = line.split(' ');
            (words.next().unwrap_or(""), words.collect())
        })
        .collect())
}

impl StorageFile {
    pub(crate) fn encode(&self) -> String {
        with_crc(format!("rillway-storage {FORMAT_VERSION}\nid {}\n", hex(&self.id)))
    }

    pub(crate) fn decode(path: &Path, bytes: &[u8]) -> Result<StorageFile> {
        let lines = checked(path, "rillway-storage", bytes)?;
        let id = lines.iter().find(|(k, _)| *k == "id").and_then(|(_, v)| unhex(v.first()?));
        match id {
            Some(id) => Ok(StorageFile { id }),
            None => Err(Error::corrupt(path, 0, "id", "none that parses", "32 hex digits")),
        }
    }
}

impl CurrentFile {
    pub(crate) fn encode(&self) -> String {
        let mut text = format!(
            "rillway-rings {FORMAT_VERSION}\nstorage {}\ngeneration {}\nnext {}\n",
            hex(&self.storage),
            self.generation,
            self.next
        );
        for r in &self.rings {
            text.push_str(&format!("ring {} {:016x} {}\n", r.id, r.salt, r.bytes));
        }
        with_crc(text)
    }

    pub(crate) fn decode(path: &Path, bytes: &[u8]) -> Result<CurrentFile> {
        let lines = checked(path, "rillway-rings", bytes)?;
        let value =
            |key: &str| lines.iter().find(|(k, _)| *k == key).and_then(|(_, v)| v.first().copied());
        let ring = |v: &Vec<&str>| -> Option<RingLine> {
            Some(RingLine {
                id: RingId(v.first()?.parse().ok()?),
                salt: u64::from_str_radix(v.get(1)?, 16).ok()?,
                bytes: v.get(2)?.parse().ok()?,
            })
        };
        let parsed = || -> Option<CurrentFile> {
            Some(CurrentFile {
                storage: unhex(value("storage")?)?,
                generation: value("generation")?.parse().ok()?,
                next: value("next")?.parse().ok()?,
                rings: lines
                    .iter()
                    .filter(|(k, _)| *k == "ring")
                    .map(|(_, v)| ring(v))
                    .collect::<Option<_>>()?,
            })
        };
        match parsed() {
            Some(file) if !file.rings.is_empty() => Ok(file),
            _ => Err(Error::corrupt(
                path,
                0,
                "lines",
                "some that do not parse",
                "storage, generation, next, ring ...",
            )),
        }
    }
}

/// Replaces a small file so that a crash leaves the old one or the new one.
pub(crate) async fn replace_file(disk: &Disk, path: &Path, bytes: &[u8]) -> Result<()> {
    let temporary = path.with_extension("tmp");
    disk.write_file(&temporary, bytes).await?;
    disk.rename(&temporary, path).await?;
    disk.sync_dir(path.parent().expect("our files lie in directories")).await?;
    Ok(())
}

/// A small file's bytes, or `None` if there is none.
pub(crate) async fn read_optional(disk: &Disk, path: &Path) -> Result<Option<Vec<u8>>> {
    match disk.read_file(path, TEXT_MAX).await {
        Ok(bytes) => Ok(Some(bytes)),
        Err(e) if e.is_not_found() => Ok(None),
        Err(e) => Err(e.into()),
    }
}

/// Directory of a partition.
pub(crate) fn partition_dir(dir: &Path, topic: &str, index: u32) -> PathBuf {
    dir.join(format!("{topic}-{index}"))
}

/// Where a partition's directory goes when it is deleted: the topic is cut so that the name fits 255 bytes.
pub(crate) fn deleted_dir(dir: &Path, topic: &str, id: PartitionId) -> PathBuf {
    let suffix = format!("-{}.{}-delete", id.index, id.topic.hex());
    let keep = topic.len().min(255 - suffix.len());
    dir.join(format!("{}{suffix}", &topic[..keep]))
}

pub(crate) fn log_file(base: i64, compaction: u32) -> String {
    if compaction == 0 { format!("{base:020}.log") } else { format!("{base:020}.{compaction}.log") }
}

pub(crate) fn meta_file(base: i64, compaction: u32) -> String {
    if compaction == 0 {
        format!("{base:020}.meta")
    } else {
        format!("{base:020}.{compaction}.meta")
    }
}

/// `partition.metadata`, as Kafka has it.
pub(crate) fn partition_metadata(topic: TopicId) -> String {
    format!("version: 0\ntopic_id: {}\n", topic.base64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_files_read_back_as_they_were_written() {
        let storage = StorageFile { id: [0xab; 16] };
        assert_eq!(
            StorageFile::decode(Path::new("storage"), storage.encode().as_bytes()).unwrap(),
            storage
        );
        let current = CurrentFile {
            storage: [1; 16],
            generation: 4,
            next: 9,
            rings: vec![RingLine { id: RingId(7), salt: 0xfeed, bytes: 8 << 20 }],
        };
        assert_eq!(
            CurrentFile::decode(Path::new("current"), current.encode().as_bytes()).unwrap(),
            current
        );
    }

    #[test]
    fn a_newer_format_is_refused_with_both_versions_named() {
        let text =
            StorageFile { id: [0; 16] }.encode().replace("rillway-storage 1", "rillway-storage 2");
        let message =
            StorageFile::decode(Path::new("storage"), text.as_bytes()).unwrap_err().to_string();
        assert!(message.contains("version 2") && message.contains("version 1"), "{message}");
    }

    #[test]
    fn a_changed_byte_of_a_text_file_is_refused() {
        let good = StorageFile { id: [0x11; 16] }.encode();
        for at in 0..good.len() {
            let mut bad = good.clone().into_bytes();
            bad[at] ^= 1;
            assert!(StorageFile::decode(Path::new("storage"), &bad).is_err(), "byte {at}");
        }
    }

    #[test]
    fn a_deleted_partition_of_the_longest_topic_name_still_fits_a_directory_name() {
        let id = PartitionId { topic: TopicId([9; 16]), index: 99_999 };
        let path = deleted_dir(Path::new("/d"), &"x".repeat(249), id);
        assert!(path.file_name().unwrap().len() <= 255);
    }
}
