//! Input of a replay: files or standard input, plain or gzip, sorted by time.
//!
//! A recording stores each text once and each call in a few words, so a log of many millions of lines fits in memory.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use flate2::bufread::MultiGzDecoder;
use foldhash::fast::RandomState;
use http::HeaderMap;
use indexmap::IndexSet;
use indicatif::ProgressBar;
use tollgate::request::{client_ip, normalize};
use tollgate::{Call, RuleSet};
use tollgate_core::clock::Timestamp;
use tollgate_core::rules::DescriptorSource;

use super::{access_log, json_line};

const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];
const BAD_LINES_SHOWN_MAX: usize = 5;
/// Longest line that is parsed, in bytes; a longer one is a bad line.
const LINE_LEN_MAX: usize = 1 << 20;
const IPV6_PREFIX: u8 = 64;

/// Reason why a log cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("{path}: {error}; check the path and its permissions")]
pub struct InputError {
    path: String,
    error: std::io::Error,
}

/// Line that is not a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadLine {
    /// `access.log:17`.
    pub place: String,
    /// Reason.
    pub reason: String,
}

/// Calls in order of time; ties in order of the files.
#[derive(Debug, Default)]
pub struct Recording {
    /// Distinct texts; a pair names them by their indexes.
    texts: IndexSet<Box<str>, RandomState>,
    pairs: Vec<(u32, u32)>,
    calls: Vec<RecordedCall>,
    /// Number of lines that are not calls.
    pub bad_lines: u64,
    /// The first of them, at most five.
    pub bad_lines_shown: Vec<BadLine>,
    /// Archives of which only the calls before a damaged place are read.
    pub damaged: Vec<DamagedArchive>,
}

/// Archive that is damaged or cut off.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{path}:{line}: the gzip breaks off here ({reason}), so the calls from here on are missing; copy the file again, or check it with `gzip -t`"
)]
pub struct DamagedArchive {
    path: String,
    line: u64,
    reason: String,
}

#[derive(Clone, Copy, Debug)]
struct RecordedCall {
    time_ms: u64,
    cost: u64,
    first_pair: u32,
    pairs: u32,
}

impl Recording {
    /// Reads logs; `-` is standard input. The rules name further descriptors that a line of an access log provides.
    ///
    /// # Errors
    /// If a file cannot be read. Lines that are not calls are counted instead.
    pub fn read(paths: &[PathBuf], rules: &RuleSet, progress: &ProgressBar) -> Result<Self, InputError> {
        let mut recording = Self::default();
        for path in paths {
            let failed = |error| InputError { path: path.display().to_string(), error };
            if path == Path::new("-") {
                let input = progress.wrap_read(std::io::stdin().lock());
                recording.read_lines("stdin", input, rules).map_err(failed)?;
            } else {
                let file = File::open(path).map_err(failed)?;
                progress.inc_length(file.metadata().map_or(0, |metadata| metadata.len()));
                let name = path.display().to_string();
                recording.read_lines(&name, progress.wrap_read(file), rules).map_err(failed)?;
            }
        }
        progress.finish_and_clear();
        Ok(recording.sorted())
    }

    /// Reads a log that is a part of the program.
    ///
    /// # Panics
    /// Never: memory can be read.
    #[must_use]
    pub fn of_bytes(name: &str, log: &[u8], rules: &RuleSet) -> Self {
        let mut recording = Self::default();
        recording.read_lines(name, log, rules).expect("memory can be read");
        recording.sorted()
    }

    /// Sorts the calls by time. Ties stay in the order of the files.
    fn sorted(mut self) -> Self {
        self.calls.sort_by_key(|call| call.time_ms);
        self
    }

    /// Returns the number of calls.
    #[must_use]
    pub fn len(&self) -> usize {
        self.calls.len()
    }

    /// Returns true if there are no calls.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Returns the times of the first and the last call.
    #[must_use]
    pub fn span(&self) -> Option<(Timestamp, Timestamp)> {
        let (first, last) = (self.calls.first()?, self.calls.last()?);
        Some((Timestamp::from_ms(first.time_ms), Timestamp::from_ms(last.time_ms)))
    }

    /// Returns the names of all descriptors that some call has, in the order of their first occurrence.
    #[must_use]
    pub fn descriptors(&self) -> Vec<&str> {
        let names: BTreeSet<u32> = self.pairs.iter().map(|(name, _)| *name).collect();
        names.into_iter().map(|name| &*self.texts[name as usize]).collect()
    }

    /// Returns the calls with their times, in order.
    pub fn calls(&self) -> impl Iterator<Item = (Timestamp, Call<'_>)> {
        self.calls.iter().map(|recorded| {
            let pairs = &self.pairs[recorded.first_pair as usize..][..recorded.pairs as usize];
            let mut call = Call::new().costing(recorded.cost);
            for (name, value) in pairs {
                let text = |index: u32| Cow::Borrowed(&*self.texts[index as usize]);
                call.set(text(*name), text(*value));
            }
            (Timestamp::from_ms(recorded.time_ms), call)
        })
    }

