//! `Parsing`: how an answer is to be read.

use pyo3::prelude::*;
use recipe::output::{InitialStage, ParsingOptions, QuotedCalls};

use crate::errors::argument_error;

/// How an answer is to be read. Made by `encode`, or by hand for a bare decoder.
#[pyclass(frozen, module = "deepseek_recipe")]
pub(crate) struct Parsing(pub(crate) ParsingOptions);

const STAGES: [(&str, InitialStage); 4] = [
    ("content", InitialStage::Content),
    ("reasoning_start", InitialStage::ReasoningStart),
    ("reasoning_continuation", InitialStage::ReasoningContinuation),
    ("content_continuation", InitialStage::ContentContinuation),
];

#[pymethods]
impl Parsing {
    #[new]
    #[pyo3(signature = (*, initial_stage="content", parse_tool_calls=false, starts_in_tool_calls=false,
        parse_json_output=false, stop_sequences=Vec::new(), declared_tools=None, top_logprobs=None,
        quoted_calls="text"))]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments of a Python constructor")]
    fn new(
        initial_stage: &str,
        parse_tool_calls: bool,
        starts_in_tool_calls: bool,
        parse_json_output: bool,
        stop_sequences: Vec<String>,
        declared_tools: Option<Vec<String>>,
        top_logprobs: Option<u8>,
        quoted_calls: &str,
    ) -> PyResult<Self> {
        let stage = STAGES.iter().find(|(name, _)| *name == initial_stage).map(|(_, stage)| *stage);
        let names = STAGES.map(|(name, _)| name).join(", ");
        Ok(Self(ParsingOptions {
            initial_stage: stage.ok_or_else(|| argument_error("initial_stage", &names, initial_stage))?,
            parse_tool_calls,
            starts_in_tool_calls,
            parse_json_output,
            stop_sequences,
            declared_tools,
            top_logprobs,
            quoted_calls: match quoted_calls {
                "text" => QuotedCalls::AreText,
                "calls" => QuotedCalls::AreCalls,
                other => return Err(argument_error("quoted_calls", "\"text\" or \"calls\"", other)),
            },
        }))
    }

    #[getter]
    fn initial_stage(&self) -> &'static str {
        STAGES.iter().find(|(_, stage)| *stage == self.0.initial_stage).map_or("content", |(name, _)| name)
    }

    #[getter]
    fn parse_tool_calls(&self) -> bool {
        self.0.parse_tool_calls
    }

    #[getter]
    fn starts_in_tool_calls(&self) -> bool {
        self.0.starts_in_tool_calls
    }

    #[getter]
    fn parse_json_output(&self) -> bool {
        self.0.parse_json_output
    }

    #[getter]
    fn stop_sequences(&self) -> Vec<String> {
        self.0.stop_sequences.clone()
    }

    #[getter]
    fn declared_tools(&self) -> Option<Vec<String>> {
        self.0.declared_tools.clone()
    }

    #[getter]
    fn top_logprobs(&self) -> Option<u8> {
        self.0.top_logprobs
    }
}
