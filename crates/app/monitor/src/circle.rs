//! Derivations and operators that feed each other in a circle: none of them would ever begin.

use std::collections::{BTreeMap, BTreeSet};

use crate::derived::DerivedStream;
use crate::operators::OperatorConfig;

/// Streams that are computed from each other in a circle.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("`{}` is computed from itself: {}\ntake one of these inputs out", .0[0], .0.join(" from "))]
pub struct Circle(Vec<String>);

/// Checks that no derived stream or output of an operator needs itself, also by way of others.
///
/// # Errors
/// The first circle, from one of its streams back to it.
pub fn check_circles(derived: &[DerivedStream], operators: &[OperatorConfig]) -> Result<(), Circle> {
    let derived =
        derived.iter().map(|it| (it.name.as_str(), it.inputs.values().map(String::as_str).collect()));
    let operators =
        operators.iter().map(|it| (it.output.as_str(), it.inputs.iter().map(String::as_str).collect()));
    let inputs: Inputs<'_> = derived.chain(operators).collect();
    let mut done = BTreeSet::new();
    inputs.keys().try_for_each(|stream| follow(&inputs, &mut vec![*stream], &mut done))
}

/// By output, the streams it is computed from, each perhaps with a channel behind it.
type Inputs<'a> = BTreeMap<&'a str, Vec<&'a str>>;

/// Goes upstream from the last stream of `path`, but not again through streams that are `done`.
fn follow<'a>(
    inputs: &Inputs<'a>,
    path: &mut Vec<&'a str>,
    done: &mut BTreeSet<&'a str>,
) -> Result<(), Circle> {
    let last = path[path.len() - 1];
    if !done.contains(last) {
        follow_inputs(inputs, path, done)?;
        done.insert(last);
    }
    Ok(())
}

fn follow_inputs<'a>(
    inputs: &Inputs<'a>,
    path: &mut Vec<&'a str>,
    done: &mut BTreeSet<&'a str>,
) -> Result<(), Circle> {
    let last = path[path.len() - 1];
    for input in inputs.get(last).into_iter().flatten() {
        let stream = input.split(':').next().unwrap_or(input);
        if let Some(place) = path.iter().position(|it| *it == stream) {
            let circle = path[place..].iter().chain([&stream]).map(|it| (*it).to_owned());
            return Err(Circle(circle.collect()));
        }
        path.push(stream);
        follow(inputs, path, done)?;
        path.pop();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn derived(name: &str, from: &str) -> DerivedStream {
        let inputs = [("a".to_owned(), from.to_owned())].into();
        DerivedStream {
            name: name.to_owned(),
            expression: "a".to_owned(),
            inputs,
            unit: String::new(),
            grid: None,
        }
    }

    fn operator(output: &str, input: &str) -> OperatorConfig {
        let text = format!(r#"{{"name":"o","python":"m:f","inputs":["{input}"],"output":"{output}"}}"#);
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn a_circle_is_found_however_long_and_told_in_its_order() {
        let chain = [derived("b", "a:v"), derived("c", "b:v"), derived("d", "b:v")];
        assert_eq!(check_circles(&chain, &[operator("e", "d")]), Ok(()));
        let itself = check_circles(&[derived("a", "a:v")], &[]).unwrap_err();
        assert_eq!(itself.to_string(), "`a` is computed from itself: a from a\ntake one of these inputs out");
        let long = check_circles(&chain, &[operator("a", "d")]).unwrap_err();
        assert_eq!(long.0, ["a", "d", "b", "a"]);
    }
}
