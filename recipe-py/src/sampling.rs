//! `Sampling`: how the answer's tokens are to be chosen.

use std::collections::BTreeMap;

use pyo3::prelude::*;

/// Sampling settings of a request, as the model's service would use them.
#[pyclass(frozen, module = "deepseek_recipe")]
pub(crate) struct Sampling(pub(crate) recipe::protocol::Sampling);

#[pymethods]
impl Sampling {
    #[getter]
    fn max_tokens(&self) -> Option<u32> {
        self.0.max_tokens
    }

    #[getter]
    fn temperature(&self) -> f32 {
        self.0.temperature
    }

    #[getter]
    fn top_p(&self) -> f32 {
        self.0.top_p
    }

    #[getter]
    fn top_k(&self) -> Option<u32> {
        self.0.top_k
    }

    #[getter]
    fn frequency_penalty(&self) -> f32 {
        self.0.frequency_penalty
    }

    #[getter]
    fn presence_penalty(&self) -> f32 {
        self.0.presence_penalty
    }

    #[getter]
    fn logit_bias(&self) -> BTreeMap<u32, f32> {
        self.0.logit_bias.iter().copied().collect()
    }

    #[getter]
    fn seed(&self) -> Option<u64> {
        self.0.seed
    }

    #[getter]
    fn logprobs(&self) -> bool {
        self.0.logprobs
    }

    #[getter]
    fn top_logprobs(&self) -> Option<u8> {
        self.0.top_logprobs
    }

    fn __repr__(&self) -> String {
        format!("{:?}", self.0)
    }
}
