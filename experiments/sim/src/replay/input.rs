//! Input of a replay: files or standard input, plain or gzip.
//!
//! The calls of all files are sorted by time. Within a file, a server writes a line when the call has ended, so lines are a little out
//! of order. A line that is further back is counted, because the file may be two logs in one.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use flate2::bufread::MultiGzDecoder;
use indicatif::ProgressBar;
use serde::Serialize;
use tollgate::RuleSet;

use super::address_counts::AddressCounts;
use super::log::{BEGINNING_LEN, ClientChoice, ClientSource, LogDecoder, LogOptions, NoCall, ReadCall, refused_file};
use super::recording::Recording;

const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];
const BAD_LINES_SHOWN_MAX: usize = 3;
/// Longest line that is parsed, in bytes; a longer one is a bad line.
const LINE_LEN_MAX: usize = 1 << 20;
/// Time by which a line may be older than one before it, in ms.
const DISORDER_MS_MAX: u64 = 5 * 60_000;
/// Part of the lines that may be unreadable, as a divisor: 5%.
const BAD_PART: u64 = 20;

/// Reason why a log cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum InputError {
    /// The file is missing, or reading it failed.
    #[error("{path}: {error}; check the path and its permissions")]
    Unreadable {
        /// Path of the file.
        path: String,
        /// Reason of the system.
        error: std::io::Error,
    },
    /// The format of the file is known and not read.
    #[error("{path}: this is {format}, which is not read; convert it: `{remedy}`")]
    Refused {
        /// Path of the file.
        path: String,
        /// Format of the file.
        format: &'static str,
        /// Command that converts the file.
        remedy: String,
    },
}

/// Line that is not a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BadLine {
    /// `access.log:17`.
    pub place: String,
    /// Reason.
    pub reason: String,
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

/// Facts about the lines of all files.
#[derive(Debug, Default)]
pub struct ReadCounts {
    /// Number of lines that are not calls.
    pub bad: u64,
    /// The first of them, at most three.
    pub bad_shown: Vec<BadLine>,
    /// Number of messages of servers between the calls.
    pub messages: u64,
    /// Number of calls that are more than five minutes older than one before them in their file, and the place of the first.
    pub disordered: u64,
    /// Place of the first of these.
    pub disordered_first: Option<String>,
    /// Calls by format, and by all that was around their lines.
    pub formats: BTreeMap<String, u64>,
    /// Archives of which only the calls before a damaged place are read.
    pub damaged: Vec<DamagedArchive>,
}

/// Calls of all files, and the facts about their lines.
#[derive(Debug, Default)]
pub struct ReplayInput {
    /// Calls in order of time.
    pub recording: Recording,
    /// Facts about the lines.
    pub lines: ReadCounts,
    /// Times and sources of the clients, in order of time, of a log that is only shown.
    pub(super) sources: Vec<(u64, Option<ClientSource>)>,
    addresses: AddressCounts,
}

/// Interpretation of the lines, and the part of them that is read.
#[derive(Clone, Copy, Debug)]
pub struct Reading<'a> {
    /// Rules that name further descriptors, which a line may provide.
    pub rules: &'a RuleSet,
    /// Interpretation that the user chooses.
    pub options: &'a LogOptions,
    /// Number of calls after which reading ends, of a log that is only shown.
    pub shown: Option<usize>,
}

impl ReplayInput {
    /// Reads logs; `-` is standard input.
    ///
    /// # Errors
    /// If a file cannot be read, or is of a known format that is not read. Lines that are not calls are counted instead.
    pub fn read(paths: &[PathBuf], reading: Reading<'_>, progress: &ProgressBar) -> Result<Self, InputError> {
        let mut input = Self::default();
        for path in paths {
            let failed = |error| InputError::Unreadable { path: path.display().to_string(), error };
            if path == Path::new("-") {
                input.read_lines("stdin", "-", progress.wrap_read(std::io::stdin().lock()), reading)?;
            } else {
                let file = File::open(path).map_err(failed)?;
                progress.inc_length(file.metadata().map_or(0, |metadata| metadata.len()));
                let name = path.display().to_string();
                input.read_lines(&name, &name, progress.wrap_read(file), reading)?;
            }
        }
        progress.finish_and_clear();
        input.recording.sort();
        input.sources.sort_by_key(|(time_ms, _)| *time_ms);
        Ok(input)
    }

    /// Reads a log that is a part of the program.
    ///
    /// # Panics
    /// Never: memory can be read.
    #[must_use]
    pub fn of_bytes(name: &str, log: &[u8], rules: &RuleSet) -> Self {
        let mut input = Self::default();
        let reading = Reading { rules, options: &LogOptions::default(), shown: None };
        input.read_lines(name, name, log, reading).expect("memory can be read");
        input.recording.sort();
        input
    }

