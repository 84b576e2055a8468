//! What the three request protocols have in common. Knows no protocol: places and field names are arguments.

pub(super) mod content;
pub(super) mod images;
mod plain_schema;
pub(super) mod sampling;
pub(super) mod schema;
pub(super) mod strict;
pub(super) mod thinking;
pub(super) mod tools;
