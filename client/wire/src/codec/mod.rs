//! How fields become bytes and bytes become fields: the machinery below the tables in [`crate::api`].
//!
//! - [`reader`](Reader): takes bytes from the front of a frame; every length is checked before it is believed.
//! - [`writer`](Writer): appends bytes, and leaves holes for records that never pass through memory of ours.
//! - [`wire`](Wire): the trait of everything that stands in a table, and the primitive types.
//! - [`array`](Array): arrays that stay in the frame until they are walked.
//! - [`records`](Records): the records of a Produce request or a Fetch response.
//! - `table`: the macro that turns a table into structs, decoder and encoder.

mod array;
mod reader;
mod records;
mod table;
mod wire;
mod writer;

pub use array::{Array, ArrayIter, MAX_ELEMENTS};
pub use reader::{DecodeError, DecodeErrorKind, MAX_TAGS, Reader};
pub use records::Records;
pub use wire::{Context, Nullable, Struct, Wire};
pub use writer::{Frame, Part, Writer};

pub(crate) use table::{api, fields};
pub(crate) use wire::decode_nullable;
