//! Declarations of objects, words and tagged objects: each gives a type, its reader and its JSON Schema.

/// Declares an object: a struct whose fields are its members, each read by its own type. Other members are ignored.
macro_rules! wire_object {
    ($(#[$doc:meta])* $visibility:vis struct $name:ident<$life:lifetime> {
        $($(#[doc = $field_doc:literal])* $field:ident $(as $key:literal)?: $type:ty,)*
    }) => {
        $(#[$doc])*
        #[derive(Debug, Clone)]
        #[allow(dead_code, reason = "some members are only checked")]
        $visibility struct $name<$life> {
            $($(#[doc = $field_doc])* $visibility $field: $type,)*
            #[doc(hidden)]
            _body: std::marker::PhantomData<&$life ()>,
        }

        impl<$life> $crate::wire::Wire<$life> for $name<$life> {
            fn read(node: $crate::wire::Node<'_, $life>) -> Result<Self, $crate::error::Error> {
                node.object()?;
                Ok(Self {
                    $($field: node.member($crate::wire::wire_object!(@key $field $($key)?))?,)*
                    _body: std::marker::PhantomData,
                })
            }

            fn schema() -> $crate::json::Value<'static> {
                $crate::wire::schema_of_members(vec![$((
                    $crate::wire::wire_object!(@key $field $($key)?),
                    <$type as $crate::wire::Wire<'_>>::absent().is_none(),
                    $crate::wire::described(<$type as $crate::wire::Wire<'_>>::schema(), concat!("" $(, $field_doc)*)),
                ),)*])
            }
        }
    };
    (@key $field:ident) => { stringify!($field) };
    (@key $field:ident $key:literal) => { $key };
}

/// Declares a set of words.
macro_rules! wire_words {
    ($(#[$doc:meta])* $visibility:vis enum $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $word:literal,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        $visibility enum $name { $($(#[$variant_doc])* $variant,)* }

        impl<'v> $crate::wire::Wire<'v> for $name {
            fn read(node: $crate::wire::Node<'_, 'v>) -> Result<Self, $crate::error::Error> {
                match node.string()? {
                    $($word => Ok($name::$variant),)*
                    _ => Err(node.unknown([$($word),*].join(", ").as_str())),
                }
            }

            fn schema() -> $crate::json::Value<'static> {
                let words = vec![$($crate::json::Value::from($word)),*];
                $crate::wire::schema_object([("type", "string".into()), ("enum", $crate::json::Value::Array(words))])
            }
        }
    };
}

/// Declares objects told apart by the word in one member.
macro_rules! wire_tagged {
    ($(#[$doc:meta])* $visibility:vis enum $name:ident<$life:lifetime> by $tag:literal {
        $($(#[$variant_doc:meta])* $variant:ident($type:ty) = $word:literal,)*
    }) => {
        $(#[$doc])*
        #[derive(Debug, Clone)]
        #[allow(dead_code, reason = "some variants are only checked")]
        $visibility enum $name<$life> { $($(#[$variant_doc])* $variant($type),)* }

        impl<$life> $crate::wire::Wire<$life> for $name<$life> {
            fn read(node: $crate::wire::Node<'_, $life>) -> Result<Self, $crate::error::Error> {
                match node.member::<&str>($tag)? {
                    $($word => <$type as $crate::wire::Wire<'_>>::read(node).map($name::$variant),)*
                    _ => Err(node.member_node($tag, |tag| tag.unknown([$($word),*].join(", ").as_str()))),
                }
            }

            fn schema() -> $crate::json::Value<'static> {
                let variants = vec![$(
                    $crate::wire::tagged(<$type as $crate::wire::Wire<'_>>::schema(), $tag, $word),
                )*];
                $crate::wire::schema_object([("oneOf", $crate::json::Value::Array(variants))])
            }
        }
    };
}

pub(crate) use {wire_object, wire_tagged, wire_words};
