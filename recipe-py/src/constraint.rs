//! `Constraint`: what an answer must match.

use pyo3::prelude::*;
use recipe::encoded;
use recipe::protocol::CallRules;

/// What an answer must match.
#[pyclass(frozen, module = "deepseek_recipe")]
pub(crate) struct Constraint {
    pub(crate) constraint: encoded::Constraint,
    pub(crate) after_thinking: bool,
}

#[pymethods]
impl Constraint {
    /// `tool_call`, `tool_call_required`, `json` or `regex`.
    #[getter]
    fn kind(&self) -> &'static str {
        match &self.constraint {
            encoded::Constraint::ToolCall { rules, .. } if rules.required => "tool_call_required",
            encoded::Constraint::ToolCall { .. } => "tool_call",
            encoded::Constraint::Json { .. } => "json",
            encoded::Constraint::Regex { .. } => "regex",
        }
    }

    /// Declarations of the tools, schema of the JSON, or the regular expression.
    #[getter]
    fn text(&self) -> Option<&str> {
        match &self.constraint {
            encoded::Constraint::ToolCall { tools, .. } => Some(tools),
            encoded::Constraint::Json { schema } => schema.as_deref(),
            encoded::Constraint::Regex { pattern } => Some(pattern),
        }
    }

    /// Names of the tools that may be called; None for all of them.
    #[getter]
    fn allowed_tools(&self) -> Option<Vec<String>> {
        self.rules().and_then(|rules| rules.allowed.clone())
    }

    /// Whether there may be one call at most.
    #[getter]
    fn single_call(&self) -> bool {
        self.rules().is_some_and(|rules| rules.single)
    }

    /// Whether the constraint holds only once the model has stopped thinking.
    #[getter]
    fn after_thinking(&self) -> bool {
        self.after_thinking
    }

    fn __repr__(&self) -> String {
        format!("{:?}", self.constraint)
    }
}

impl Constraint {
    fn rules(&self) -> Option<&CallRules> {
        match &self.constraint {
            encoded::Constraint::ToolCall { rules, .. } => Some(rules),
            encoded::Constraint::Json { .. } | encoded::Constraint::Regex { .. } => None,
        }
    }
}
