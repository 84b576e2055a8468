//! The formats of strings that are held to. Each expression matches only texts of the format, though not all of a few:
//! see `docs/structured_output.md`.

const DATE: &str = "(?:[0-9]{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)\
    |02-(?:0[1-9]|1[0-9]|2[0-8]))\
    |(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)-02-29)";
/// Leap seconds are those of UTC.
const TIME: &str = "(?:(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\\.[0-9]+)?(?:[Zz]|[-+](?:[01][0-9]|2[0-3]):[0-5][0-9])\
    |23:59:60(?:\\.[0-9]+)?(?:[Zz]|[-+]00:00))";
const DURATION: &str = "P(?:[0-9]+W|(?:[0-9]+Y(?:[0-9]+M(?:[0-9]+D)?)?|[0-9]+M(?:[0-9]+D)?|[0-9]+D)(?:T(?:[0-9]+H(?:[0-9]+M\
    (?:[0-9]+S)?)?|[0-9]+M(?:[0-9]+S)?|[0-9]+S))?|T(?:[0-9]+H(?:[0-9]+M(?:[0-9]+S)?)?|[0-9]+M(?:[0-9]+S)?|[0-9]+S))";
const OCTET: &str = "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])";
/// Labels without hyphens in the third and fourth place: what may follow those is not a matter of spelling.
const LABEL: &str = "(?:[0-9A-Za-z](?:[0-9A-Za-z-]?[0-9A-Za-z])?|[0-9A-Za-z][0-9A-Za-z-](?:[0-9A-Za-z]{2}|-[0-9A-Za-z])\
    |[0-9A-Za-z][0-9A-Za-z-](?:[0-9A-Za-z][0-9A-Za-z-]|-[0-9A-Za-z])[0-9A-Za-z-]{0,58}[0-9A-Za-z])";
const ATOM: &str = "[0-9A-Za-z!#$%&'*+\\/=?^_`{|}~-]+";

/// Names of the formats.
pub(super) fn names() -> String {
    ["date", "time", "date-time", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"].join(", ")
}

/// The expression that all of a text of the format matches, and the most characters that it may have.
pub(super) fn expression(format: &str) -> Option<(String, Option<usize>)> {
    let any_length = |expression: String| (expression, None);
    Some(match format {
        "date" => any_length(DATE.to_owned()),
        "time" => any_length(TIME.to_owned()),
        "date-time" => any_length(format!("{DATE}[Tt]{TIME}")),
        "duration" => any_length(DURATION.to_owned()),
        "hostname" => (format!("{LABEL}(?:\\.{LABEL})*"), Some(253)),
        "email" => (format!("{ATOM}(?:\\.{ATOM})*@{LABEL}(?:\\.{LABEL})*"), Some(254)),
        "ipv4" => any_length(format!("{OCTET}(?:\\.{OCTET}){{3}}")),
        "ipv6" => any_length(ipv6()),
        "uuid" => any_length("[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}".to_owned()),
        _ => return None,
    })
}

/// Eight groups, of which the last two may be an IPv4 address and one run of at least one zero group may be left out.
fn ipv6() -> String {
    const GROUP: &str = "[0-9A-Fa-f]{1,4}";
    let last = format!("(?:{GROUP}:{GROUP}|{OCTET}(?:\\.{OCTET}){{3}})");
    let mut forms = vec![format!("(?:{GROUP}:){{6}}{last}")];
    for before in 0..=7 {
        let start = match before {
            0 => "::".to_owned(),
            1 => format!("{GROUP}::"),
            _ => format!("{GROUP}(?::{GROUP}){{{}}}::", before - 1),
        };
        forms.push(start.clone());
        let room = 7 - before;
        if room >= 1 {
            forms.push(format!("{start}{GROUP}"));
        }
        if room >= 2 {
            forms.push(format!("{start}(?:{GROUP}:){{0,{}}}{last}", room - 2));
        }
    }
    format!("(?:{})", forms.join("|"))
}