    fn read_lines(&mut self, name: &str, raw: impl Read, rules: &RuleSet) -> std::io::Result<()> {
        let mut raw = BufReader::with_capacity(1 << 16, raw);
        let zipped = raw.fill_buf()?.starts_with(&GZIP_MAGIC);
        let mut lines: Box<dyn BufRead> =
            if zipped { Box::new(BufReader::with_capacity(1 << 16, MultiGzDecoder::new(raw))) } else { Box::new(raw) };
        let mut line = Vec::new();
        for number in 1_u64.. {
            line.clear();
            match read_line(&mut lines, &mut line) {
                Ok(0) => break,
                Ok(_) => {}
                // The lines before a damaged part of the archive are used.
                Err(error) if zipped => {
                    let (path, reason) = (name.to_owned(), error.to_string());
                    self.damaged.push(DamagedArchive { path, line: number, reason });
                    break;
                }
                Err(error) => return Err(error),
            }
            let text = String::from_utf8_lossy(&line);
            let text = text.trim_end_matches(['\n', '\r']);
            if text.trim().is_empty() {
                continue;
            }
            if let Err(reason) = self.read_line(text, rules) {
                self.reject(format!("{name}:{number}"), reason);
            }
        }
        Ok(())
    }

    fn reject(&mut self, place: String, reason: String) {
        self.bad_lines += 1;
        if self.bad_lines_shown.len() < BAD_LINES_SHOWN_MAX {
            self.bad_lines_shown.push(BadLine { place, reason });
        }
    }

    fn read_line(&mut self, text: &str, rules: &RuleSet) -> Result<(), String> {
        if text.len() > LINE_LEN_MAX {
            return Err(format!("the line is longer than {LINE_LEN_MAX} bytes"));
        }
        let first_pair = self.pairs.len();
        let (time_ms, cost) = if text.trim_start().starts_with('{') {
            let line = json_line::parse(text)?;
            for (name, value) in line.call.descriptors() {
                self.add(name, value);
            }
            (line.time_ms, line.call.cost())
        } else {
            let line = access_log::parse(text)?;
            self.add_access(&line, rules);
            (line.time_ms, 1)
        };
        let number = |count: usize| u32::try_from(count).map_err(|_| "more descriptors than fit in memory".to_owned());
        let (first_pair, pairs) = (number(first_pair)?, number(self.pairs.len() - first_pair)?);
        self.calls.push(RecordedCall { time_ms, cost, first_pair, pairs });
        Ok(())
    }

    /// Adds `ip`, `method`, `endpoint`, `status`, `user` and `user_agent`, and the descriptors that the rules declare
    /// over the same fields.
    fn add_access(&mut self, line: &access_log::AccessLogLine<'_>, rules: &RuleSet) {
        let ip = |prefix: u8| match line.ip.parse::<IpAddr>() {
            Ok(ip) if ip.is_ipv6() => client_ip(Some(ip), &HeaderMap::new(), 0, prefix).unwrap_or_default().into(),
            _ => Cow::Borrowed(line.ip),
        };
        let (method, path) = line.request.unzip();
        let raw = path.and_then(|path| path.split(['?', '#']).next());
        let declared = |name: &str| rules.descriptors.iter().any(|spec| *spec.name == *name);
        for spec in &rules.descriptors {
            let value = match &spec.source {
                DescriptorSource::ClientIp { ipv6_prefix, .. } => Some(ip(*ipv6_prefix)),
                DescriptorSource::Method => method.map(Cow::Borrowed),
                DescriptorSource::Path { normalized: true } => path.map(normalize),
                DescriptorSource::Path { normalized: false } => raw.map(Cow::Borrowed),
                DescriptorSource::Header(header) if &**header == "user-agent" => line.user_agent.clone(),
                // An access log has no other part of a request.
                _ => None,
            };
            if let Some(value) = value {
                self.add(&spec.name, &value);
            }
        }
        let further = [
            ("ip", Some(ip(IPV6_PREFIX))),
            ("method", method.map(Cow::Borrowed)),
            ("endpoint", path.map(normalize)),
            ("status", Some(Cow::Borrowed(line.status))),
            ("user", line.user.map(Cow::Borrowed)),
            ("user_agent", line.user_agent.clone()),
        ];
        for (name, value) in further {
            if let Some(value) = value.filter(|_| !declared(name)) {
                self.add(name, &value);
            }
        }
    }

    fn add(&mut self, name: &str, value: &str) {
        let mut index_of = |text: &str| {
            let known = self.texts.get_index_of(text);
            let index = known.unwrap_or_else(|| self.texts.insert_full(text.into()).0);
            u32::try_from(index).expect("fewer than four thousand million different texts")
        };
        let pair = (index_of(name), index_of(value));
        self.pairs.push(pair);
    }
}

/// Reads one line, and of an overlong line only as much as proves its length.
fn read_line(lines: &mut dyn BufRead, line: &mut Vec<u8>) -> std::io::Result<usize> {
    let read = lines.take(LINE_LEN_MAX as u64 + 2).read_until(b'\n', line)?;
    if line.len() > LINE_LEN_MAX && !line.ends_with(b"\n") {
        lines.skip_until(b'\n')?;
    }
    Ok(read)
}
