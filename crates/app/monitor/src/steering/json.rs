//! An app as the page sees it, and values as the page sends them.

use serde_json::{Value as Json, json};
use tallycast::Dtype;
use tallycast::steering::{self, Listed, Needs, Switches, Totals, Value, stopped_json, totals_json};
use units::Epoch;

/// An app as it stands.
#[derive(Debug)]
pub(crate) struct Listing {
    pub(crate) epoch: Epoch,
    pub(crate) parameters: Vec<Listed>,
    pub(crate) totals: Totals,
    pub(crate) switches: Switches,
}

/// What the visitor may do with an app, and who holds a group's lease.
pub(crate) struct Rights<'a> {
    pub(crate) steer: bool,
    pub(crate) administer: bool,
    /// Returns whether the visitor may change a parameter.
    pub(crate) may: &'a dyn Fn(&Listed) -> bool,
    /// Returns the holder of a lease that was granted here, and whether it is the visitor.
    pub(crate) holder: &'a dyn Fn(&str) -> Option<(String, bool)>,
}

/// Returns an app as the page sees it.
pub(crate) fn listing_json(app: &str, listing: &Listing, rights: &Rights<'_>) -> Json {
    let parameters: Vec<_> = listing.parameters.iter().map(|listed| parameter_json(listed, rights)).collect();
    json!({
        "app": app,
        "epoch": listing.epoch.to_string(),
        "parameters": parameters,
        "totals": totals_json(&listing.totals),
        "stopped": stopped_json(listing.switches),
        "may": {"steer": rights.steer, "administer": rights.administer},
    })
}

/// Returns a parameter as the page sees it.
fn parameter_json(listed: &Listed, rights: &Rights<'_>) -> Json {
    let group = match &listed.parameter.needs {
        Needs::Nothing => None,
        Needs::Lease { group } => Some(group.as_str()),
    };
    // The app knows a visitor's lease as that of the monitor.
    let here = group.filter(|_| listed.holder.is_some()).and_then(|group| (rights.holder)(group));
    let (holder, yours) = here.map_or((listed.holder.clone(), false), |(name, yours)| (Some(name), yours));
    let mut parameter = steering::parameter_json(listed);
    parameter["holder"] = json!(holder);
    parameter["yours"] = json!(yours);
    parameter["may"] = json!((rights.may)(listed));
    parameter
}

/// Returns a value of the JSON of a command, in the parameter's dtype and shape where it has such elements. What it has
/// not keeps a dtype or shape of its own: then the app refuses the command by name, and logs it.
///
/// `None` if it is neither a number, a boolean, nor a list of them, or too large.
pub(crate) fn value_in(json: &Json, dtype: Dtype, shape: &[u32]) -> Option<Value> {
    let is_complex = matches!(dtype, Dtype::C8 | Dtype::C16);
    let elements: Vec<&Json> = match json {
        Json::Array(elements) if !(is_complex && shape.is_empty()) => elements.iter().collect(),
        element => vec![element],
    };
    let count: usize = shape.iter().map(|extent| *extent as usize).product();
    let is_list = json.is_array() && !(is_complex && shape.is_empty());
    let shape = match (is_list, shape.is_empty()) {
        (true, false) if elements.len() == count => shape.to_vec(),
        (true, _) => vec![u32::try_from(elements.len()).ok()?],
        (false, _) => Vec::new(),
    };
    let exact = elements.iter().map(|element| element_in(element, dtype)).collect::<Option<Vec<_>>>();
    let (dtype, bytes) = match exact {
        Some(bytes) => (dtype, bytes),
        None => natural(&elements)?,
    };
    Value::from_bytes(dtype, &shape, &bytes.concat()).ok()
}

