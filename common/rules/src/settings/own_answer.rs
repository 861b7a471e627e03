//! `answer`: the own answer of a rule. A key that a rule does not have is that of the defaults.

use serde_json::{Map, Value, json};
use tollgate_core::call::NAME_LEN_MAX;
use tollgate_core::own_answer::{
    ANSWER_FIELDS_LEN_MAX, ANSWER_TEXT_LEN_MAX, BODY_MEMBERS, DenialBody, ErrorStatus, FieldValue, LIMIT_HEADERS,
    OwnAnswer,
};
use tollgate_core::rules::{DescriptorSpec, Rule};

use super::policy_values::word_of;
use super::show::{MORE_COLUMN, Shown};
use crate::hint;
use crate::schema::{Key, list_of, map_of, names, object, pattern, text, whole, words};
use crate::yaml::{Node, YamlReader, is_plain, line_of};

const KEYS: [Key; 6] = [
    Key::new("status", "Status of denials. Default: that of deny_status, or 429.", || whole(400, 599)),
    Key::new("title", "Title of denials.", text),
    Key::new("message", "Text of denials in place of the reason.", text),
    Key::new("fields", "Further members of the body of denials.", || map_of(&text())),
    Key::new("body", "Form of the body of denials. Default: problem.", || words(&BODIES)),
    Key::new("hide", "Headers that answers do not have.", || list_of(&hidden_form())),
];
const BODIES: [(&str, DenialBody); 2] = [("problem", DenialBody::Problem), ("nested", DenialBody::Nested)];

/// Plain texts that YAML takes for no value. JSON of a denial would have them as texts.
const NULLS: [&str; 3] = ["null", "Null", "NULL"];
/// Header that every answer of an agent has.
const NODE: &str = "x-gateway-node";

pub(super) fn form() -> Value {
    object(KEYS)
}

/// Returns the form of a header's name. A schema cannot ignore case, so it takes any name with a capital letter, which the parser checks.
fn hidden_form() -> Value {
    json!({ "anyOf": [{ "enum": LIMIT_HEADERS }, pattern("[A-Za-z-]*[A-Z][A-Za-z-]*")] })
}

/// Reads the block over what the rule has by the defaults.
pub(super) fn read_own_answer(reader: &mut YamlReader<'_>, node: &Node<'_>, _: &[DescriptorSpec], rule: &mut Rule) {
    let fields = reader.fields(node, "`answer`", &names(&KEYS));
    let mut answer = rule.own_answer.as_deref().cloned().unwrap_or_default();
    if let Some(node) = fields.get("status") {
        answer.status = read_status(reader, node);
    }
    if let Some(node) = fields.get("title") {
        answer.title = read_text(reader, node, "`title`").map(Into::into);
    }
    if let Some(node) = fields.get("message") {
        answer.message = read_text(reader, node, "`message`").map(Into::into);
    }
    if let Some(node) = fields.get("fields") {
        answer.fields = read_fields(reader, node);
    }
    if let Some(node) = fields.get("body") {
        answer.body = reader.word(node, "body", &BODIES, &[]).unwrap_or_default();
    }
    if let Some(node) = fields.get("hide") {
        answer.hide = read_hidden(reader, node);
    }
    if let (Some(node), DenialBody::Nested) = (fields.get("title"), answer.body) {
        let text = "a nested body has no `title`; remove it, write `message`, or write `body: problem`";
        reader.refuse(line_of(node), text);
    }
    rule.own_answer = (answer != OwnAnswer::default()).then(|| answer.into());
}

pub(super) fn show_own_answer(rule: &Rule, shown: &mut Shown) {
    let answer = rule.own_answer.as_deref().map(json_of);
    shown.named(MORE_COLUMN, "answer", answer.as_ref().map(text_of));
    shown.json("answer", answer);
}

fn json_of(answer: &OwnAnswer) -> Value {
    let OwnAnswer { status, title, message, fields, body, hide, .. } = answer;
    let value = |value: &FieldValue| match value {
        FieldValue::Text(text) => json!(text),
        FieldValue::Whole(number) => json!(number),
        FieldValue::Flag(flag) => json!(flag),
    };
    json!({
        "status": status.map(ErrorStatus::code),
        "title": title,
        "message": message,
        "fields": fields.iter().map(|(name, field)| (name.to_string(), value(field))).collect::<Map<_, _>>(),
        "body": word_of(&BODIES, body),
        "hide": hide,
    })
}

