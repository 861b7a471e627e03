//! Decoder of a log's lines: removes what programs put around a line, finds its format, and chooses the client of its call.

use serde_json::{Map, Value};

use super::address::LoggedClient;
use super::client_choice::ClientChoice;
use super::containers;
use super::formats::{FORMATS, FormatFacts, LogText, USUAL_NAME};
use super::json;
use super::log_call::LogCall;
use super::messages::is_message;
use super::prefixes::PREFIXES;
use super::refused;
use super::w3c;

/// Maximum number of prefixes and envelopes around a line.
const DEPTH_MAX: usize = 6;
/// Maximum length of a line that is joined from parts, in bytes.
const JOINED_LEN_MAX: usize = 1 << 20;

/// Interpretation of logs that the user chooses.
#[derive(Clone, Debug, Default)]
pub struct LogOptions {
    /// Address that is the client.
    pub client: ClientChoice,
    /// Fields of JSON lines by their meaning: `time`, `ip`, `method`, `path`, or any descriptor.
    pub map: Vec<(String, String)>,
}

/// Decoder of one file. It keeps the columns of a header and the parts of split lines.
pub(in crate::replay) struct LogDecoder<'o> {
    options: &'o LogOptions,
    columns: Vec<String>,
    /// Parts of lines that are not complete yet, of standard output and standard error.
    parts: [String; 2],
}

/// Call of a line, its client, and the names of the format and of all around it.
#[derive(Debug)]
pub(in crate::replay) struct ReadCall<'a> {
    pub(in crate::replay) call: LogCall<'a>,
    pub(in crate::replay) client: Option<LoggedClient>,
    pub(in crate::replay) format: &'static str,
    pub(in crate::replay) around: Vec<&'static str>,
}

/// Reason why a line gives no call.
#[derive(Debug)]
pub(in crate::replay) enum NoCall {
    /// It is a header, a part of a line, or a message of a server.
    Message,
    Unreadable(String),
}

impl<'o> LogDecoder<'o> {
    pub(in crate::replay) fn new(options: &'o LogOptions) -> Self {
        Self { options, columns: Vec::new(), parts: Default::default() }
    }

    /// Reads the next line.
    pub(in crate::replay) fn read<'a>(&'a mut self, line: &'a str) -> Result<ReadCall<'a>, NoCall> {
        let line = trimmed(line);
        if let Some(columns) = w3c::columns(line) {
            self.columns = columns;
            return Err(NoCall::Message);
        }
        if let Some(found) = containers::of_cri(line) {
            let joined = self.joined(found.is_stderr, found.is_part, found.text).ok_or(NoCall::Message)?;
            return self.interpret_owned(&joined, "Kubernetes");
        }
        if line.contains("\"stream\"")
            && let Some(object) = object_of(line).filter(|object| object.contains_key("stream"))
            && let Some((is_stderr, is_part, text)) = containers::of_json(&object)
        {
            let joined = self.joined(is_stderr, is_part, &text).ok_or(NoCall::Message)?;
            return self.interpret_owned(&joined, "Docker");
        }
        self.interpret(line, 0)
    }

    /// Joins the parts of a line; nothing while it is not complete.
    fn joined(&mut self, is_stderr: bool, is_part: bool, text: &str) -> Option<String> {
        let parts = &mut self.parts[usize::from(is_stderr)];
        if parts.len() + text.len() <= JOINED_LEN_MAX {
            parts.push_str(text);
        }
        (!is_part).then(|| std::mem::take(parts))
    }

