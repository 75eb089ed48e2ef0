//! Rules for Rust files: where `unsafe`, clocks, threads and globals may be, what `lib.rs` is for,
//! what opens a file.

use super::Finding;
use crate::source::{code_only, imports, line_of, words};

/// Lines above which a file is told to be split.
const LONG: usize = 600;

/// Words banned in `broker/` outside `broker/io`, since simulated cores share one thread and time.
const GLOBALS: &[(&str, &str)] = &[
    ("thread_local!", "keep the state in a struct that its core owns"),
    ("static mut", "keep the state in a struct that its core owns"),
];

/// Paths of std banned in the same place, written out or imported.
const STD: &[(&str, &str)] = &[
    ("std::time::Instant", CLOCK),
    ("std::time::SystemTime", CLOCK),
    ("std::time::UNIX_EPOCH", CLOCK),
    ("std::thread::spawn", THREAD),
    ("std::thread::sleep", THREAD),
    ("std::thread::scope", THREAD),
    ("std::thread::Builder", THREAD),
];
const CLOCK: &str = "take the time from the Runtime (`now`, `wall_ms`), or be handed it";
const THREAD: &str = "use Runtime::spawn and Runtime::sleep; a thread belongs to broker/io";

/// Where a banned path may stand all the same: prefix of the file, prefix of the path, why.
const EXCEPTIONS: &[(&str, &str, &str)] = &[
    ("broker/src/", "std::thread::", "the binary starts its control thread; it runs no core"),
    ("broker/tests/", "std::", "drives the binary as a real process with real time"),
];

/// Folders that hold one file per Kafka API; a folder that does not exist has no files to judge.
const ONE_FILE_PER_API: &[&str] = &["broker/api/src/apis/", "client/wire/src/apis/"];

pub(crate) fn check(name: &str, text: &str) -> Vec<Finding> {
    if !name.ends_with(".rs") {
        return Vec::new();
    }
    let code = code_only(text);
    let mut findings = Vec::new();
    let mut find = |at: usize, what: String, mend: &str| {
        let (file, line) = (name.to_owned(), line_of(text, at));
        findings.push(Finding { file, line, what, mend: mend.to_owned() });
    };

    let in_io = name.starts_with("broker/io/");
    if !in_io {
        for at in words(&code, "unsafe") {
            let mend = "wrap it in a safe type of rillway-io, with its SAFETY proof there";
            find(at, "`unsafe` outside broker/io".into(), mend);
        }
    }
    if name.starts_with("broker/") && !in_io {
        for (word, mend) in GLOBALS {
            for (at, _) in code.match_indices(word) {
                find(at, format!("`{word}` in the broker"), mend);
            }
        }
        for (at, path) in std_paths(&code) {
            let banned =
                STD.iter().find(|(b, _)| path == *b || path.starts_with(&format!("{b}::")));
            let excused =
                EXCEPTIONS.iter().any(|(f, p, _)| name.starts_with(f) && path.starts_with(p));
            if let (Some((banned, mend)), false) = (banned, excused) {
                find(at, format!("`{banned}` in the broker"), mend);
            }
        }
    }
    if name.ends_with("src/lib.rs") {
        for (at, item) in logic_of_lib(&code) {
            let what = format!("lib.rs is a table of contents, and here is `{item}`");
            find(at, what, "move it to a module of its own and re-export it");
        }
    }
    if ONE_FILE_PER_API.iter().any(|f| name.starts_with(f)) && !text.starts_with("//!") {
        let what = "a file of an API opens with a module comment, and this one does not".into();
        find(0, what, "say in `//!` what the API is, its versions, its traps, what is absent");
    }
    findings
}

/// A line about a file that has grown too long for one subject.
pub(crate) fn long_file(name: &str, text: &str) -> Option<String> {
    let lines = text.lines().count();
    (name.ends_with(".rs") && lines > LONG)
        .then(|| format!("{name}: {lines} lines; above {LONG} a file is split by subject"))
}

/// Paths of std's clocks and threads, by import or written out, with where they stand. `use
/// std::time;` and then `time::Instant` counts, and so does a glob.
fn std_paths(code: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let imported = imports(code);
    for (at, path) in &imported {
        if let Some(module) = path.strip_suffix("::*") {
            let below =
                STD.iter().filter(|(p, _)| p.rsplit_once("::").is_some_and(|s| s.0 == module));
            found.extend(below.map(|(p, _)| (*at, (*p).to_owned())));
        }
        found.push((*at, path.clone()));
    }
    for (banned, _) in STD {
        let short = banned.trim_start_matches("std::");
        let module = banned.rsplit_once("::").map_or("", |s| s.0);
        let short_means_std = imported.iter().any(|(_, p)| p == module);
        for at in words(code, short) {
            let full = code[..at].ends_with("std::");
            let bare = !code[..at].ends_with("::");
            // An import of the path itself was found above.
            if (full && !imported.iter().any(|(u, _)| *u < at && !code[*u..at].contains(';')))
                || (bare && short_means_std)
            {
                found.push((at, (*banned).to_owned()));
            }
        }
    }
    found
}

