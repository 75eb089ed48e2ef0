//! What is printed: tables for people, JSON for scripts. Standard output holds nothing else.
//!
//! In JSON sizes are in bytes and times in milliseconds, as the names of the fields say; tables round both.

use std::io::Write;

use serde_json::Value;

use crate::error::{Error, Result};

/// How to print; every listing has it.
#[derive(clap::Args, Clone, Copy, Debug)]
pub(crate) struct Output {
    /// Print JSON: field names stay, sizes are in bytes, times in milliseconds.
    #[arg(long)]
    pub(crate) json: bool,
}

/// A table with aligned columns.
#[derive(Debug)]
pub(crate) struct Table {
    /// Names, and whether the column is aligned to the right.
    head: Vec<(&'static str, bool)>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A name with `>` in front: a column of numbers.
    pub(crate) fn new(head: &[&'static str]) -> Self {
        let head = head.iter().map(|name| match name.strip_prefix('>') {
            Some(name) => (name, true),
            None => (*name, false),
        });
        Self { head: head.collect(), rows: Vec::new() }
    }

    pub(crate) fn row<const N: usize>(&mut self, cells: [String; N]) {
        debug_assert_eq!(N, self.head.len());
        // An empty cell would shift the rest for whoever splits at spaces.
        let filled = cells.map(|c| if c.is_empty() { "-".to_string() } else { c });
        self.rows.push(filled.into());
    }

    /// The lines, the names of the columns first.
    pub(crate) fn lines(self) -> Vec<String> {
        let widths: Vec<usize> = self
            .head
            .iter()
            .enumerate()
            .map(|(at, (name, _))| {
                let cells = self.rows.iter().filter_map(|row| row.get(at));
                cells.map(|c| c.chars().count()).chain([name.len()]).max().unwrap_or(0)
            })
            .collect();
        let line = |cells: &[&str]| {
            let mut line = String::new();
            for ((cell, width), (_, right)) in cells.iter().zip(&widths).zip(&self.head) {
                let padding = " ".repeat(width.saturating_sub(cell.chars().count()));
                let (before, behind) = if *right { (&*padding, "") } else { ("", &*padding) };
                line.push_str(&format!("{before}{cell}{behind}  "));
            }
            line.trim_end().to_string()
        };
        let head: Vec<&str> = self.head.iter().map(|(name, _)| *name).collect();
        let rows = self.rows.iter().map(|row| {
            let cells: Vec<&str> = row.iter().map(String::as_str).collect();
            line(&cells)
        });
        std::iter::once(line(&head)).chain(rows).collect()
    }
}

/// Prints lines to standard output; a reader that has seen enough is no failure.
pub(crate) fn print(lines: impl IntoIterator<Item = String>) -> Result<()> {
    let mut out = std::io::stdout().lock();
    for line in lines {
        match writeln!(out, "{line}") {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => return Ok(()),
            Err(source) => {
                let path = "standard output".into();
                return Err(Error::File { path, source });
            }
        }
    }
    Ok(())
}

/// Prints a value as JSON.
pub(crate) fn print_json(value: &Value) -> Result<()> {
    print([format!("{value:#}")])
}

/// A size: bytes below 1 KiB, then with one decimal.
pub(crate) fn size(bytes: i64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if bytes.unsigned_abs() < 1024 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1024.0;
    let mut unit = 0;
    // From 1023.95 on the rounded figure would be 1024.0.
    while value.abs() >= 1023.95 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

/// A duration: its two largest units.
pub(crate) fn duration(ms: i64) -> String {
    let (sign, ms) = (if ms < 0 { "-" } else { "" }, ms.unsigned_abs());
    let (s, m, h, d) = (ms / 1000, ms / 60_000, ms / 3_600_000, ms / 86_400_000);
    let text = if d > 0 {
        format!("{d}d {}h", h % 24)
    } else if h > 0 {
        format!("{h}h {}m", m % 60)
    } else if m > 0 {
        format!("{m}m {}s", s % 60)
    } else if s > 0 {
        format!("{s}.{}s", ms % 1000 / 100)
    } else {
        format!("{ms}ms")
    };
    format!("{sign}{text}")
}

/// Milliseconds since 1970 as a time in UTC (RFC 3339); `-` when negative.
pub(crate) fn time(ms: i64) -> String {
    if ms < 0 {
        return "-".to_string();
    }
    let (days, rest) = (ms / 86_400_000, ms % 86_400_000);
    let (year, month, day) = date(days);
    let (h, m, s) = (rest / 3_600_000, rest / 60_000 % 60, rest / 1000 % 60);
    format!("{year:04}-{month:02}-{day:02}T{h:02}:{m:02}:{s:02}.{:03}Z", rest % 1000)
}

/// The other way round: `2026-11-30T21:00:00Z`, with or without seconds, fractions and the time of day.
pub(crate) fn parse_time(text: &str) -> Option<i64> {
    let text = text.strip_suffix('Z').unwrap_or(text);
    let (date, clock) = text.split_once(['T', ' ']).unwrap_or((text, "00:00"));
    let mut parts = date.splitn(3, '-');
    let mut part = || parts.next()?.parse::<i64>().ok();
    let (year, month, day) = (part()?, part()?, part()?);
    if !(1970..=9999).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let (clock, fraction) = clock.split_once('.').unwrap_or((clock, "0"));
    let mut parts = clock.split(':').map(|p| p.parse::<i64>().ok());
    let (h, m, s) = (parts.next()??, parts.next()??, parts.next().unwrap_or(Some(0))?);
    if parts.next().is_some()
        || !(0..24).contains(&h)
        || !(0..60).contains(&m)
        || !(0..61).contains(&s)
    {
        return None;
    }
    if fraction.is_empty() || !fraction.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let millis: i64 = format!("{fraction:0<3}")[..3].parse().ok()?;
    let days = days(year, month, day);
    // The 31st of a month of 30 days is another day.
    (self::date(days) == (year, month, day))
        .then_some(days * 86_400_000 + h * 3_600_000 + m * 60_000 + s * 1000 + millis)
}

/// `90s`, `30m`, `2h`, `7d` in milliseconds.
pub(crate) fn parse_duration(text: &str) -> Option<i64> {
    let (number, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let unit = match unit {
        "s" => 1000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    let number: i64 = number.parse().ok().filter(|n| *n >= 0)?;
    number.checked_mul(unit)
}

/// Year, month and day of a day since 1970, in the Gregorian calendar; years of the count begin in March, so that the
/// leap day is the last of a year.
fn date(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year + era * 400 + i64::from(month <= 2), month, day)
}

fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * (if month > 2 { month - 3 } else { month + 9 }) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_no_cell_is_empty() {
        let mut table = Table::new(&["GROUP", ">LAG"]);
        table.row(["a".to_string(), "5".to_string()]);
        table.row(["longer-name".to_string(), String::new()]);
        assert_eq!(table.lines(), ["GROUP        LAG", "a              5", "longer-name    -"]);
    }

    #[test]
    fn sizes_and_durations_are_told_in_the_units_that_people_use() {
        let sizes = [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (1_048_575, "1.0 MiB")];
        for (bytes, text) in sizes {
            assert_eq!(size(bytes), text);
        }
        let times = [(7, "7ms"), (1500, "1.5s"), (61_000, "1m 1s"), (90_000_000, "1d 1h")];
        for (ms, text) in times {
            assert_eq!(duration(ms), text);
        }
    }

    #[test]
    fn times_read_back_as_they_were_written() {
        for ms in [0, 951_782_399_999, 1_709_164_800_000, 4_102_444_800_123] {
            assert_eq!(parse_time(&time(ms)), Some(ms), "{}", time(ms));
        }
        assert_eq!(time(1_709_164_800_000), "2024-02-29T00:00:00.000Z");
        assert_eq!(parse_time("2024-02-29"), Some(1_709_164_800_000));
        for wrong in ["", "yesterday", "2023-02-29", "2024-01-01T25:00", "2024-01-01T00:00:00.x"] {
            assert_eq!(parse_time(wrong), None, "{wrong}");
        }
        assert_eq!(parse_duration("2h"), Some(7_200_000));
        assert!(["", "h", "2", "-2h", "2w", "ä"].iter().all(|t| parse_duration(t).is_none()));
    }
}
