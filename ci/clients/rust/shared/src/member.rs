//! What a member of a group is to be and how it speaks: the same as ci/clients/member.py, which
//! describes both.

use std::io::{Read as _, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::Error;

/// How often a member speaks to the group and asks for metadata.
pub const HEARTBEAT_MS: u32 = 500;
pub const METADATA_MS: u32 = 1000;

/// What a member is to be.
#[derive(Debug, Clone)]
pub struct Wish {
    pub topics: Vec<String>,
    pub group: String,
    /// The client's default if none is named.
    pub assignor: Option<String>,
    pub instance: Option<String>,
    pub session_ms: u32,
}

/// The wish, when the program was started as `BOOTSTRAP member ...`.
pub fn wish() -> Result<Option<Wish>, Error> {
    let words: Vec<String> = std::env::args().skip(2).collect();
    let [mode, topics, group, named @ ..] = words.as_slice() else { return Ok(None) };
    if mode != "member" {
        return Ok(None);
    }
    let mut wish = Wish {
        topics: topics.split(',').map(str::to_owned).collect(),
        group: group.clone(),
        assignor: None,
        instance: None,
        session_ms: 6000,
    };
    for word in named {
        match word.split_once('=') {
            Some(("assignor", name)) => wish.assignor = Some(name.to_owned()),
            Some(("instance", id)) => wish.instance = Some(id.to_owned()),
            Some(("session", ms)) => wish.session_ms = ms.parse()?,
            _ => return Err(format!("no wish {word}").into()),
        }
    }
    Ok(Some(wish))
}

/// Prints one line at once.
pub fn say(line: std::fmt::Arguments<'_>) {
    let mut out = std::io::stdout().lock();
    // Nobody listens any more only when the run is over.
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

/// Becomes true when the member is to leave: when stdin ends.
pub fn leave() -> Arc<AtomicBool> {
    let ended = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&ended);
    std::thread::spawn(move || {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        told.store(true, Ordering::Relaxed);
    });
    ended
}
