//! Typical expressions, and refused ones with the suggested spelling.

use super::*;

fn value(text: &str, variables: &[(&str, f64)]) -> f64 {
    let names: Vec<&str> = variables.iter().map(|(name, _)| *name).collect();
    let expression = Expression::parse(text, &names).unwrap_or_else(|error| panic!("{text}: {error}"));
    let columns: Vec<Vec<f64>> = variables.iter().map(|(_, value)| vec![*value]).collect();
    let mut values = Vec::new();
    expression.evaluate(&columns, &mut values);
    values[0]
}

fn error(text: &str) -> String {
    Expression::parse(text, &["a", "b"]).unwrap_err().to_string()
}

#[test]
fn formulas_mean_what_they_mean_on_paper() {
    let abc = [("a", 7.0), ("b", 3.0), ("c", 2.0)];
    for (text, expected) in [
        ("a - b - c", 2.0),
        ("a - b + c", 6.0),
        ("a + b * c", 13.0),
        ("a / b / c", 7.0 / 3.0 / 2.0),
        ("a / b * c", 7.0 / 3.0 * 2.0),
        ("a * b / c", 10.5),
        ("a - b * c ^ 2", -5.0),
        ("2 * (a - b) ^ c", 32.0),
        ("-(b ^ c) + a", -2.0),
        ("(-b) ^ c + a", 16.0),
        ("a ^ -c * b", 3.0 / 49.0),
        ("a*-b--c", -19.0),
        ("max(a, min(b, c)) - min(max(a, b), c)", 5.0),
        ("max(a, b) ^ c", 49.0),
        ("sqrt(a + b * c + b) - min(b, c) * abs(-c)", 0.0),
        ("1 - a - 2 - b + 10 - c - 3", -6.0),
        ("1e3 * a + 2.5E-1 * b + .5 * c", 7_001.75),
    ] {
        assert!((value(text, &abc) - expected).abs() < 1e-12, "{text} = {}", value(text, &abc));
    }
    assert_eq!(value("atan2(y, x) / pi", &[("x", -1.0), ("y", 0.0)]), 1.0);
}

#[test]
fn variables_keep_their_place_and_come_before_constants() {
    let names: Vec<String> = (0..16).map(|number| format!("x{number}")).collect();
    let variables: Vec<(&str, f64)> = (0..16).map(|place| (names[place].as_str(), place as f64)).collect();
    let text: Vec<String> = (0..16).map(|place| format!("{place} * x{place}")).collect();
    assert_eq!(value(&text.join(" + "), &variables), 1_240.0);
    assert_eq!(value("e + größe_1", &[("e", 1.0), ("größe_1", 2.0)]), 3.0);
    assert_eq!(value("e * b", &[("b", 1.0)]), core::f64::consts::E);
}

#[test]
fn what_is_wrong_is_named_with_its_position() {
    for (text, expected) in [
        ("a + c", "`c` at 5 is unknown; the variables are a, b"),
        ("a ° b", "unexpected `°` at 3"),
        ("ä", "`ä` at 1 is unknown"),
        ("a + {b}", "unexpected `{` at 5"),
        ("a b", "an operator such as + or * is missing at 3"),
        ("2a", "an operator such as + or * is missing at 2"),
        ("a +", "a number, a variable or a function is missing at 4"),
        ("a + * b", "a number, a variable or a function is missing at 5"),
        ("(a - b", "`)` is missing at 7"),
        ("a - b)", "no `(` matches `)` at 6"),
        ("a - ()", "a number, a variable or a function is missing at 6"),
        ("sin a", "`(` is missing at 5"),
        ("sin", "`(` is missing at 4"),
        ("max(a)", "the second argument is missing at 6"),
        ("max(a, b, 1)", "unexpected `,`"),
        ("sin(a, b)", "unexpected `,`"),
        ("1.2.3 * a", "`1.2.3` at 1 is not a number"),
        ("1e999 * a", "`1e999` at 1 is not a number"),
        ("-a^2 + b", "write -(x^y) or (-x)^y, as you mean it, for `^` at 3"),
        ("a^b^2", "write (x^y)^z or x^(y^z), as you mean it, for `^` at 4"),
        ("a", "variable `b` is not used; leave the input out"),
        ("  ", "an expression has 1 to 1000 characters, not 2"),
    ] {
        assert!(error(text).starts_with(expected), "{text}: {}", error(text));
    }
}

#[test]
fn lengths_depths_and_numbers_of_variables_are_bounded() {
    let nested = |depth: usize| format!("{}a{} + b", "(".repeat(depth), ")".repeat(depth));
    assert!(Expression::parse(&nested(50), &["a", "b"]).is_ok());
    assert!(error(&nested(51)).contains("too many parentheses"));
    let long = |length: usize| format!("a + b{}", " ".repeat(length - 5));
    assert!(Expression::parse(&long(1_000), &["a", "b"]).is_ok());
    assert!(Expression::parse(&long(1_001), &["a", "b"]).is_err());
    assert_eq!(Expression::parse("1", &[]).unwrap_err(), ExpressionError::VariableCount(0));
    for name in ["", "1a", "a b", "sin", "max", "a-b"] {
        let named = ExpressionError::VariableName(name.to_owned());
        assert_eq!(Expression::parse("1", &[name]).unwrap_err(), named);
    }
    assert!(Expression::parse("a", &["a", "a"]).is_err());
}

#[test]
fn no_text_at_all_makes_the_parser_panic() {
    let pieces =
        ["a", "b", "(", ")", ",", "+", "-", "*", "^", "max", "sin", "2", "1e-3", " ", "e", ".", "(a"];
    let mut random = units::Random::new(4);
    let mut accepted = 0;
    for _ in 0..30_000 {
        let count = 1 + random.below(14);
        let text: String = (0..count).map(|_| pieces[random.below(pieces.len() as u64) as usize]).collect();
        match Expression::parse(&text, &["a"]) {
            Ok(expression) => {
                accepted += 1;
                expression.evaluate(&[vec![1.0]], &mut Vec::new());
            }
            Err(error) => assert!(!matches!(error, ExpressionError::Refused(_)), "{text}: {error:?}"),
        }
    }
    assert!(accepted > 100, "{accepted}");
}
