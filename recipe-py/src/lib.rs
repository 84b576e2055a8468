//! Python binding of the codec: converts and delegates, releases the GIL, holds no logic.

/// Small blocks that stay, such as ids in the range cache, take the place of large ones that a request gave back, where the
/// system's allocator has its way; the next request then waits for memory that is mapped anew, page by page.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

mod body;
mod constraint;
mod decoder;
mod encoded;
mod errors;
mod events;
mod explain;
mod lookup;
mod options;
mod parsing;
mod sampling;
mod token_ids;
mod tokenizer;

/// The compiled half of the `deepseek_recipe` package.
#[pyo3::pymodule]
mod _native {
    use pyo3::prelude::*;
    use pyo3::types::{IntoPyDict, PyCFunction};

    #[pymodule_export]
    use crate::constraint::{Constraint, Grammar};
    #[pymodule_export]
    use crate::decoder::{Decoder, error_body};
    #[pymodule_export]
    use crate::encoded::{Encoded, Image, count_tokens, encode, encode_conversation};
    #[pymodule_export]
    use crate::errors::RequestError;
    #[pymodule_export]
    use crate::events::Event;
    #[pymodule_export]
    use crate::explain::{Difference, Part, Span, Turn, diff, diff_sequence, explain};
    #[pymodule_export]
    use crate::options::Options;
    #[pymodule_export]
    use crate::parsing::Parsing;
    #[pymodule_export]
    use crate::sampling::Sampling;
    #[pymodule_export]
    use crate::token_ids::TokenIds;
    #[pymodule_export]
    use crate::tokenizer::{Tokenizer, eos_token_id};

    /// Adds the version in Python's spelling, in which `1.0.0-alpha.1` is `1.0.0a1`, and has the codec told of forks.
    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        let py = module.py();
        // Not on Windows.
        if let Some(register) = py.import("os")?.getattr_opt("register_at_fork")? {
            let forked = PyCFunction::new_closure(py, None, None, |_, _| recipe::fork::after_fork_in_child())?;
            register.call((), Some(&[("after_in_child", forked)].into_py_dict(py)?))?;
        }
        module.add(
            "__version__",
            env!("CARGO_PKG_VERSION").replace("-alpha.", "a").replace("-beta.", "b").replace("-rc.", "rc"),
        )
    }
}
