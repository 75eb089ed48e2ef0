//! Differences that are meant to be: ci/differential/accepted.toml, one entry each with its reason. An entry that
//! matches nothing in a whole run is a mistake as well: the difference is gone, and so should its entry be.

use std::cell::Cell;

use serde::Deserialize;

use crate::compare::Difference;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    difference: Vec<Accepted>,
}

/// One entry. `*` in a text stands for anything.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Accepted {
    /// As clients know it: `Fetch`.
    pub api: String,
    /// Name of the case.
    #[serde(default = "anything")]
    pub case: String,
    /// First and last version.
    pub versions: Option<(i16, i16)>,
    /// Step and field.
    pub path: String,
    #[serde(default = "anything")]
    pub kafka: String,
    #[serde(default = "anything")]
    pub rillway: String,
    pub reason: String,
    #[serde(skip)]
    used: Cell<usize>,
}

fn anything() -> String {
    "*".to_owned()
}

pub(crate) struct AllAccepted(Vec<Accepted>);

impl AllAccepted {
    /// # Errors
    /// What is wrong with the file; an entry without a reason.
    pub(crate) fn parse(text: &str) -> Result<AllAccepted, String> {
        let file: File = toml::from_str(text).map_err(|e| e.to_string())?;
        match file.difference.iter().find(|a| a.reason.trim().is_empty()) {
            Some(a) => Err(format!("the entry for {} {} has no reason", a.api, a.path)),
            None => Ok(AllAccepted(file.difference)),
        }
    }

    /// The reason why this difference is accepted, if it is.
    pub(crate) fn reason(
        &self,
        api: &str,
        case: &str,
        version: i16,
        d: &Difference,
    ) -> Option<&str> {
        let fits = |a: &&Accepted| {
            a.api == api
                && matches(&a.case, case)
                && a.versions.is_none_or(|(from, to)| (from..=to).contains(&version))
                && matches(&a.path, &d.path)
                && matches(&a.kafka, &d.kafka)
                && matches(&a.rillway, &d.rillway)
        };
        let found = self.0.iter().find(fits)?;
        found.used.set(found.used.get() + 1);
        Some(&found.reason)
    }

    /// Entries that matched nothing.
    pub(crate) fn unused(&self) -> impl Iterator<Item = &Accepted> {
        self.0.iter().filter(|a| a.used.get() == 0)
    }
}

/// Whether a text is what a pattern says, `*` being anything.
fn matches(pattern: &str, text: &str) -> bool {
    let Some((before, after)) = pattern.split_once('*') else { return pattern == text };
    let Some(rest) = text.strip_prefix(before) else { return false };
    (0..=rest.len()).any(|at| rest.is_char_boundary(at) && matches(after, &rest[at..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_is_anything() {
        for (pattern, text) in [("*", ""), ("a", "a"), ("a*c", "abc"), ("*[t].x", "topics[t].x")] {
            assert!(matches(pattern, text), "{pattern} {text}");
        }
        for (pattern, text) in [("a", "ab"), ("a*c", "ab"), ("*b", "abc"), ("", "a")] {
            assert!(!matches(pattern, text), "{pattern} {text}");
        }
    }

    #[test]
    fn an_entry_needs_a_reason_and_one_that_matches_nothing_is_told() {
        let entry = |reason| {
            let text = format!(
                "[[difference]]\napi = 'Fetch'\nversions = [4, 6]\npath = 'x*'\nreason = '{reason}'"
            );
            AllAccepted::parse(&text)
        };
        assert!(entry(" ").is_err());
        let all = entry("because").unwrap_or_else(|e| panic!("{e}"));
        let d = Difference { path: "xy".into(), kafka: "1".into(), rillway: "2".into() };
        assert_eq!(all.reason("Fetch", "case", 7, &d), None);
        assert_eq!(all.reason("Produce", "case", 4, &d), None);
        assert_eq!(all.unused().count(), 1);
        assert_eq!(all.reason("Fetch", "case", 4, &d), Some("because"));
        assert_eq!(all.unused().count(), 0);
    }
}