    /// Returns true if so many lines are not calls that the others may be wrong, too: more than 5%.
    #[must_use]
    pub fn is_mostly_guessed(&self) -> bool {
        self.lines.bad * BAD_PART > self.lines.bad + self.recording.len() as u64
    }

    /// Returns sentences about clients and times that may be wrong.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = self.addresses.warnings();
        if let Some(first) = &self.lines.disordered_first {
            warnings.push(format!(
                "{} calls are more than 5 min older than a call before them, first {first}; they are put in order by their times",
                self.lines.disordered
            ));
        }
        warnings
    }

    fn read_lines(
        &mut self,
        name: &str,
        argument: &str,
        raw: impl Read,
        reading: Reading<'_>,
    ) -> Result<(), InputError> {
        let failed = |error| InputError::Unreadable { path: name.to_owned(), error };
        let mut raw = BufReader::with_capacity(1 << 16, raw);
        let zipped = raw.fill_buf().map_err(failed)?.starts_with(&GZIP_MAGIC);
        let mut lines: Box<dyn BufRead> =
            if zipped { Box::new(BufReader::with_capacity(1 << 16, MultiGzDecoder::new(raw))) } else { Box::new(raw) };
        // A damaged beginning is reported with the first line.
        let beginning = lines.fill_buf().unwrap_or_default();
        if let Some(refused) = refused_file(&beginning[..beginning.len().min(BEGINNING_LEN)]) {
            let remedy = if zipped {
                format!("zcat {argument} | {}", refused.remedy.replace("FILE", "-"))
            } else {
                refused.remedy.replace("FILE", argument)
            };
            return Err(InputError::Refused { path: name.to_owned(), format: refused.name, remedy });
        }
        let mut reader = LogDecoder::new(reading.options);
        let (mut line, mut latest_ms) = (Vec::new(), 0);
        for number in 1_u64.. {
            line.clear();
            match read_line(&mut lines, &mut line) {
                Ok(0) => break,
                Ok(_) => {}
                // The lines before a damaged part of the archive are used.
                Err(error) if zipped => {
                    let (path, reason) = (name.to_owned(), error.to_string());
                    self.lines.damaged.push(DamagedArchive { path, line: number, reason });
                    break;
                }
                Err(error) => return Err(failed(error)),
            }
            let text = String::from_utf8_lossy(&line);
            if text.trim().is_empty() {
                continue;
            }
            let place = || format!("{name}:{number}");
            match self.read_line(&text, &mut reader, reading) {
                Ok(time_ms) if time_ms + DISORDER_MS_MAX < latest_ms => {
                    self.lines.disordered += 1;
                    self.lines.disordered_first.get_or_insert_with(place);
                }
                Ok(time_ms) => latest_ms = latest_ms.max(time_ms),
                Err(NoCall::Message) => self.lines.messages += 1,
                Err(NoCall::Unreadable(reason)) => {
                    self.lines.bad += 1;
                    if self.lines.bad_shown.len() < BAD_LINES_SHOWN_MAX {
                        // A command that converts the log is complete, except for standard input.
                        let reason = if argument == "-" { reason } else { reason.replace("FILE", argument) };
                        self.lines.bad_shown.push(BadLine { place: place(), reason });
                    }
                }
            }
            if reading.shown.is_some_and(|shown| self.recording.len() >= shown) {
                break;
            }
        }
        Ok(())
    }

    /// Adds the call of a line. Returns its time in ms.
    fn read_line(
        &mut self,
        text: &str,
        reader: &mut LogDecoder<'_>,
        Reading { rules, options, shown }: Reading<'_>,
    ) -> Result<u64, NoCall> {
        let is_chosen = options.client != ClientChoice::Known;
        if text.len() > LINE_LEN_MAX {
            return Err(NoCall::Unreadable(format!("the line is longer than {LINE_LEN_MAX} bytes")));
        }
        let ReadCall { call, client, format, around } = reader.read(text)?;
        self.recording.add(&call, client.as_ref(), rules).map_err(NoCall::Unreadable)?;
        if let Some(client) = &client {
            self.addresses.add(&call, client, is_chosen);
        }
        if shown.is_some() {
            let source = client.as_ref().map(|client| ClientSource::of(&call, client));
            self.sources.push((call.time_ms, source));
        }
        let name = [&[format][..], &around].concat().join(", in ");
        *self.lines.formats.entry(name).or_default() += 1;
        Ok(call.time_ms)
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
