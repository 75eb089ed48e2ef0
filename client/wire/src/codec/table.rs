//! The macro behind every file in [`crate::api`]: a table of fields becomes a struct, its decoder and its encoder.
//!
//! # Reading a table
//! ```text
//! api! {
//!     ListOffsets 1..=10;
//!
//!     request<'a> {                                    // struct Request<'a>
//!         /// Node id of a follower, -1 for clients.
//!         replica_id: i32 [1..] = -1,                  // every version; -1 unless set
//!         isolation_level: i8 [2..],                   // from version 2 on; 0 before and unless set
//!         topics: Array<'a, Topic<'a>> [1..],
//!         timeout_ms: i32 [10..] tag 7,                // a tagged field; not written while it is the default
//!     }
//!     response { ... }                                 // struct Response
//!
//!     pub struct Topic<'a> {
//!         name: &'a str [1..],
//!         alias: Option<&'a str> [3..] null [5..],     // may be null from version 5 on, empty before
//!     }
//! }
//! ```
//! Fields stand in the order of the wire. Their columns: name, type, the versions that have the field, the versions in
//! which it may be null (all of them when an `Option` says nothing), its tag, and its default.
//!
//! # What follows from it
//! - `struct` with public fields, `Default` (the defaults of the table), `Clone`, `Debug`, `PartialEq`.
//! - [`Wire`](super::Wire): decode leaves the default in fields that a version does not have; encode leaves such fields
//!   out, whatever they hold. Callers that would lose something by it check the version themselves.
//! - [`Message`](crate::Message) for `Request` and `Response`. Which versions are flexible stands in
//!   [`ApiKey`](crate::ApiKey), since the headers need to know it too.
//! - In tests: [`Sample`](crate::tests::Sample), random values that a version can carry, and
//!   [`Describe`](crate::tests::Describe), the schema as text, to be compared with Apache Kafka's.

