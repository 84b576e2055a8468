//! `Constraint` and `Grammar`: what an answer must match, and how an engine enforces it.

use pyo3::prelude::*;
use recipe::protocol::CallRules;
use recipe::{constraint, encoded};

/// What an answer must match.
#[pyclass(frozen, module = "deepseek_recipe")]
pub(crate) struct Constraint {
    pub(crate) constraint: encoded::Constraint,
    pub(crate) after_thinking: bool,
}

#[pymethods]
impl Constraint {
    /// `tool_call`, `tool_call_required`, `json`, `regex`, `grammar` or `choice`.
    #[getter]
    fn kind(&self) -> &'static str {
        match &self.constraint {
            encoded::Constraint::ToolCall { rules, .. } if rules.required => "tool_call_required",
            encoded::Constraint::ToolCall { .. } => "tool_call",
            encoded::Constraint::Json { .. } => "json",
            encoded::Constraint::Regex { .. } => "regex",
            encoded::Constraint::Lark { .. } => "grammar",
            encoded::Constraint::Choice { .. } => "choice",
        }
    }

    /// Declarations of the tools, schema of the JSON, the regular expression or grammar; None for a choice.
    #[getter]
    fn text(&self) -> Option<&str> {
        match &self.constraint {
            encoded::Constraint::ToolCall { tools, .. } => Some(tools),
            encoded::Constraint::Json { schema } => schema.as_deref(),
            encoded::Constraint::Regex { pattern } => Some(pattern),
            encoded::Constraint::Lark { grammar } => Some(grammar),
            encoded::Constraint::Choice { .. } => None,
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
            _ => None,
        }
    }
}

/// What an engine enforces while the model writes.
#[pyclass(frozen, module = "deepseek_recipe")]
pub(crate) struct Grammar(pub(crate) constraint::Grammar);

#[pymethods]
impl Grammar {
    #[getter]
    fn text(&self) -> &str {
        &self.0.text
    }

    #[getter]
    fn start_after(&self) -> Option<u32> {
        self.0.start_after
    }

    #[getter]
    fn trigger(&self) -> Option<u32> {
        self.0.trigger
    }

    #[getter]
    fn binding(&self) -> bool {
        self.0.binding
    }
}
