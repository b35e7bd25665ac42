//! The part of an address behind the question mark.

use accord_proto::{VERSIONS, v1};
use accord_types::texts::NAME_MAX;
use v1::{WatchOrder, WatchTable};

/// Rows that a view of the page has at most.
const ROWS_MAX: u32 = 100;

/// Returns the value of the only parameter with this name.
///
/// # Errors
/// Returns the reason in words if it is absent or there is another parameter.
pub(super) fn only<'a>(query: Option<&'a str>, name: &str) -> Result<&'a str, String> {
    let wrong = || format!("the address needs {name}=, and nothing else behind the question mark");
    query
        .and_then(|query| query.strip_prefix(name)?.strip_prefix('='))
        .filter(|rest| !rest.contains('&'))
        .ok_or_else(wrong)
}

/// Returns the rows that an address asks for.
///
/// # Errors
/// Returns the first parameter that is wrong, in words.
pub(super) fn rows(query: Option<&str>) -> Result<v1::WatchRequest, String> {
    let mut request = v1::WatchRequest {
        version: VERSIONS.own(),
        table: WatchTable::Nodes.into(),
        rows: ROWS_MAX,
        ..v1::WatchRequest::default()
    };
    for part in query.unwrap_or_default().split('&').filter(|part| !part.is_empty()) {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        let number = || value.parse::<u32>().map_err(|_| format!("{name} is no number"));
        match name {
            "table" => request.set_table(table(value)?),
            "order" => request.set_order(order(value)?),
            "user" => request.user = user(value)?,
            "from" => request.from = number()?,
            "rows" => request.rows = number()?.clamp(1, ROWS_MAX),
            _ => return Err(format!("there is no parameter {:?}", cut(name))),
        }
    }
    Ok(request)
}

fn table(value: &str) -> Result<WatchTable, String> {
    match value {
        "nodes" => Ok(WatchTable::Nodes),
        "devices" => Ok(WatchTable::Devices),
        "users" => Ok(WatchTable::Users),
        "jobs" => Ok(WatchTable::Jobs),
        _ => Err("the tables are nodes, devices, users and jobs".to_owned()),
    }
}

fn order(value: &str) -> Result<WatchOrder, String> {
    match value {
        "name" => Ok(WatchOrder::Unspecified),
        "use" => Ok(WatchOrder::Busy),
        "memory" => Ok(WatchOrder::Memory),
        _ => Err("the orders are name, use and memory".to_owned()),
    }
}

fn user(value: &str) -> Result<String, String> {
    let name = decoded(value).ok_or("the user's name is no text")?;
    if name.len() > NAME_MAX { Err("the user's name is too long".to_owned()) } else { Ok(name) }
}

/// Returns a value without its percent signs; `None` if it is no text in UTF-8.
fn decoded(value: &str) -> Option<String> {
    let (mut bytes, mut rest) = (Vec::new(), value.bytes());
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let (high, low) = (char::from(rest.next()?).to_digit(16)?, char::from(rest.next()?).to_digit(16)?);
                u8::try_from(16 * high + low).ok()?
            }
            _ => byte,
        });
    }
    String::from_utf8(bytes).ok()
}

fn cut(name: &str) -> &str {
    accord_types::texts::cut(name, 32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_asked_for_by_name() {
        let request = rows(Some("table=jobs&order=memory&user=%C3%A4+%3Cb%3E&from=200&rows=50")).unwrap();
        assert_eq!((request.table(), request.order()), (WatchTable::Jobs, WatchOrder::Memory));
        assert_eq!((&request.user[..], request.from, request.rows), ("ä <b>", 200, 50));
        let request = rows(Some("rows=4000000000")).unwrap();
        assert_eq!((request.table(), request.rows), (WatchTable::Nodes, ROWS_MAX));
        assert_eq!(rows(Some("")).unwrap(), rows(None).unwrap());
    }

    #[test]
    fn nonsense_is_refused() {
        let long = format!("user={}", "a".repeat(NAME_MAX + 1));
        for wrong in ["table=all", "order=up", "from=-1", "rows=", "user=%zz", "user=%f", "user=%ff", "x=1", &long] {
            assert!(rows(Some(wrong)).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_code_is_the_only_parameter() {
        assert_eq!(only(Some("code=ab"), "code"), Ok("ab"));
        for wrong in [None, Some(""), Some("code"), Some("kode=ab"), Some("code=ab&code=cd")] {
            assert!(only(wrong, "code").is_err(), "{wrong:?}");
        }
    }
}
