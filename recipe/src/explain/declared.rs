//! Declarations of tools by their names, for tools of which the prompt shows no text of the request.

use std::collections::HashMap;

use super::places::{Place, Places};

/// What may stand between the name of a namespace and that of a tool in it.
const SEPARATORS: [&str; 2] = ["__", "::"];

/// The declared tools.
#[derive(Default)]
pub(super) struct Declared<'v> {
    names: HashMap<&'v str, Place>,
    in_namespaces: HashMap<(&'v str, &'v str), Place>,
}

impl<'v> Declared<'v> {
    /// Adds the tools of a list. Those without a name are shown by their type.
    pub(super) fn add(&mut self, list: Place, places: &Places<'v>) {
        for tool in places.items(list) {
            let said = |keys: &[&str]| places.string(tool, keys);
            let Some(name) = said(&["function", "name"]).or_else(|| said(&["name"])).or_else(|| said(&["type"])) else {
                continue;
            };
            self.names.entry(name).or_insert(tool);
            for member in places.member(tool, &["tools"]).into_iter().flat_map(|tools| places.items(tools)) {
                if let Some(member_name) = places.string(member, &["name"]) {
                    self.in_namespaces.entry((name, member_name)).or_insert(member);
                }
            }
        }
    }

    /// The tool that is shown as `name`. Where names clash, a number is appended to that of a tool in a namespace.
    pub(super) fn find(&self, name: &str) -> Option<Place> {
        let numbered = name.trim_end_matches(|character: char| character.is_ascii_digit()).strip_suffix('_');
        let split = |name: &str| {
            let places = SEPARATORS.iter().flat_map(|separator| name.match_indices(separator));
            let mut pairs = places.map(|(place, separator)| (&name[..place], &name[place + separator.len()..]));
            pairs.find_map(|pair| self.in_namespaces.get(&pair).copied())
        };
        self.names.get(name).copied().or_else(|| split(name)).or_else(|| split(numbered?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain::places::ROOT;
    use crate::json::parse;
    use crate::protocol::Stored;

    #[test]
    fn a_tool_is_found_as_the_prompt_names_it() {
        let body = br#"{"tools": [{"type": "tool_search"}, {"type": "function", "function": {"name": "f"}}, {"type": "namespace",
            "name": "a__b", "tools": [{"name": "c"}]}, {"type": "custom", "name": "apply_patch"}]}"#;
        let body = parse(body).unwrap();
        let places = Places::new(&body, &Stored::default());
        let mut declared = Declared::default();
        declared.add(places.member(ROOT, &["tools"]).unwrap(), &places);
        let found = |name: &str| declared.find(name).map(|place| places.path(place));
        assert_eq!(found("tool_search").as_deref(), Some("tools[0]"));
        assert_eq!(found("f").as_deref(), Some("tools[1]"));
        for name in ["a__b__c", "a__b::c", "a__b__c_12"] {
            assert_eq!(found(name).as_deref(), Some("tools[2].tools[0]"), "{name}");
        }
        assert_eq!(found("apply_patch").as_deref(), Some("tools[3]"));
        assert_eq!(found("c"), None);
    }
}
