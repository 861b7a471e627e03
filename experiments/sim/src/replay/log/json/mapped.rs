//! JSON lines whose fields the user names: `--json time=ts,ip=remote_addr,api_key=headers.x-api-key`.

use serde_json::{Map, Value};
use tollgate::Call;
use tollgate_core::call::COST_MAX;
use tollgate_core::one_line::excerpt;

use super::super::instant;
use super::super::log_call::{AddressKind, LogCall};
use super::fields::request;
use super::formats::USUAL;
use super::lookup::text_at;

/// Reads a call. Names that no part of a request has become descriptors. Without a name, `time` is searched under the usual names.
pub(in crate::replay::log) fn parse(
    object: &Map<String, Value>,
    map: &[(String, String)],
    field: Option<&str>,
) -> Result<LogCall<'static>, String> {
    let named = |name: &str| map.iter().find(|(known, _)| known == name).map(|(_, path)| &**path);
    let value = |name: &str| named(name).and_then(|path| text_at(object, path));
    let mut call = LogCall { is_without_client: named("ip").is_none(), ..LogCall::default() };
    call.time_ms = match (named("time"), value("time")) {
        (Some(path), Some(text)) => {
            instant::parse(&text).ok_or_else(|| format!("`{path}` is `{}`, which is no time", excerpt(&text)))?
        }
        (Some(path), None) => return Err(format!("no field `{path}` for the time")),
        (None, _) => USUAL.time_ms(object)?,
    };
    if let Some(path) = named("ip") {
        let text = text_at(object, path).ok_or_else(|| format!("no field `{path}` for the address"))?;
        call.add_address(AddressKind::Client, path.to_owned(), text);
    }
    if let Some(text) = field.and_then(|field| text_at(object, field)) {
        call.add_address(AddressKind::Other, field.unwrap_or_default().to_owned(), text);
    }
    let target = value("endpoint").or_else(|| value("path"));
    call.request = request(value("request").as_deref(), value("method").as_deref(), target.as_deref());
    call.status = value("status").map(Into::into);
    call.user = value("user").map(Into::into);
    call.user_agent = value("user_agent").map(Into::into);
    if let Some(cost) = value("cost") {
        let units = cost.parse().ok().filter(|units| (1..=COST_MAX).contains(units));
        call.cost = Some(units.ok_or_else(|| format!("the cost is `{}`; write 1 to {COST_MAX}", excerpt(&cost)))?);
    }
    let parts = ["time", "ip", "endpoint", "path", "request", "method", "status", "user", "user_agent", "cost"];
    for (name, path) in map.iter().filter(|(name, _)| !parts.contains(&&**name)) {
        if let Some(text) = text_at(object, path) {
            Call::new().add(name.as_str().into(), text.as_str().into()).map_err(|error| error.to_string())?;
            call.descriptors.push((name.clone().into(), text.into()));
        }
    }
    Ok(call)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str, map: &[(&str, &str)]) -> Result<LogCall<'static>, String> {
        let map: Vec<_> = map.iter().map(|(name, path)| ((*name).to_owned(), (*path).to_owned())).collect();
        parse(&serde_json::from_str(line).unwrap(), &map, None)
    }

    #[test]
    fn named_fields_are_read() {
        let line =
            r#"{"when": 1731948900, "who": {"addr": "203.0.113.7:5"}, "key": "k1", "u": "/a", "m": "GET", "n": 3}"#;
        let map =
            [("time", "when"), ("ip", "who.addr"), ("api_key", "key"), ("path", "u"), ("method", "m"), ("cost", "n")];
        let call = read(line, &map).unwrap();
        assert_eq!((call.time_ms, &*call.addresses[0].text, call.cost), (1_731_948_900_000, "203.0.113.7:5", Some(3)));
        assert_eq!(call.request.path.as_deref(), Some("/a"));
        assert_eq!(call.descriptors, [("api_key".into(), "k1".into())]);
        let usual = read(r#"{"ts": 1731948900, "key": "k1"}"#, &[("api_key", "key")]).unwrap();
        assert!(usual.is_without_client && usual.time_ms == 1_731_948_900_000);
    }

    #[test]
    fn a_field_that_a_line_does_not_have_is_named() {
        let line = r#"{"when": "noon", "n": 0}"#;
        for (map, said) in [
            (&[("time", "ts")][..], "no field `ts` for the time"),
            (&[("time", "when")], "`when` is `noon`, which is no time"),
        ] {
            assert_eq!(read(line, map).unwrap_err(), said);
        }
        let line = r#"{"ts": 1731948900, "n": 0}"#;
        assert_eq!(read(line, &[("ip", "who")]).unwrap_err(), "no field `who` for the address");
        assert!(read(line, &[("cost", "n")]).unwrap_err().starts_with("the cost is `0`"));
    }
}
