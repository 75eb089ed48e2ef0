//! DeleteTopics, key 20, served 1-6. From version 6 on a topic may be named by its id (KIP-516); one that names neither
//! or both is INVALID_REQUEST, and so is one that comes twice, by name or by id: it stays. When it is answered, the name
//! is free.

use std::collections::{BTreeMap, BTreeSet};

use rillway_shard::TopicId;
use rillway_wire::api::delete_topics::{Request as Body, Response, TopicResponse};
use rillway_wire::{ErrorCode, Uuid};

use crate::apis::{later, list};
use crate::connection::{Answer, Close};
use crate::context::Request;
use crate::error_codes;

enum Asked {
    Name(String),
    Id(TopicId),
    Both(String, TopicId),
    Neither,
}

struct Deleted {
    name: Option<String>,
    id: Uuid,
    error: Option<(ErrorCode, String)>,
}

pub(crate) async fn handle(request: Request, body: &Body<'_>) -> Result<Answer, Close> {
    let mut asked = Vec::new();
    for name in &body.topic_names {
        asked.push(Asked::Name(name.to_owned()));
    }
    for topic in &body.topics {
        asked.push(match (topic.name, topic.topic_id.is_zero()) {
            (Some(name), true) => Asked::Name(name.to_owned()),
            (None, false) => Asked::Id(TopicId(topic.topic_id.0)),
            (Some(name), false) => Asked::Both(name.to_owned(), TopicId(topic.topic_id.0)),
            (None, true) => Asked::Neither,
        });
    }
    later(async move {
        let (once, mut done) = tell_apart(&request, asked);
        for want in once {
            done.push(delete(&request, want).await);
        }
        let responses = done.iter().map(|d| TopicResponse {
            name: d.name.as_deref(),
            topic_id: d.id,
            error_code: d.error.as_ref().map_or(ErrorCode::None, |(code, _)| *code),
            error_message: d.error.as_ref().map(|(_, why)| why.as_str()),
        });
        list(&request, &Response { responses: responses.collect(), ..Default::default() })
    })
}

/// What comes once, and the refusals of what comes more often, one for each topic.
fn tell_apart(request: &Request, asked: Vec<Asked>) -> (Vec<Asked>, Vec<Deleted>) {
    let view = request.context.shard().view();
    // By id where there is such a topic, so that its name and its id are the same.
    let key = |want: &Asked| match want {
        Asked::Name(name) => Some(match view.topic(name) {
            Some(topic) => Ok(topic.id.0),
            None => Err(name.clone()),
        }),
        Asked::Id(id) => Some(Ok(id.0)),
        Asked::Both(..) | Asked::Neither => None,
    };
    // How often, and by which name.
    let mut counts: BTreeMap<Result<[u8; 16], String>, (usize, Option<String>)> = BTreeMap::new();
    for want in &asked {
        let Some(key) = key(want) else { continue };
        let (count, by_name) = counts.entry(key).or_default();
        *count += 1;
        if let Asked::Name(name) = want {
            *by_name = Some(name.clone());
        }
    }
    let ids: BTreeSet<[u8; 16]> = asked
        .iter()
        .filter_map(|w| if let Asked::Id(id) = w { Some(id.0) } else { None })
        .collect();
    let (mut once, mut refused) = (Vec::new(), Vec::new());
    for want in asked {
        let Some(key) = key(&want).filter(|key| counts.get(key).is_none_or(|(n, _)| *n != 1))
        else {
            once.push(want);
            continue;
        };
        // Told with the first, and then no more.
        if let Some((_, name)) = counts.remove(&key) {
            let id = key.ok().filter(|id| ids.contains(id)).map_or(Uuid::ZERO, Uuid);
            let why = "the topic is named more than once in the request".to_owned();
            refused.push(Deleted { name, id, error: Some((ErrorCode::InvalidRequest, why)) });
        }
    }
    (once, refused)
}

async fn delete(request: &Request, want: Asked) -> Deleted {
    let shard = request.context.shard();
    let invalid = |name, id: TopicId, why: &str| Deleted {
        name,
        id: Uuid(id.0),
        error: Some((ErrorCode::InvalidRequest, why.to_owned())),
    };
    let name = match want {
        Asked::Name(name) => name,
        Asked::Both(name, id) => {
            return invalid(Some(name), id, "name and id are both given; give one");
        }
        Asked::Neither => return invalid(None, TopicId([0; 16]), "neither name nor id is given"),
        Asked::Id(id) => match shard.view().image.topic_by_id(id) {
            Some(topic) => topic.name.clone(),
            None => {
                let error = Some((ErrorCode::UnknownTopicId, "no topic has this id".to_owned()));
                return Deleted { name: None, id: Uuid(id.0), error };
            }
        },
    };
    match shard.delete_topic(&name).await {
        Ok(id) => Deleted { name: Some(name), id: Uuid(id.0), error: None },
        Err(e) => {
            let error = Some((error_codes::topic(&e), e.to_string()));
            Deleted { name: Some(name), id: Uuid::default(), error }
        }
    }
}
