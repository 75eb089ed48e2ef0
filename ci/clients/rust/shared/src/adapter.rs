//! The loop that each Rust client program runs, and the records in their text form: the same as
//! ci/clients/adapter.py and records.py, which describe both.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{BufRead, Write as _};
use std::ops::Range;

/// How long a command waits for the broker.
pub const PATIENCE: std::time::Duration = std::time::Duration::from_secs(60);

pub type Error = Box<dyn std::error::Error>;

/// The answer of a client that has no such function.
#[derive(Debug)]
pub struct Cannot(pub &'static str);

impl std::fmt::Display for Cannot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for Cannot {}

/// One line of a file of records.
#[derive(Debug, Clone)]
pub struct Record {
    pub partition: i32,
    pub offset: i64,
    /// Milliseconds.
    pub timestamp: i64,
    pub key: Option<Vec<u8>>,
    pub value: Option<Vec<u8>>,
    pub headers: Vec<(String, Option<Vec<u8>>)>,
}

/// What each program implements.
pub trait Client {
    fn version(&self) -> String;
    fn create(&mut self, topic: &str, partitions: i32) -> Result<(), Error>;
    /// Partition and offset of each record.
    fn write(
        &mut self,
        topic: &str,
        codec: &str,
        records: Vec<Record>,
    ) -> Result<Vec<(i32, i64)>, Error>;
    fn read(
        &mut self,
        topic: &str,
        wanted: BTreeMap<i32, Range<i64>>,
    ) -> Result<Vec<Record>, Error>;
    /// The first offset at or after a time, if there is one.
    fn offset_for(
        &mut self,
        topic: &str,
        partition: i32,
        timestamp: i64,
    ) -> Result<Option<i64>, Error>;
    fn bounds(&mut self, topic: &str, partition: i32) -> Result<(i64, i64), Error>;
    fn out_of_range(
        &mut self,
        topic: &str,
        partition: i32,
        offset: i64,
        reset: &str,
    ) -> Result<String, Error>;
    fn transactional(&mut self, timeout_s: u64) -> Result<String, Error>;
}

/// Answers commands until stdin ends.
pub fn serve(mut client: impl Client) -> Result<(), Error> {
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let words: Vec<&str> = line.split_whitespace().collect();
        let answer = match answer(&mut client, &words) {
            Ok(lines) => lines + "done\n",
            Err(why) if why.is::<Cannot>() => format!("cannot {why}\n"),
            Err(why) => {
                eprintln!("{why:?}");
                let text = why.to_string();
                format!("failed {}\n", text.split_whitespace().collect::<Vec<_>>().join(" "))
            }
        };
        let mut out = std::io::stdout().lock();
        out.write_all(answer.as_bytes())?;
        out.flush()?;
    }
    Ok(())
}

fn answer(client: &mut impl Client, words: &[&str]) -> Result<String, Error> {
    Ok(match *words {
        ["version"] => format!("{}\n", client.version()),
        ["create", topic, partitions] => {
            client.create(topic, partitions.parse()?)?;
            String::new()
        }
        ["write", topic, codec, path] => {
            let mut lines = String::new();
            for (partition, offset) in client.write(topic, codec, load(path)?)? {
                writeln!(lines, "{partition} {offset}")?;
            }
            lines
        }
        ["read", topic, path, ref parts @ ..] => {
            let mut wanted = BTreeMap::new();
            for part in parts {
                let numbers = part.split(':').map(str::parse).collect::<Result<Vec<i64>, _>>()?;
                if numbers[1] < numbers[2] {
                    wanted.insert(i32::try_from(numbers[0])?, numbers[1]..numbers[2]);
                }
            }
            let records = client.read(topic, wanted)?;
            std::fs::write(path, records.iter().map(line).collect::<String>())?;
            String::new()
        }
        ["offset-for", topic, partition, timestamp] => {
            match client.offset_for(topic, partition.parse()?, timestamp.parse()?)? {
                Some(offset) => format!("{offset}\n"),
                None => "none\n".to_owned(),
            }
        }
        ["bounds", topic, partition] => {
            let (first, end) = client.bounds(topic, partition.parse()?)?;
            format!("{first} {end}\n")
        }
        ["out-of-range", topic, partition, offset, reset] => {
            client.out_of_range(topic, partition.parse()?, offset.parse()?, reset)? + "\n"
        }
        ["transactional", timeout] => client.transactional(timeout.parse()?)? + "\n",
        _ => return Err(format!("no command {words:?}").into()),
    })
}

fn load(path: &str) -> Result<Vec<Record>, Error> {
    std::fs::read_to_string(path)?.lines().map(parse).collect()
}

fn parse(line: &str) -> Result<Record, Error> {
    let f: Vec<&str> = line.split(' ').collect();
    let mut headers = Vec::new();
    for pair in f[5].split(',').filter(|_| f[5] != "-") {
        let (name, value) = pair.split_once('=').ok_or("a header without =")?;
        headers.push((String::from_utf8(bytes(name)?.ok_or("a null name")?)?, bytes(value)?));
    }
    Ok(Record {
        partition: f[0].parse()?,
        offset: f[1].parse()?,
        timestamp: f[2].parse()?,
        key: bytes(f[3])?,
        value: bytes(f[4])?,
        headers,
    })
}

fn bytes(text: &str) -> Result<Option<Vec<u8>>, Error> {
    let Some(hex) = text.strip_prefix('x') else { return Ok(None) };
    let pairs = hex
        .as_bytes()
        .chunks(2)
        .map(|pair| Ok(u8::from_str_radix(std::str::from_utf8(pair)?, 16)?));
    pairs.collect::<Result<Vec<u8>, Error>>().map(Some)
}

fn text(data: Option<&[u8]>) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let Some(data) = data else { return "~".to_owned() };
    let digit = |nibble: u8| char::from(DIGITS[usize::from(nibble)]);
    std::iter::once('x').chain(data.iter().flat_map(|b| [digit(b >> 4), digit(b & 15)])).collect()
}

fn line(r: &Record) -> String {
    let headers: Vec<String> = (r.headers.iter())
        .map(|(name, value)| format!("{}={}", text(Some(name.as_bytes())), text(value.as_deref())))
        .collect();
    let headers = if headers.is_empty() { "-".to_owned() } else { headers.join(",") };
    let (key, value) = (text(r.key.as_deref()), text(r.value.as_deref()));
    format!("{} {} {} {key} {value} {headers}\n", r.partition, r.offset, r.timestamp)
}
