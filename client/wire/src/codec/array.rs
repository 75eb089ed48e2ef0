//! Arrays that stay in the frame.
//!
//! An element can be 70 bytes in memory and two on the wire, so an array that is unpacked while it is decoded lets a
//! frame claim 35 times its size: a 100 MiB frame, 3.5 GB. Hence decoding only walks an array, checks every element,
//! and keeps the bytes; the elements are decoded again, one at a time, when somebody iterates. Nothing is allocated for
//! any input, and for the few hundred elements of honest requests the second walk costs less than the allocation would.

use std::fmt;

use super::{Context, DecodeError, DecodeErrorKind, Nullable, Reader, Wire, Writer};

/// Most elements of one array; Kafka 4.4 draws the same line.
pub const MAX_ELEMENTS: usize = 1_000_000;

/// An array: either the checked bytes of a frame, or elements that are going to be encoded.
///
/// Collecting the elements of a decoded array allocates `size_of::<T>()` each; iterating does not.
#[derive(Clone)]
pub struct Array<'a, T>(Form<'a, T>);

#[derive(Clone)]
enum Form<'a, T> {
    /// `count` elements that `bytes` has been checked to hold.
    Frame {
        bytes: &'a [u8],
        count: usize,
        context: Context,
    },
    Owned(Vec<T>),
}

impl<'a, T: Wire<'a> + Clone> Array<'a, T> {
    /// Number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        match &self.0 {
            Form::Frame { count, .. } => *count,
            Form::Owned(elements) => elements.len(),
        }
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The elements, one after the other.
    #[must_use]
    pub fn iter(&self) -> ArrayIter<'a, '_, T> {
        ArrayIter(match &self.0 {
            Form::Frame { bytes, count, context } => {
                Walk::Frame { from: Reader::new(bytes), left: *count, context: *context }
            }
            Form::Owned(elements) => Walk::Owned(elements.iter()),
        })
    }

    /// The first element.
    #[must_use]
    pub fn first(&self) -> Option<T> {
        self.iter().next()
    }
}

impl<'a, T: Wire<'a> + Clone> Wire<'a> for Array<'a, T> {
    fn decode(from: &mut Reader<'a>, context: Context) -> Result<Self, DecodeError> {
        Option::<Self>::decode(from, context)?.ok_or(DecodeErrorKind::Null.into())
    }

    fn encode(&self, to: &mut Writer, context: Context) {
        encode(Some(self), to, context);
    }
}

impl<'a, T: Wire<'a> + Clone> Wire<'a> for Option<Array<'a, T>> {
    fn decode(from: &mut Reader<'a>, context: Context) -> Result<Self, DecodeError> {
        let count = if context.flexible { from.compact_len()? } else { from.long_len()? };
        let Some(count) = count else { return Ok(None) };
        if count > MAX_ELEMENTS {
            return Err(DecodeErrorKind::Elements(count).into());
        }
        let all = from.rest();
        // Every element takes a byte at least, so this ends the walk over a count that lies before it begins.
        if count > all.len() {
            return Err(DecodeErrorKind::End { need: count, have: all.len() }.into());
        }
        for _ in 0..count {
            T::decode(from, context)?;
        }
        let bytes = &all[..all.len() - from.rest().len()];
        Ok(Some(Array(Form::Frame { bytes, count, context })))
    }

    fn encode(&self, to: &mut Writer, context: Context) {
        encode(self.as_ref(), to, context);
    }
}

impl<'a, T: Wire<'a> + Clone> Nullable<'a> for Option<Array<'a, T>> {
    fn is_null(&self) -> bool {
        self.is_none()
    }

    fn encode_or_empty(&self, to: &mut Writer, context: Context) {
        match self {
            Some(array) => array.encode(to, context),
            None => Array::<T>::default().encode(to, context),
        }
    }
}

fn encode<'a, T: Wire<'a> + Clone>(
    array: Option<&Array<'a, T>>,
    to: &mut Writer,
    context: Context,
) {
    let len = array.map(Array::len);
    if context.flexible {
        to.compact_len(len);
    } else {
        to.long_len(len);
    }
    match array.map(|array| &array.0) {
        Some(Form::Owned(elements)) => {
            elements.iter().for_each(|element| element.encode(to, context))
        }
        // Decoded and encoded again, for the two versions may differ.
        Some(Form::Frame { .. }) => {
            array.into_iter().flatten().for_each(|element| element.encode(to, context));
        }
        None => {}
    }
}

/// The elements of an [`Array`], by value.
pub struct ArrayIter<'a, 'b, T>(Walk<'a, 'b, T>);

enum Walk<'a, 'b, T> {
    Frame { from: Reader<'a>, left: usize, context: Context },
    Owned(std::slice::Iter<'b, T>),
}

impl<'a, T: Wire<'a> + Clone> Iterator for ArrayIter<'a, '_, T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        match &mut self.0 {
            Walk::Frame { from, left, context } => {
                *left = left.checked_sub(1)?;
                Some(
                    T::decode(from, *context)
                        .expect("the elements were checked when the array was decoded"),
                )
            }
            Walk::Owned(elements) => elements.next().cloned(),
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let len = match &self.0 {
            Walk::Frame { left, .. } => *left,
            Walk::Owned(elements) => elements.len(),
        };
        (len, Some(len))
    }
}

impl<'a, T: Wire<'a> + Clone> ExactSizeIterator for ArrayIter<'a, '_, T> {}

impl<'a, 'b, T: Wire<'a> + Clone> IntoIterator for &'b Array<'a, T> {
    type Item = T;
    type IntoIter = ArrayIter<'a, 'b, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<T> Default for Array<'_, T> {
    fn default() -> Self {
        Self(Form::Owned(Vec::new()))
    }
}

impl<T> From<Vec<T>> for Array<'_, T> {
    fn from(elements: Vec<T>) -> Self {
        Self(Form::Owned(elements))
    }
}

impl<T> FromIterator<T> for Array<'_, T> {
    fn from_iter<I: IntoIterator<Item = T>>(elements: I) -> Self {
        Self(Form::Owned(elements.into_iter().collect()))
    }
}

impl<'a, T: Wire<'a> + Clone + PartialEq> PartialEq for Array<'a, T> {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().eq(other.iter())
    }
}

impl<'a, T: Wire<'a> + Clone + fmt::Debug> fmt::Debug for Array<'a, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}
