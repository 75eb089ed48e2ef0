//! Topic ids and their like (KIP-516).

use std::fmt;
use std::str::FromStr;

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// A 128-bit id: 16 bytes on the wire, 22 characters of base64url in print, as Kafka's tools show it.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Uuid(pub [u8; 16]);

impl Uuid {
    /// All zeros: no id. Requests that know only the name carry it.
    pub const ZERO: Self = Self([0; 16]);

    /// Whether it is [`Self::ZERO`].
    #[must_use]
    pub fn is_zero(&self) -> bool {
        *self == Self::ZERO
    }
}

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = [0u8; 22];
        let bits = u128::from_be_bytes(self.0);
        for (index, character) in text.iter_mut().enumerate() {
            // 22 characters are 132 bits, so the last one ends in four zeros that are not part of the id.
            let shift = 122_i32 - 6 * index as i32;
            let six = if shift >= 0 { bits >> shift } else { bits << -shift };
            *character = ALPHABET[(six & 0x3f) as usize];
        }
        f.write_str(std::str::from_utf8(&text).unwrap_or_default())
    }
}

impl fmt::Debug for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A text that is no [`Uuid`]: not 22 characters of base64url, or with bits set behind the 128th.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not an id of 22 characters of base64url")]
pub struct UuidError(String);

impl FromStr for Uuid {
    type Err = UuidError;

    fn from_str(text: &str) -> Result<Self, UuidError> {
        let error = || UuidError(text.chars().take(64).collect());
        if text.len() != 22 {
            return Err(error());
        }
        let mut bits = 0u128;
        for (index, character) in text.bytes().enumerate() {
            let six = ALPHABET.iter().position(|c| *c == character).ok_or_else(error)? as u128;
            let shift = 122_i32 - 6 * index as i32;
            if shift >= 0 {
                bits |= six << shift;
            } else if six.trailing_zeros() as i32 >= -shift {
                bits |= six >> -shift;
            } else {
                return Err(error());
            }
        }
        Ok(Self(bits.to_be_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ids_print_as_kafka_prints_them() {
        assert_eq!(Uuid::ZERO.to_string(), "AAAAAAAAAAAAAAAAAAAAAA");
        assert_eq!(Uuid(*b"7x1Eo2vjRxuA0tzS").to_string(), "N3gxRW8ydmpSeHVBMHR6Uw");
        assert!("N3gxRW8ydmpSeHVBMHR6Ux".parse::<Uuid>().is_err(), "bits behind the last");
        assert!("N3gxRW8ydmpSeHVBMHR6U+".parse::<Uuid>().is_err());
    }

    proptest! {
        #[test]
        fn every_id_reads_back_from_its_print(bytes: [u8; 16]) {
            prop_assert_eq!(Uuid(bytes).to_string().parse(), Ok(Uuid(bytes)));
        }

        #[test]
        fn any_text_is_read_or_refused(text: String) {
            if let Ok(id) = text.parse::<Uuid>() {
                prop_assert_eq!(id.to_string(), text);
            }
        }
    }
}
