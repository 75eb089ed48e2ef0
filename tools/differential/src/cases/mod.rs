//! The scripts, one file per group of APIs. A script talks to one peer at one version; which fields are the same is not
//! its business.

mod cluster;
mod commits;
mod configs;
mod create;
mod describe;
mod epochs;
mod fetch;
mod groups;
mod grow_and_delete;
mod limits;
mod members;
mod metadata;
mod offsets;
mod produce;
mod producers;
mod requests;
mod trim;

use rillway_wire::ApiKey;

use crate::peer::Peer;

/// A script with a sentence for a name.
pub(crate) struct Case {
    pub api: ApiKey,
    pub name: &'static str,
    /// First version that the script is for.
    pub from: i16,
    pub script: fn(&mut Peer, i16),
    number: usize,
}

impl Case {
    /// For the names of its topics.
    pub(crate) fn slug(&self) -> String {
        format!("{}{}", self.api.name(), self.number)
    }
}

/// A case for every version of its API.
const fn case(api: ApiKey, name: &'static str, script: fn(&mut Peer, i16)) -> Case {
    Case { api, name, from: 0, script, number: 0 }
}

/// A case from a version on.
const fn case_from(api: ApiKey, from: i16, name: &'static str, script: fn(&mut Peer, i16)) -> Case {
    Case { api, name, from, script, number: 0 }
}

/// All scripts, in the order in which they run.
pub(crate) fn all_cases() -> Vec<Case> {
    let groups = [
        requests::CASES,
        cluster::CASES,
        metadata::CASES,
        create::CASES,
        grow_and_delete::CASES,
        configs::CASES,
        produce::CASES,
        limits::CASES,
        producers::CASES,
        fetch::CASES,
        offsets::CASES,
        epochs::CASES,
        trim::CASES,
        describe::CASES,
        members::CASES,
        commits::CASES,
        groups::CASES,
    ];
    let all = groups.into_iter().flatten().enumerate();
    all.map(|(number, case)| Case { number, ..*case }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_cases_of_an_api_have_one_name() {
        let mut names: Vec<_> = all_cases().iter().map(|c| (c.api, c.name)).collect();
        names.sort_unstable();
        let all = names.len();
        names.dedup();
        assert_eq!(names.len(), all);
    }
}