/// Returns the block in one line, as it may be written.
fn text_of(answer: &Value) -> String {
    let is_default = |value: &Value| {
        value.is_null() || value == "problem" || value.as_array().is_some_and(Vec::is_empty) || *value == json!({})
    };
    let keys = KEYS.iter().map(|key| (key.name, &answer[key.name])).filter(|(_, value)| !is_default(value));
    let parts: Vec<String> = keys.map(|(name, value)| format!("{name}: {value}")).collect();
    format!("{{ {} }}", parts.join(", "))
}

fn read_status(reader: &mut YamlReader<'_>, node: &Node<'_>) -> Option<ErrorStatus> {
    let error = |text: &str| ErrorStatus::new(text.parse().ok()?);
    let status = reader.parse_by(node, "`status`", "a status of an error, 400 to 599", error)?;
    if status.is_of_server() {
        let code = status.code();
        let gateways = if (502..=504).contains(&code) { ", HAProxy and Traefik" } else { " and HAProxy" };
        let text = format!(
            "Envoy's `ext_authz` over HTTP{gateways} take the status {code} for a failed agent, and may let the denied call pass; write a status from 400 to 499, unless your gateway passes this one on"
        );
        reader.warn(line_of(node), text);
    }
    Some(status)
}

fn read_fields(reader: &mut YamlReader<'_>, node: &Node<'_>) -> Vec<(Box<str>, FieldValue)> {
    let fields = reader.mapping(node, "`fields`");
    let len = fields.iter().count();
    if len > ANSWER_FIELDS_LEN_MAX {
        let text = format!("there are {len} `fields`; write at most {ANSWER_FIELDS_LEN_MAX}");
        reader.refuse(line_of(node), text);
    }
    for (name, line) in fields.names() {
        if BODY_MEMBERS.contains(&name) {
            reader.refuse(line, format!("`{name}` is a member of every body; give the field another name"));
        } else if name.is_empty() || name.len() > NAME_LEN_MAX {
            let text = format!("the name of a field has {} bytes; write one of 1 to {NAME_LEN_MAX} bytes", name.len());
            reader.refuse(line, text);
        }
    }
    let read = |(name, node): (&str, _)| Some((name.into(), read_value(reader, node, &format!("field `{name}`"))?));
    fields.iter().filter_map(read).collect()
}

/// Reads a value with the type that it has in JSON.
fn read_value(reader: &mut YamlReader<'_>, node: &Node<'_>, what: &str) -> Option<FieldValue> {
    let text = read_text(reader, node, what)?;
    if !is_plain(node) {
        return Some(FieldValue::Text(text.into()));
    }
    if NULLS.contains(&text) {
        reader.refuse(
            line_of(node),
            format!("{what} is `{text}`, which is no value; leave it out, or write the text in quotes"),
        );
        return None;
    }
    if let Ok(flag) = text.parse() {
        return Some(FieldValue::Flag(flag));
    }
    if let Ok(number) = text.parse() {
        return Some(FieldValue::Whole(number));
    }
    if text.parse().is_ok_and(f64::is_finite) {
        reader.refuse(line_of(node), format!("{what} is `{text}`; write a whole number, or the number in quotes"));
        return None;
    }
    Some(FieldValue::Text(text.into()))
}

fn read_text<'y>(reader: &mut YamlReader<'_>, node: &'y Node<'y>, what: &str) -> Option<&'y str> {
    let text = reader.text(node, what)?;
    if text.len() > ANSWER_TEXT_LEN_MAX {
        let len = text.len();
        reader.refuse(line_of(node), format!("{what} has {len} bytes; shorten it to {ANSWER_TEXT_LEN_MAX}"));
        return None;
    }
    Some(text)
}

fn read_hidden(reader: &mut YamlReader<'_>, node: &Node<'_>) -> Vec<&'static str> {
    let mut hidden = Vec::new();
    for item in reader.items(node, "`hide`") {
        let Some(name) = reader.text(item, "an item of `hide`") else { continue };
        match LIMIT_HEADERS.into_iter().find(|known| known.eq_ignore_ascii_case(name)) {
            Some(known) => hidden.push(known),
            None if name.eq_ignore_ascii_case(NODE) => {
                let text = "`hide` cannot name `X-Gateway-Node`, which every answer of an agent has; let the gateway remove it";
                reader.refuse(line_of(item), text);
            }
            None => {
                let hint = hint(&name.to_ascii_lowercase(), LIMIT_HEADERS);
                reader.refuse(line_of(item), format!("`hide` names `{name}`, which is no header of a limit{hint}"));
            }
        }
        if name.eq_ignore_ascii_case("retry-after") {
            let text = "without `Retry-After`, clients do not know when to come back, and retry at once; remove it from `hide`, unless another part of the answer tells them";
            reader.warn(line_of(item), text);
        }
    }
    hidden
}