/// Items of a `lib.rs` that are neither `mod x;`, `use`, `const` nor `extern crate`.
fn logic_of_lib(code: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(skip) = code[at..].find(|c: char| !c.is_whitespace()) {
        at += skip;
        let rest = &code[at..];
        if rest.starts_with('#') {
            at += bracketed(rest);
            continue;
        }
        let end = rest.find(';').map_or(rest.len(), |e| e + 1);
        let item = rest[..end].split_whitespace().collect::<Vec<_>>().join(" ");
        let mut words = item.split(' ').filter(|w| !w.starts_with("pub") && !w.starts_with("in"));
        let kind = words.next().unwrap_or("");
        let declares = match kind {
            "mod" => !item.contains('{'),
            "use" | "extern" => true,
            "const" => !item.contains("fn "),
            _ => false,
        };
        if !declares {
            let shown: String = item.chars().take(40).collect();
            // One finding a file is enough: what follows a block cannot be told apart here.
            found.push((at, shown));
            return found;
        }
        at += end;
    }
    found
}

/// The length of an attribute, `#[...]` or `#![...]`.
fn bracketed(rest: &str) -> usize {
    let mut depth = 0_usize;
    for (at, c) in rest.char_indices() {
        match c {
            '[' => depth += 1,
            ']' if depth <= 1 => return at + 1,
            ']' => depth -= 1,
            _ => {}
        }
    }
    rest.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whats(name: &str, text: &str) -> Vec<String> {
        check(name, text).into_iter().map(|f| format!("{}: {}", f.line, f.what)).collect()
    }

    #[test]
    fn unsafe_is_allowed_in_io_only_and_words_in_comments_do_not_count() {
        let text = "//! unsafe\n#![forbid(unsafe_code)]\nfn f() { unsafe { g() } }\n";
        assert_eq!(whats("broker/io/src/a.rs", text), Vec::<String>::new());
        assert_eq!(whats("client/src/a.rs", text), ["3: `unsafe` outside broker/io"]);
    }

    #[test]
    fn clocks_are_found_however_they_are_named() {
        let forms = [
            "use std::time::Instant;",
            "use std::time::{Duration, SystemTime};",
            "use std::{fs, time::{Instant as Clock}};",
            "use std::time::*;",
            "fn f() { let t = std::time::Instant::now(); }",
            "use std::time;\nfn f() { time::Instant::now(); }",
            "use std::thread;\nfn f() { thread::sleep(d); }",
            "thread_local! { static X: u8 = 0; }",
            "static mut X: u8 = 0;",
        ];
        for form in forms {
            assert!(!whats("broker/log/src/a.rs", form).is_empty(), "not found: {form}");
            assert_eq!(whats("broker/io/src/a.rs", form), Vec::<String>::new(), "{form}");
            assert_eq!(whats("tools/src/a.rs", form), Vec::<String>::new(), "{form}");
        }
    }

    #[test]
    fn our_own_instant_and_durations_are_free() {
        let text = "use std::time::Duration;\nuse rillway_io::Instant;\nfn f(t: Instant) {}\n";
        assert_eq!(whats("broker/log/src/a.rs", text), Vec::<String>::new());
    }

    #[test]
    fn the_binary_may_start_its_control_thread_but_read_no_clock() {
        let text = "use std::thread;\nfn f() { thread::Builder::new(); }\n";
        assert_eq!(whats("broker/src/main.rs", text), Vec::<String>::new());
        assert_eq!(whats("broker/src/main.rs", "use std::time::Instant;").len(), 1);
    }

    #[test]
    fn lib_is_a_table_of_contents() {
        let contents = "//! What it is.\n#![forbid(unsafe_code)]\nmod a;\n#[cfg(test)]\nmod t;\n\
                        pub(crate) mod b;\npub use a::{X, Y};\npub const N: usize = 4;\n";
        assert_eq!(whats("broker/log/src/lib.rs", contents), Vec::<String>::new());
        for logic in ["mod a;\npub fn f() {}\n", "struct A;\n", "mod x { fn f() {} }\n"] {
            assert_eq!(whats("broker/log/src/lib.rs", logic).len(), 1, "{logic}");
        }
        assert_eq!(whats("broker/log/src/other.rs", "pub fn f() {}"), Vec::<String>::new());
    }

    #[test]
    fn a_file_of_an_api_opens_with_its_comment() {
        assert_eq!(whats("broker/api/src/apis/fetch.rs", "use a::b;\n").len(), 1);
        assert!(whats("broker/api/src/apis/fetch.rs", "//! Fetch.\nuse a::b;\n").is_empty());
    }

    #[test]
    fn long_files_are_told() {
        assert!(long_file("a.rs", &"x\n".repeat(601)).is_some());
        assert!(long_file("a.rs", &"x\n".repeat(600)).is_none());
        assert!(long_file("a.md", &"x\n".repeat(900)).is_none());
    }
}
