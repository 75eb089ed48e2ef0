//! The trait of everything that stands in a table, and the primitive types of the protocol.

use super::{DecodeError, DecodeErrorKind, Reader, Writer};
use crate::{ErrorCode, Uuid};

/// What decides the form of a field besides its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Context {
    pub version: i16,
    /// Compact lengths and tagged fields (KIP-482).
    pub flexible: bool,
}

/// Something that has a form on the wire. `'a` is the life of the frame it is decoded from.
pub trait Wire<'a>: Sized {
    /// Takes the value from the front of `from`.
    fn decode(from: &mut Reader<'a>, context: Context) -> Result<Self, DecodeError>;

    /// Appends the value. Fields that the version does not have are left out.
    fn encode(&self, to: &mut Writer, context: Context);
}

/// A type with a null. Null where a version has none is refused on decode and written as empty on encode: that is how
/// "all topics" was said in Metadata v0, before null said it.
pub trait Nullable<'a>: Wire<'a> {
    fn is_null(&self) -> bool;

    /// Appends the value, with null as empty.
    fn encode_or_empty(&self, to: &mut Writer, context: Context);
}

/// Decodes a value that may be null only when `allowed`.
pub(crate) fn decode_nullable<'a, T: Nullable<'a>>(
    from: &mut Reader<'a>,
    context: Context,
    allowed: bool,
) -> Result<T, DecodeError> {
    let value = T::decode(from, context)?;
    if value.is_null() && !allowed {
        return Err(DecodeErrorKind::Null.into());
    }
    Ok(value)
}

/// A struct of a table. Where it may be null, a byte stands before it: -1 for null, else there it is.
pub trait Struct {}

impl<'a, T: Wire<'a> + Struct> Wire<'a> for Option<T> {
    fn decode(from: &mut Reader<'a>, context: Context) -> Result<Self, DecodeError> {
        // Every negative byte is null, as in Kafka.
        if i8::decode(from, context)? < 0 { Ok(None) } else { T::decode(from, context).map(Some) }
    }

    fn encode(&self, to: &mut Writer, context: Context) {
        match self {
            Some(value) => {
                1i8.encode(to, context);
                value.encode(to, context);
            }
            None => (-1i8).encode(to, context),
        }
    }
}

macro_rules! integers {
    ($($ty:ty),*) => {$(
        impl<'a> Wire<'a> for $ty {
            fn decode(from: &mut Reader<'a>, _: Context) -> Result<Self, DecodeError> {
                from.fixed().map(<$ty>::from_be_bytes)
            }

            fn encode(&self, to: &mut Writer, _: Context) {
                to.put(&self.to_be_bytes());
            }
        }
    )*};
}

integers!(i8, i16, i32, i64, u16, u32, f64);

impl<'a> Wire<'a> for bool {
    fn decode(from: &mut Reader<'a>, _: Context) -> Result<Self, DecodeError> {
        from.fixed::<1>().map(|[byte]| byte != 0)
    }

    fn encode(&self, to: &mut Writer, _: Context) {
        to.put(&[u8::from(*self)]);
    }
}

impl<'a> Wire<'a> for ErrorCode {
    fn decode(from: &mut Reader<'a>, _: Context) -> Result<Self, DecodeError> {
        from.fixed().map(|bytes| Self::from_wire(i16::from_be_bytes(bytes)))
    }

    fn encode(&self, to: &mut Writer, _: Context) {
        to.put(&self.code().to_be_bytes());
    }
}

impl<'a> Wire<'a> for Uuid {
    fn decode(from: &mut Reader<'a>, _: Context) -> Result<Self, DecodeError> {
        from.fixed().map(Self)
    }

    fn encode(&self, to: &mut Writer, _: Context) {
        to.put(&self.0);
    }
}

impl<'a> Wire<'a> for Option<&'a str> {
    fn decode(from: &mut Reader<'a>, context: Context) -> Result<Self, DecodeError> {
        let len = if context.flexible { from.compact_len()? } else { from.short_len()? };
        let Some(len) = len else { return Ok(None) };
        match std::str::from_utf8(from.take(len)?) {
            Ok(text) => Ok(Some(text)),
            Err(_) => Err(DecodeErrorKind::Utf8.into()),
        }
    }

    fn encode(&self, to: &mut Writer, context: Context) {
        if context.flexible {
            to.compact_len(self.map(str::len));
            to.put(self.unwrap_or_default().as_bytes());
        } else {
            to.short_text(*self);
        }
    }
}

impl<'a> Wire<'a> for Option<&'a [u8]> {
    fn decode(from: &mut Reader<'a>, context: Context) -> Result<Self, DecodeError> {
        let len = if context.flexible { from.compact_len()? } else { from.long_len()? };
        len.map(|len| from.take(len)).transpose()
    }

    fn encode(&self, to: &mut Writer, context: Context) {
        let len = self.map(<[u8]>::len);
        if context.flexible {
            to.compact_len(len);
        } else {
            to.long_len(len);
        }
        to.put(self.unwrap_or_default());
    }
}

macro_rules! never_null {
    ($($ty:ty),*) => {$(
        impl<'a> Wire<'a> for $ty {
            fn decode(from: &mut Reader<'a>, context: Context) -> Result<Self, DecodeError> {
                Option::<Self>::decode(from, context)?.ok_or(DecodeErrorKind::Null.into())
            }

            fn encode(&self, to: &mut Writer, context: Context) {
                Some(*self).encode(to, context);
            }
        }

        impl<'a> Nullable<'a> for Option<$ty> {
            fn is_null(&self) -> bool {
                self.is_none()
            }

            fn encode_or_empty(&self, to: &mut Writer, context: Context) {
                self.unwrap_or_default().encode(to, context);
            }
        }
    )*};
}

never_null!(&'a str, &'a [u8]);
