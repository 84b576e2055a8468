//! Stretch of a prompt → field of the request.

use crate::json::Value;
use crate::prompt::{Address, Scope, Setting, Trace};
use crate::protocol::Protocol;

use super::declared::Declared;
use super::places::{Place, Places, ROOT, Step};

/// Members that hold lists of texts and images.
const CONTAINERS: [&str; 4] = ["content", "output", "system", "summary"];

/// Finds the fields of a prompt's stretches.
pub(super) struct Owners<'t, 'v> {
    places: &'t Places<'v>,
    trace: &'t Trace,
    protocol: Protocol,
    declared: Declared<'v>,
}

impl<'t, 'v> Owners<'t, 'v> {
    pub(super) fn new(places: &'t Places<'v>, trace: &'t Trace, protocol: Protocol) -> Self {
        let holders =
            [ROOT].into_iter().chain(turns(places, protocol).into_iter().flat_map(|turns| places.items(turns)));
        let mut declared = Declared::default();
        for list in holders.filter_map(|holder| places.member(holder, &["tools"])) {
            declared.add(list, places);
        }
        Self { places, trace, protocol, declared }
    }

    /// The end of each stretch, and the field that it came from; none for the format itself.
    pub(super) fn stretches(&self) -> Vec<(usize, Option<Place>)> {
        let scopes: Vec<Option<Place>> = self.trace.scopes.iter().map(|scope| self.scope(scope)).collect();
        let owner = |source, scope: usize| self.places.find(source).or(scopes[scope]);
        self.trace.stretches.iter().map(|stretch| (stretch.end, owner(stretch.source, stretch.scope))).collect()
    }

    /// The field on whose behalf text was composed.
    fn scope(&self, scope: &Scope) -> Option<Place> {
        match scope {
            Scope::Format => None,
            Scope::Text(address) => self.places.find(*address),
            Scope::Setting(setting) => self.setting(*setting),
            Scope::Tool(name, texts) => self.tool(name, texts).or_else(|| self.setting(Setting::Tools)),
            Scope::Content(texts, call_id) => self
                .enclosing(texts)
                .or_else(|| self.first_of((*call_id)?, &[&["content"], &["output"], &["tools"]]))
                .or_else(|| turns(self.places, self.protocol)),
            Scope::Reasoning(texts) => match self.protocol {
                // Reasoning is an item of its own, and the texts are those of the items after it.
                Protocol::Responses => {
                    let mut found = texts.iter().filter_map(|text| self.places.find(*text));
                    found.find(|place| self.places.is_name(*place)).or_else(|| turns(self.places, self.protocol))
                }
                Protocol::ChatCompletions | Protocol::Messages => {
                    self.enclosing(texts).or_else(|| turns(self.places, self.protocol))
                }
            },
            Scope::CallName(call) => self.of_call(*call, &[&["function", "name"], &["name"]]),
            Scope::Parameter(call, name) => {
                let arguments = self.of_call(*call, &[&["function", "arguments"], &["arguments"], &["input"]])?;
                self.places.child(arguments, Step::Key(name)).or(Some(arguments))
            }
        }
    }

    fn setting(&self, setting: Setting) -> Option<Place> {
        let fields: &[&[&'static str]] = match (self.protocol, setting) {
            (_, Setting::Tools) => &[&["tools"]],
            (_, Setting::ToolChoice) => &[&["tool_choice"]],
            (Protocol::ChatCompletions, Setting::Effort) => &[&["reasoning_effort"], &["thinking"]],
            (Protocol::ChatCompletions, Setting::Thinking) => &[&["thinking"], &["reasoning_effort"]],
            (Protocol::ChatCompletions, Setting::ResponseFormat) => &[&["response_format"]],
            (Protocol::Responses, Setting::Effort | Setting::Thinking) => &[&["reasoning", "effort"]],
            (Protocol::Responses, Setting::ResponseFormat) => &[&["text", "format"]],
            (Protocol::Messages, Setting::Effort) => &[&["output_config", "effort"], &["thinking"]],
            (Protocol::Messages, Setting::Thinking) => &[&["thinking"], &["output_config", "effort"]],
            (Protocol::Messages, Setting::ResponseFormat) => &[&["output_config", "format"]],
        };
        let mut given = fields.iter().filter_map(|keys| self.places.member(ROOT, keys));
        given.find(|place| *self.places.value(*place) != Value::Null)
    }

    /// The list that holds all of `texts`, or what holds the lists.
    fn enclosing(&self, texts: &[Address]) -> Option<Place> {
        let lists = texts.iter().filter_map(|text| self.places.find(*text)).map(|place| self.list(place));
        let shared = lists.map(|place| self.places.line(place)).reduce(|left, right| {
            left.into_iter().zip(right).take_while(|(left, right)| left == right).map(|(place, _)| place).collect()
        })?;
        shared.last().copied().filter(|place| *place != ROOT)
    }

    /// The list of texts and images that a text belongs to; itself, if it stands alone.
    fn list(&self, place: Place) -> Place {
        let inwards = self.places.line(place);
        let is_list = |place: &&Place| match self.places.parent(**place) {
            Some((_, Step::Key(key))) => CONTAINERS.contains(&key),
            _ => false,
        };
        inwards.iter().rev().find(is_list).copied().unwrap_or(place)
    }

    /// The first of some members of the call that one of its texts belongs to, or the call itself.
    fn of_call(&self, [id, name]: [Address; 2], members: &[&[&'static str]]) -> Option<Place> {
        self.first_of(id, members).or_else(|| {
            let function = self.holder(name)?;
            let key = members.iter().find_map(|keys| keys.last())?;
            self.places.member(function, &[key]).or(Some(function))
        })
    }

    /// The first of some members of the object that holds a text, or the object itself.
    fn first_of(&self, text: Address, members: &[&[&'static str]]) -> Option<Place> {
        let holder = self.holder(text)?;
        Some(members.iter().find_map(|keys| self.places.member(holder, keys)).unwrap_or(holder))
    }

    /// The object that a text is a member of; of what is stored no more is known than what names it.
    fn holder(&self, text: Address) -> Option<Place> {
        let place = self.places.find(text)?;
        if self.places.is_name(place) { Some(place) } else { self.places.parent(place).map(|(holder, _)| holder) }
    }

    /// The declaration of a tool: by one of its texts, or by its name where all of them were composed.
    fn tool(&self, name: &str, texts: &[Address]) -> Option<Place> {
        let by_text = texts.iter().find_map(|text| self.places.find(*text)).and_then(|place| self.declaration(place));
        by_text.or_else(|| self.declared.find(name))
    }

    /// `tools[i]`, or `tools[i].tools[j]` in a namespace, that a value is part of; the lists may be an item's.
    fn declaration(&self, place: Place) -> Option<Place> {
        if self.places.is_name(place) {
            return Some(place);
        }
        let line = self.places.line(place);
        let step = |index: usize| line.get(index).and_then(|place| self.places.parent(*place)).map(|(_, step)| step);
        let start = if step(1) == Some(Step::Key("input")) { 3 } else { 1 };
        let is_item =
            |start| step(start) == Some(Step::Key("tools")) && matches!(step(start + 1), Some(Step::Index(_)));
        match (is_item(start), is_item(start + 2)) {
            (true, true) => line.get(start + 3).copied(),
            (true, false) => line.get(start + 1).copied(),
            (false, _) => None,
        }
    }
}

/// The list of messages.
fn turns(places: &Places<'_>, protocol: Protocol) -> Option<Place> {
    places.member(ROOT, &[if protocol == Protocol::Responses { "input" } else { "messages" }])
}