/// Writes one API: see the head of this file.
macro_rules! api {
    (
        $api:ident $versions:expr;
        $(#[$request_meta:meta])*
        request $(<$request_life:lifetime>)? { $($request:tt)* }
        $(#[$response_meta:meta])*
        response $(<$response_life:lifetime>)? { $($response:tt)* }
        $($rest:tt)*
    ) => {
        $crate::codec::fields! {
            #[doc = concat!("Request of `", stringify!($api), "`, versions ", stringify!($versions), ".")]
            $(#[$request_meta])*
            pub struct Request $(<$request_life>)? { $($request)* }

            #[doc = concat!("Response of `", stringify!($api), "`, versions ", stringify!($versions), ".")]
            $(#[$response_meta])*
            pub struct Response $(<$response_life>)? { $($response)* }

            $($rest)*
        }

        impl<'a> $crate::Message<'a> for Request $(<$request_life>)? {
            const API: $crate::ApiKey = $crate::ApiKey::$api;
            const VERSIONS: std::ops::RangeInclusive<i16> = $versions;
        }

        impl<'a> $crate::RequestMessage<'a> for Request $(<$request_life>)? {
            type Response = Response $(<$response_life>)?;
        }

        impl<'a> $crate::Message<'a> for Response $(<$response_life>)? {
            const API: $crate::ApiKey = $crate::ApiKey::$api;
            const VERSIONS: std::ops::RangeInclusive<i16> = $versions;
        }

        impl<'a> $crate::ResponseMessage<'a> for Response $(<$response_life>)? {}
    };
}

/// Writes the structs of a table. The rules that start with `@` are its own: each picks by whether a column is there.
macro_rules! fields {
    ($(
        $(#[$meta:meta])*
        pub struct $name:ident $(<$life:lifetime>)? {
            $(
                $(#[$field_meta:meta])*
                $field:ident: $ty:ty [$versions:expr] $(null [$null:expr])? $(tag $tag:literal)? $(= $default:expr)?,
            )*
        }
    )*) => {$(
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $name $(<$life>)? {
            $(
                $(#[$field_meta])*
                #[doc = concat!("\n\nVersions `", stringify!($versions), "`.")]
                pub $field: $ty,
            )*
        }

        impl $(<$life>)? Default for $name $(<$life>)? {
            fn default() -> Self {
                Self { $($field: $crate::codec::fields!(@default $($default)?),)* }
            }
        }

        impl $(<$life>)? $crate::codec::Struct for $name $(<$life>)? {}

        impl<'a> $crate::codec::Wire<'a> for $name $(<$life>)? {
            #[allow(unused_variables, clippy::match_single_binding)]
            fn decode(
                from: &mut $crate::codec::Reader<'a>,
                context: $crate::codec::Context,
            ) -> Result<Self, $crate::DecodeError> {
                let mut value = Self::default();
                $($crate::codec::fields!(@unless_tagged [$($tag)?] {
                    if ($versions).contains(&context.version) {
                        value.$field = $crate::codec::fields!(@decode [$($null)?] from, context)
                            .map_err(|e| e.in_field(concat!(stringify!($name), ".", stringify!($field))))?;
                    }
                });)*
                if context.flexible {
                    from.tags(|tag, from| match tag {
                        $($($tag if ($versions).contains(&context.version) => {
                            value.$field = $crate::codec::Wire::decode(from, context)
                                .map_err(|e| e.in_field(concat!(stringify!($name), ".", stringify!($field))))?;
                            Ok(true)
                        })?)*
                        _ => Ok(false),
                    })
                    .map_err(|e| e.in_field(concat!(stringify!($name), " tags")))?;
                }
                Ok(value)
            }

            #[allow(unused_variables, unused_mut)]
            fn encode(&self, to: &mut $crate::codec::Writer, context: $crate::codec::Context) {
                $($crate::codec::fields!(@unless_tagged [$($tag)?] {
                    if ($versions).contains(&context.version) {
                        $crate::codec::fields!(@encode [$($null)?] self.$field, to, context);
                    }
                });)*
                if context.flexible {
                    // Librdkafka before 2.2 loses its place behind a tagged field in ApiVersions, so none is written
                    // that says nothing.
                    let default = Self::default();
                    let says = |tag: u32| match tag {
                        $($($tag => ($versions).contains(&context.version) && self.$field != default.$field,)?)*
                        _ => false,
                    };
                    let mut count = 0;
                    $($(count += u32::from(says($tag));)?)*
                    to.varint(count);
                    $($(if says($tag) {
                        to.tag($tag, |to| $crate::codec::Wire::encode(&self.$field, to, context));
                    })?)*
                }
            }
        }

        #[cfg(test)]
        impl $(<$life>)? $crate::tests::Sample for $name $(<$life>)? {
            #[allow(unused_mut)]
            fn sample(dice: &mut $crate::tests::Dice, version: i16) -> Self {
                let mut value = Self::default();
                $(if ($versions).contains(&version) {
                    value.$field = $crate::codec::fields!(@sample [$($null)?] dice, version);
                })*
                value
            }
        }

        #[cfg(test)]
        impl $(<$life>)? $crate::tests::Describe for $name $(<$life>)? {
            fn describe(context: $crate::codec::Context) -> String {
                #[allow(unused_mut)]
                let (mut plain, mut tagged) = (Vec::new(), Vec::new());
                $(if ($versions).contains(&context.version) {
                    let ty = <$ty as $crate::tests::Describe>::describe(context);
                    let ty = $crate::codec::fields!(@describe [$($null)?] ty, context);
                    $crate::codec::fields!(@describe_field [$($tag)?] plain, tagged, stringify!($field), ty);
                })*
                $crate::tests::describe_struct(plain, tagged, context)
            }
        }
    )*};

    (@default) => { Default::default() };
    (@default $default:expr) => { $default };
    (@unless_tagged [] $code:block) => { $code };
    (@unless_tagged [$tag:literal] $code:block) => {};
    (@decode [] $from:ident, $context:ident) => { $crate::codec::Wire::decode($from, $context) };
    (@decode [$null:expr] $from:ident, $context:ident) => {
        $crate::codec::decode_nullable($from, $context, ($null).contains(&$context.version))
    };
    (@encode [] $value:expr, $to:ident, $context:ident) => {
        $crate::codec::Wire::encode(&$value, $to, $context)
    };
    (@encode [$null:expr] $value:expr, $to:ident, $context:ident) => {
        if ($null).contains(&$context.version) {
            $crate::codec::Wire::encode(&$value, $to, $context);
        } else {
            $crate::codec::Nullable::encode_or_empty(&$value, $to, $context);
        }
    };
    (@describe [] $ty:ident, $context:ident) => { $ty };
    (@describe [$null:expr] $ty:ident, $context:ident) => {
        if ($null).contains(&$context.version) { $ty } else { $ty.trim_end_matches('?').to_string() }
    };
    (@describe_field [] $plain:ident, $tagged:ident, $name:expr, $ty:ident) => {
        $plain.push(format!("{}: {}", $name, $ty))
    };
    (@describe_field [$tag:literal] $plain:ident, $tagged:ident, $name:expr, $ty:ident) => {
        $tagged.push(format!("{} tag {}: {}", $name, $tag, $ty))
    };
    (@sample [] $dice:ident, $version:ident) => { $crate::tests::Sample::sample($dice, $version) };
    (@sample [$null:expr] $dice:ident, $version:ident) => {
        $crate::tests::sample_nullable($dice, $version, ($null).contains(&$version))
    };
}

pub(crate) use {api, fields};
