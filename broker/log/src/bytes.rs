//! Little-endian writing and checked reading, for the structures of FORMAT.md.

/// Bytes that do not parse: where, and what was wanted. Callers add the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Malformed {
    pub at: usize,
    pub what: &'static str,
    pub got: String,
    pub expected: String,
}

pub(crate) type Parse<T> = std::result::Result<T, Malformed>;

pub(crate) trait Put {
    fn put(&mut self, bytes: &[u8]);

    fn u8(&mut self, v: u8) {
        self.put(&[v]);
    }
    fn u16(&mut self, v: u16) {
        self.put(&v.to_le_bytes());
    }
    fn u32(&mut self, v: u32) {
        self.put(&v.to_le_bytes());
    }
    fn u64(&mut self, v: u64) {
        self.put(&v.to_le_bytes());
    }
    fn i16(&mut self, v: i16) {
        self.put(&v.to_le_bytes());
    }
    fn i32(&mut self, v: i32) {
        self.put(&v.to_le_bytes());
    }
    fn i64(&mut self, v: i64) {
        self.put(&v.to_le_bytes());
    }
    fn count(&mut self, n: usize) {
        self.u32(u32::try_from(n).expect("no list of ours has 2^32 elements"));
    }
    fn string(&mut self, s: &str) {
        self.u16(u16::try_from(s.len()).expect("no string of ours has 64 KiB"));
        self.put(s.as_bytes());
    }
}

impl Put for Vec<u8> {
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

impl Put for rillway_io::AppendBuffer {
    fn put(&mut self, bytes: &[u8]) {
        self.extend(bytes);
    }
}

/// A cursor over bytes from a disk.
pub(crate) struct Take<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Take<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Take { bytes, at: 0 }
    }

    pub(crate) fn remaining(&self) -> usize {
        self.bytes.len() - self.at
    }

    pub(crate) fn fail<T>(
        &self,
        what: &'static str,
        got: impl ToString,
        expected: impl ToString,
    ) -> Parse<T> {
        Err(Malformed { at: self.at, what, got: got.to_string(), expected: expected.to_string() })
    }

    pub(crate) fn bytes(&mut self, n: usize) -> Parse<&'a [u8]> {
        match self.bytes.get(self.at..).and_then(|rest| rest.get(..n)) {
            Some(found) => {
                self.at += n;
                Ok(found)
            }
            None => self.fail(
                "length",
                format!("{} bytes left", self.remaining()),
                format!("{n} bytes"),
            ),
        }
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Parse<[u8; N]> {
        let mut out = [0; N];
        out.copy_from_slice(self.bytes(N)?);
        Ok(out)
    }

    pub(crate) fn u8(&mut self) -> Parse<u8> {
        Ok(self.array::<1>()?[0])
    }
    pub(crate) fn u16(&mut self) -> Parse<u16> {
        Ok(u16::from_le_bytes(self.array()?))
    }
    pub(crate) fn u32(&mut self) -> Parse<u32> {
        Ok(u32::from_le_bytes(self.array()?))
    }
    pub(crate) fn u64(&mut self) -> Parse<u64> {
        Ok(u64::from_le_bytes(self.array()?))
    }
    pub(crate) fn i16(&mut self) -> Parse<i16> {
        Ok(i16::from_le_bytes(self.array()?))
    }
    pub(crate) fn i32(&mut self) -> Parse<i32> {
        Ok(i32::from_le_bytes(self.array()?))
    }
    pub(crate) fn i64(&mut self) -> Parse<i64> {
        Ok(i64::from_le_bytes(self.array()?))
    }

    pub(crate) fn string(&mut self) -> Parse<&'a str> {
        let n = usize::from(self.u16()?);
        let raw = self.bytes(n)?;
        match std::str::from_utf8(raw) {
            Ok(s) => Ok(s),
            Err(_) => self.fail("string", "bytes that are not UTF-8", "UTF-8"),
        }
    }

    /// A u32 count of elements of at least `size` bytes each; refused if they cannot fit what is left, so that no
    /// allocation follows a claim.
    pub(crate) fn count(&mut self, size: usize) -> Parse<usize> {
        let n = self.u32()? as usize;
        if n.checked_mul(size).is_none_or(|total| total > self.remaining()) {
            return self.fail("count", n, format!("at most {}", self.remaining() / size));
        }
        Ok(n)
    }

    pub(crate) fn zeros(&mut self, n: usize) -> Parse<()> {
        let raw = self.bytes(n)?;
        match raw.iter().find(|b| **b != 0) {
            Some(b) => self.fail("reserved bytes", format!("{b:#04x}"), "zero"),
            None => Ok(()),
        }
    }

    pub(crate) fn end(&self) -> Parse<()> {
        if self.remaining() == 0 {
            Ok(())
        } else {
            self.fail("end", format!("{} bytes more", self.remaining()), "the end")
        }
    }
}

/// CRC-32C that is seeded with a ring's salt (FORMAT.md 3.1).
pub(crate) fn salted_crc(salt: u64, bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&salt.to_le_bytes()), bytes)
}
