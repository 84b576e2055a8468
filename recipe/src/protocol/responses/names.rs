//! Names of tools in the prompt: those of namespaces are flattened, and no two are the same.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

/// The names of a list of tools.
#[derive(Default)]
pub(super) struct Names<'v> {
    separator: &'static str,
    taken: HashSet<Cow<'v, str>>,
    /// Namespace and name → name in the prompt.
    flattened: HashMap<(&'v str, &'v str), String>,
    /// Name → lowest suffix that may still be free.
    suffixes: HashMap<String, usize>,
}

impl<'v> Names<'v> {
    /// No names yet. `separator` stands between a namespace and a name.
    pub(super) fn new(separator: &'static str) -> Self {
        Self { separator, ..Self::default() }
    }

    /// Takes a name as it is, and tells whether it was free.
    pub(super) fn take(&mut self, name: impl Into<Cow<'v, str>>) -> bool {
        self.taken.insert(name.into())
    }

    /// Takes a name for a tool of a namespace.
    pub(super) fn flatten(&mut self, namespace: &'v str, name: &'v str) -> String {
        let flattened = self.free(namespace, name);
        self.taken.insert(flattened.clone().into());
        self.flattened.entry((namespace, name)).or_insert_with(|| flattened.clone());
        flattened
    }

    /// The name under which a tool of a namespace was called. One that is not declared gets a name that no tool has.
    pub(super) fn called(&mut self, namespace: &'v str, name: &'v str) -> String {
        match self.flattened.get(&(namespace, name)) {
            Some(flattened) => flattened.clone(),
            None => self.free(namespace, name),
        }
    }

    /// Whether there are none yet.
    pub(super) fn is_empty(&self) -> bool {
        self.taken.is_empty()
    }

    /// The joined name, or the first one with a number that is free.
    fn free(&mut self, namespace: &str, name: &str) -> String {
        let joined = format!("{namespace}{}{name}", self.separator);
        if !self.taken.contains(joined.as_str()) {
            return joined;
        }
        let suffix = self.suffixes.entry(joined.clone()).or_insert(1);
        loop {
            let candidate = format!("{joined}_{suffix}");
            if !self.taken.contains(candidate.as_str()) {
                return candidate;
            }
            *suffix += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_clash_get_numbers() {
        let mut names = Names::new("__");
        assert!(names.take("a__b") && names.take("a__b_1") && !names.take("a__b"));
        assert_eq!(names.flatten("a", "b"), "a__b_2");
        assert_eq!(names.flatten("a", "b"), "a__b_3");
        assert_eq!(names.called("a", "b"), "a__b_2");
        assert_eq!(names.called("a", "c"), "a__c");
        assert_eq!(names.called("a__b", ""), "a__b__");
    }
}
