//! The rule for topic names.

/// A valid topic name, borrowed: 1 to 249 bytes of `[a-zA-Z0-9._-]`, and neither `.` nor `..`.
///
/// The rule is what makes a name safe as part of a path: 249 leaves room for `-<partition>` in the 255 bytes of a
/// file name, and no name climbs out of its directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TopicName<'a>(&'a str);

/// Longest topic name in bytes.
pub const MAX_TOPIC_NAME: usize = 249;

/// Why a name is refused; the client gets `INVALID_TOPIC_EXCEPTION` with this text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TopicNameError {
    #[error("topic name is empty")]
    Empty,
    #[error("topic name of {0} bytes is longer than {MAX_TOPIC_NAME}")]
    TooLong(usize),
    #[error("topic name may not be '.' or '..'")]
    Dots,
    #[error("topic name contains {0:?}, only [a-zA-Z0-9._-] is allowed")]
    Character(char),
}

impl<'a> TopicName<'a> {
    /// Checks a name.
    ///
    /// # Errors
    /// The part of the rule that it breaks.
    pub fn new(name: &'a str) -> Result<Self, TopicNameError> {
        match name {
            "" => return Err(TopicNameError::Empty),
            "." | ".." => return Err(TopicNameError::Dots),
            _ if name.len() > MAX_TOPIC_NAME => return Err(TopicNameError::TooLong(name.len())),
            _ => {}
        }
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        match name.chars().find(|c| !allowed(*c)) {
            Some(c) => Err(TopicNameError::Character(c)),
            None => Ok(Self(name)),
        }
    }

    /// The name as text.
    #[must_use]
    pub const fn as_str(self) -> &'a str {
        self.0
    }

    /// Whether two names would be one metric: Kafka refuses to create a topic whose name differs from an existing one
    /// only in `.` and `_`.
    #[must_use]
    pub fn collides_with(self, other: Self) -> bool {
        let fold = |b: u8| if b == b'.' { b'_' } else { b };
        self.0.bytes().map(fold).eq(other.0.bytes().map(fold))
    }
}

impl std::fmt::Display for TopicName<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_could_leave_their_directory_are_refused() {
        for bad in ["", ".", "..", "a/b", "a\0", "ä", "a b", "a\n"] {
            assert!(TopicName::new(bad).is_err(), "{bad:?}");
        }
        assert_eq!(TopicName::new("a/b"), Err(TopicNameError::Character('/')));
    }

    #[test]
    fn names_up_to_249_bytes_are_accepted() {
        for good in ["a", "...", "__consumer_offsets", "Orders.v1-eu_WEST", &"x".repeat(249)] {
            assert_eq!(TopicName::new(good).map(TopicName::as_str), Ok(good));
        }
        assert_eq!(TopicName::new(&"x".repeat(250)), Err(TopicNameError::TooLong(250)));
    }

    #[test]
    fn dots_and_underscores_are_the_same_to_metrics() {
        let name = |n| TopicName::new(n).expect("a valid name");
        assert!(name("a.b_c").collides_with(name("a_b.c")));
        assert!(!name("a.b").collides_with(name("a-b")));
    }
}