/// Returns an element's bytes, if the dtype has it.
#[expect(clippy::cast_possible_truncation, reason = "floats of four bytes have the precision that they have")]
fn element_in(json: &Json, dtype: Dtype) -> Option<Vec<u8>> {
    macro_rules! integer {
        ($type:ty) => {{
            let signed = json.as_i64().and_then(|number| <$type>::try_from(number).ok());
            let number = signed.or_else(|| <$type>::try_from(json.as_u64()?).ok())?;
            Some(number.to_le_bytes().to_vec())
        }};
    }
    let part =
        |index: usize, dtype| element_in(json.as_array().filter(|pair| pair.len() == 2)?.get(index)?, dtype);
    match dtype {
        Dtype::I8 => integer!(i8),
        Dtype::I16 => integer!(i16),
        Dtype::I32 => integer!(i32),
        Dtype::I64 => integer!(i64),
        Dtype::U8 => integer!(u8),
        Dtype::U16 => integer!(u16),
        Dtype::U32 => integer!(u32),
        Dtype::U64 => integer!(u64),
        // What is beyond the range becomes infinite, which the app refuses.
        Dtype::F4 => Some((json.as_f64()? as f32).to_le_bytes().to_vec()),
        Dtype::F8 => Some(json.as_f64()?.to_le_bytes().to_vec()),
        Dtype::C8 => Some([part(0, Dtype::F4)?, part(1, Dtype::F4)?].concat()),
        Dtype::C16 => Some([part(0, Dtype::F8)?, part(1, Dtype::F8)?].concat()),
        Dtype::Bool => Some(vec![u8::from(json.as_bool()?)]),
    }
}

/// Returns the first dtype that has all elements, and their bytes.
fn natural(elements: &[&Json]) -> Option<(Dtype, Vec<Vec<u8>>)> {
    [Dtype::Bool, Dtype::I64, Dtype::U64, Dtype::F8, Dtype::C16].into_iter().find_map(|dtype| {
        let bytes = elements.iter().map(|element| element_in(element, dtype)).collect::<Option<Vec<_>>>();
        bytes.map(|bytes| (dtype, bytes))
    })
}

#[cfg(test)]
mod tests {
    use tallycast::steering::value_json;

    use super::*;

    fn text(json: &str) -> Json {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn what_is_written_is_read_back_in_every_dtype() {
        for dtype in Dtype::ALL {
            let elements = match dtype {
                Dtype::Bool => "[true, false]",
                Dtype::C8 | Dtype::C16 => "[[1.5, -2.0], [0.0, 3.0]]",
                Dtype::F4 | Dtype::F8 => "[1.5, -2.0]",
                _ => "[1, 100]",
            };
            let value = value_in(&text(elements), dtype, &[2]).unwrap();
            assert_eq!((value.dtype(), value.shape()), (dtype, &[2][..]), "{dtype:?}");
            assert_eq!(value_json(&value), text(elements), "{dtype:?}");
            let scalar = &text(elements)[0];
            assert_eq!(value_json(&value_in(scalar, dtype, &[]).unwrap()), *scalar, "{dtype:?}");
        }
        for (dtype, limit) in [(Dtype::I64, i64::MIN.to_string()), (Dtype::U64, u64::MAX.to_string())] {
            assert_eq!(value_json(&value_in(&text(&limit), dtype, &[]).unwrap()).to_string(), limit);
        }
    }

    #[test]
    fn what_a_parameter_has_not_is_left_for_the_app_to_refuse() {
        let found = |json: &str, dtype, shape: &[u32]| {
            value_in(&text(json), dtype, shape).map(|value| (value.dtype(), value.shape().to_vec()))
        };
        assert_eq!(found("127", Dtype::I8, &[]), Some((Dtype::I8, vec![])));
        assert_eq!(found("128", Dtype::I8, &[]), Some((Dtype::I64, vec![])));
        assert_eq!(found("-1", Dtype::U8, &[]), Some((Dtype::I64, vec![])));
        assert_eq!(found("1.5", Dtype::I32, &[]), Some((Dtype::F8, vec![])));
        assert_eq!(found("true", Dtype::F8, &[]), Some((Dtype::Bool, vec![])));
        assert_eq!(found("1", Dtype::Bool, &[]), Some((Dtype::I64, vec![])));
        assert_eq!(found("[1.0]", Dtype::F8, &[]), Some((Dtype::F8, vec![1])));
        assert_eq!(found("[1, 2, 3]", Dtype::F8, &[2]), Some((Dtype::F8, vec![3])));
        assert_eq!(found("[1, 2, 3, 4]", Dtype::F8, &[2, 2]), Some((Dtype::F8, vec![2, 2])));
        assert_eq!(found("1", Dtype::F8, &[2]), Some((Dtype::F8, vec![])));
        assert!(value_in(&text("1e300"), Dtype::F4, &[]).unwrap().numbers().any(|it| !it.is_finite()));
        for nothing in ["null", "\"1\"", "{}", "[null]", "[1, true]"] {
            assert_eq!(found(nothing, Dtype::F8, &[]), None, "{nothing}");
        }
        let large = format!("[{}]", vec!["0"; 1_000].join(","));
        assert_eq!(found(&large, Dtype::F8, &[2]), None);
    }
}
