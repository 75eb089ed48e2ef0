//! Just enough of Rust's surface to judge a file without a parser: comments and literals blanked,
//! words with their lines, `use` trees flattened.
//!
//! Absent on purpose: macros are not expanded, so a banned word that a macro builds is not seen.

/// The text with comments, strings and character literals replaced by blanks of the same length, so
/// that lines and columns stay where they were.
pub(crate) fn code_only(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = bytes.to_vec();
    let mut at = 0;
    while at < bytes.len() {
        let end = match literal_or_comment(bytes, at) {
            Some(end) => end,
            None => {
                // A whole word at once, so that the `r` of `for"` is not taken for a raw string.
                let word = bytes[at..].iter().take_while(|b| is_word(**b)).count();
                at += word.max(1);
                continue;
            }
        };
        for b in &mut out[at..end] {
            if *b != b'\n' {
                *b = b' ';
            }
        }
        at = end;
    }
    // Only whole literals and comments were blanked, so what is left is UTF-8 still.
    String::from_utf8_lossy(&out).into_owned()
}

fn is_word(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b == b'_' || b >= 0x80
}

/// The end of the comment or literal that starts at `at`, if one does.
fn literal_or_comment(bytes: &[u8], at: usize) -> Option<usize> {
    let rest = &bytes[at..];
    let find = |needle: &[u8], from: usize| {
        let hit = rest.get(from..)?.windows(needle.len()).position(|w| w == needle)?;
        Some(at + from + hit + needle.len())
    };
    if rest.starts_with(b"//") {
        return Some(find(b"\n", 0).map_or(bytes.len(), |e| e - 1));
    }
    if rest.starts_with(b"/*") {
        return Some(block_comment(bytes, at));
    }
    let prefix = rest.iter().take(2).take_while(|b| matches!(b, b'b' | b'c' | b'r')).count();
    let hashes = rest[prefix..].iter().take_while(|b| **b == b'#').count();
    let raw = rest[..prefix].contains(&b'r');
    match rest.get(prefix + hashes) {
        Some(b'"') if raw => {
            let close: Vec<u8> =
                std::iter::once(b'"').chain(std::iter::repeat_n(b'#', hashes)).collect();
            Some(find(&close, prefix + hashes + 1).unwrap_or(bytes.len()))
        }
        Some(b'"') if hashes == 0 => Some(quoted(bytes, at + prefix + 1, b'"')),
        Some(b'\'') if hashes == 0 && prefix <= 1 && !raw => {
            // 'x' or '\n' is a literal, 'x without a closing quote a lifetime.
            let first = at + prefix + 1;
            let wide = match bytes.get(first)? {
                b'\\' => return Some(quoted(bytes, first, b'\'')),
                b if *b < 0x80 => 1,
                b => b.leading_ones() as usize,
            };
            (bytes.get(first + wide) == Some(&b'\'')).then_some(first + wide + 1)
        }
        _ => None,
    }
}

fn block_comment(bytes: &[u8], start: usize) -> usize {
    let (mut at, mut depth) = (start, 0_usize);
    while at < bytes.len() {
        if bytes[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if bytes[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    bytes.len()
}

fn quoted(bytes: &[u8], mut at: usize, close: u8) -> usize {
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b if b == close => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// The line of a byte position, from 1.
pub(crate) fn line_of(text: &str, at: usize) -> usize {
    text.as_bytes()[..at.min(text.len())].iter().filter(|b| **b == b'\n').count() + 1
}

/// Positions where `needle` stands as a whole word or path in `code`.
pub(crate) fn words<'a>(code: &'a str, needle: &'a str) -> impl Iterator<Item = usize> + 'a {
    let bytes = code.as_bytes();
    code.match_indices(needle).map(|(at, _)| at).filter(move |&at| {
        let before = at.checked_sub(1).map(|i| bytes[i]);
        let after = bytes.get(at + needle.len()).copied();
        !before.is_some_and(is_word) && !after.is_some_and(is_word)
    })
}

/// Every path that the `use` statements of `code` bring in, written out, with its byte position:
/// `use std::{time::{Instant as I}, fs};` gives `std::time::Instant` and `std::fs`.
pub(crate) fn imports(code: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for start in words(code, "use") {
        let from = start + "use".len();
        let len = code[from..].find(';').unwrap_or(code.len() - from);
        flatten("", &code[from..from + len], &mut |path| found.push((start, path)));
    }
    found
}

fn flatten(prefix: &str, tree: &str, emit: &mut dyn FnMut(String)) {
    let tree = tree.trim().trim_start_matches("::");
    if let Some((head, rest)) = tree.split_once('{') {
        let inner = rest.trim_end().strip_suffix('}').unwrap_or(rest);
        let prefix = format!("{prefix}{}", head.trim());
        for part in split_at_top(inner) {
            flatten(&prefix, part, emit);
        }
        return;
    }
    let path = tree.split(" as ").next().unwrap_or(tree).trim();
    if path == "self" {
        emit(prefix.trim_end_matches("::").to_owned());
    } else if !path.is_empty() {
        emit(format!("{prefix}{path}"));
    }
}

fn split_at_top(list: &str) -> Vec<&str> {
    let (mut depth, mut start, mut parts) = (0_i32, 0, Vec::new());
    for (at, c) in list.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&list[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&list[start..]);
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_blanked_and_lines_stay() {
        let text = "a /* x /* y */ z */ b // c\n\"s\\\"t\" r#\"raw \" end\"# 'q' '\\'' b\"k\" d\n";
        let code = code_only(text);
        assert_eq!(code.len(), text.len());
        assert_eq!(code.split_whitespace().collect::<Vec<_>>(), ["a", "b", "d"]);
        assert_eq!(code.matches('\n').count(), 2);
    }

    #[test]
    fn lifetimes_and_raw_identifiers_are_no_literals() {
        let code = code_only("fn f<'a>(x: &'a str, r#type: u8) -> &'a str { for_ }");
        assert!(code.contains("&'a str") && code.contains("type"), "{code}");
    }

    #[test]
    fn a_word_is_found_only_whole() {
        let code = "unsafe_code unsafe { } not_unsafe";
        assert_eq!(words(code, "unsafe").collect::<Vec<_>>(), [12]);
    }

    #[test]
    fn nested_imports_are_written_out() {
        let code =
            "pub use std::{time::{Instant as I, Duration}, fs, io::{self, Read}};\nuse a::b;";
        let paths: Vec<String> = imports(code).into_iter().map(|(_, p)| p).collect();
        let expected = [
            "std::time::Instant",
            "std::time::Duration",
            "std::fs",
            "std::io",
            "std::io::Read",
            "a::b",
        ];
        assert_eq!(paths, expected);
    }
}