    fn interpret_owned(&self, text: &str, around: &'static str) -> Result<ReadCall<'static>, NoCall> {
        let read = self.interpret(text, 1)?;
        let around = [vec![around], read.around].concat();
        Ok(ReadCall { call: read.call.into_owned(), client: read.client, format: read.format, around })
    }

    fn interpret<'a>(&'a self, text: &'a str, depth: usize) -> Result<ReadCall<'a>, NoCall> {
        let line = LogText { text: trimmed(text), object: object_of(trimmed(text)) };
        let client = match &self.options.client {
            ClientChoice::Field(name) => Some(&**name),
            _ => None,
        };
        let facts = FormatFacts { columns: &self.columns, client, map: &self.options.map };
        let mut reason = None;
        // A line of a format that does not read it is of no other format: a looser one would take a wrong field for the client.
        if let Some((read, name)) = FORMATS.iter().find_map(|format| Some((format.read(&line, facts)?, format.name))) {
            match read
                .and_then(|call| self.with_client(call, name))
                .and_then(|read| self.unambiguous(read, &line, depth))
            {
                Ok(read) => return Ok(read),
                Err(why) => reason = Some(why),
            }
        }
        if let Some(object) = line.object {
            return self.interpret_object(&object, reason, facts, depth);
        }
        let mut is_known_message = is_message(line.text);
        for prefix in PREFIXES.iter().filter(|_| depth < DEPTH_MAX) {
            let Some(rest) = (prefix.remove)(line.text) else { continue };
            match self.interpret(rest, depth + 1) {
                Ok(mut read) => {
                    read.around.insert(0, prefix.name);
                    return Ok(read);
                }
                Err(NoCall::Message) => is_known_message = true,
                // The shorter text has the better reason.
                Err(NoCall::Unreadable(why)) if why != UNKNOWN => reason = Some(why),
                Err(NoCall::Unreadable(_)) => {}
            }
        }
        if is_known_message {
            return Err(NoCall::Message);
        }
        Err(NoCall::Unreadable(refused_line(line.text).or(reason).unwrap_or_else(|| UNKNOWN.to_owned())))
    }

    /// Interprets JSON that no format reads: an envelope, or an object without a known field.
    fn interpret_object<'a>(
        &self,
        object: &Map<String, Value>,
        reason: Option<String>,
        facts: FormatFacts<'_>,
        depth: usize,
    ) -> Result<ReadCall<'a>, NoCall> {
        if reason.is_none()
            && depth < DEPTH_MAX
            && let Some((_, _, text)) = containers::of_json(object)
        {
            match self.interpret(&text, depth + 1) {
                Err(NoCall::Unreadable(why)) if why == UNKNOWN => {}
                ended => {
                    let read = ended?;
                    let around = [vec!["JSON of a log shipper"], read.around].concat();
                    return Ok(ReadCall {
                        call: read.call.into_owned(),
                        client: read.client,
                        format: read.format,
                        around,
                    });
                }
            }
        }
        if object.get("records").is_some_and(Value::is_array) {
            let remedy = "jq -c '.records[]' FILE | tollgate replay -";
            return Err(NoCall::Unreadable(format!("this is one object with many records; convert it: `{remedy}`")));
        }
        // Servers write messages in JSON, too.
        let is_of_server = ["level", "severity", "logger"].iter().any(|key| object.contains_key(*key));
        let has_client = json::USUAL.detects(object) || reason.is_some();
        if is_of_server && !has_client && facts.client.is_none() && facts.map.is_empty() {
            return Err(NoCall::Message);
        }
        let usual = match reason {
            Some(reason) => Err(reason),
            None => json::USUAL.parse(object, facts.client).and_then(|call| self.with_client(call, "JSON")),
        };
        usual.map_err(NoCall::Unreadable)
    }

    /// Refuses JSON with usual names that holds the line of another client: then its own fields are those of the machine that
    /// shipped the line.
    fn unambiguous<'a>(&self, read: ReadCall<'a>, line: &LogText<'_>, depth: usize) -> Result<ReadCall<'a>, String> {
        let is_named = self.options.client != ClientChoice::Known || !self.options.map.is_empty();
        let object = line.object.as_ref().filter(|_| read.format == USUAL_NAME && !is_named && depth < DEPTH_MAX);
        let Some((_, _, text)) = object.and_then(containers::of_json) else { return Ok(read) };
        match self.interpret(&text, depth + 1) {
            Ok(inner) if inner.client != read.client => Err("the object and the line in it name different clients; \
                 replay the lines in it: `jq -r '.message // .log' FILE | tollgate replay -`, or choose with --client"
                .to_owned()),
            _ => Ok(read),
        }
    }

    fn with_client<'a>(&self, call: LogCall<'a>, format: &'static str) -> Result<ReadCall<'a>, String> {
        let client = self.options.client.client(&call)?;
        Ok(ReadCall { call, client, format, around: Vec::new() })
    }
}

/// Reason for a line of no known format.
const UNKNOWN: &str = "not a line of a known access log; `tollgate replay --help` lists the formats";

fn trimmed(text: &str) -> &str {
    text.trim_start_matches('\u{feff}').trim()
}

fn object_of(text: &str) -> Option<Map<String, Value>> {
    if text.starts_with('{') { json::object(text).ok() } else { None }
}

fn refused_line(text: &str) -> Option<String> {
    if let Some(format) = refused::of_line(text) {
        return Some(format!("this is {}, which is not read; convert it: `{}`", format.name, format.remedy));
    }
    let error = text.starts_with('{').then(|| json::object(text).err())??;
    Some(format!("the JSON is not valid: {error}"))
}
