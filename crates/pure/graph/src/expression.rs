//! Expressions over named inputs, such as `a - b` or `sqrt(u^2 + v^2)`.
//!
//! The parser and evaluator is `exmex`; this module adds free variable names, errors with a position, and strictness.
//! Formulas that readers interpret differently (`-x^2`, `a^b^c`) are refused, and the error shows both unambiguous
//! spellings. Evaluation cannot fail.

mod lexer;

use core::fmt;

use exmex::{Express, FlatEx};
use lexer::{Lexeme, Token};

/// The longest expression in characters.
pub const MAX_EXPRESSION_CHARS: usize = 1_000;
/// The most variables of one expression; more would not stay on the evaluator's stack.
pub const MAX_VARIABLES: usize = 16;
/// Deepest nesting of parentheses, so that untrusted text cannot overflow the parser's stack.
const MAX_DEPTH: usize = 50;

const FUNCTIONS: [&str; 24] = [
    "abs", "signum", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh",
    "atanh", "floor", "ceil", "trunc", "fract", "exp", "sqrt", "cbrt", "ln", "log2", "log10",
];
const FUNCTIONS_OF_TWO: [&str; 3] = ["min", "max", "atan2"];
const CONSTANTS: [(&str, f64); 3] =
    [("pi", core::f64::consts::PI), ("tau", core::f64::consts::TAU), ("e", core::f64::consts::E)];

/// An expression that can be evaluated.
#[derive(Clone)]
pub struct Expression {
    text: String,
    parsed: FlatEx<f64>,
    variables: usize,
}

/// Error in an expression. Positions count characters from 1.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExpressionError {
    /// An expression that is empty or too long.
    #[error("an expression has 1 to {MAX_EXPRESSION_CHARS} characters, not {0}")]
    Length(usize),
    /// No variable, or more than the evaluator supports.
    #[error("an expression has 1 to {MAX_VARIABLES} variables, not {0}")]
    VariableCount(usize),
    /// An invalid variable name.
    #[error("`{0}` cannot name a variable; use letters, digits and `_`, once, and not a function's name")]
    VariableName(String),
    /// Something that no expression has.
    #[error("unexpected `{character}` at {position}; write numbers, names, + - * / ^ ( ) and ,")]
    Character {
        /// Character found.
        character: char,
        /// Position of the character.
        position: usize,
    },
    /// An invalid number.
    #[error("`{text}` at {position} is not a number")]
    Number {
        /// Text found.
        text: String,
        /// Position of the text.
        position: usize,
    },
    /// A name that is neither a variable nor a function.
    #[error(
        "`{name}` at {position} is unknown; the variables are {variables}, the functions {}",
        functions()
    )]
    UnknownName {
        /// Name found.
        name: String,
        /// Position of the name.
        position: usize,
        /// Names of the known variables.
        variables: String,
    },
    /// A syntax error.
    #[error("{expected} at {position}")]
    Syntax {
        /// Expected syntax.
        expected: &'static str,
        /// Position of the error.
        position: usize,
    },
    /// A variable that the expression does not mention.
    #[error("variable `{0}` is not used; leave the input out")]
    Unused(String),
    /// Refused by the evaluator for a reason not foreseen here.
    #[error("the expression cannot be evaluated")]
    Refused(#[source] exmex::ExError),
}

impl Expression {
    /// Parses an expression over `variables`, every one of which it must use.
    ///
    /// In addition to `+ - * / ^` it may use the functions of one argument known from calculators, `min`, `max` and
    /// `atan2` of two, and `pi`, `tau`, `e`. Variables take precedence: one named `e` is not Euler's number.
    ///
    /// # Errors
    /// [`ExpressionError`], with the position of the first error.
    pub fn parse(text: &str, variables: &[&str]) -> Result<Self, ExpressionError> {
        check_variables(variables)?;
        let length = text.chars().count();
        if text.trim().is_empty() || length > MAX_EXPRESSION_CHARS {
            return Err(ExpressionError::Length(length));
        }
        let mut translation = Translation::new(variables);
        for lexeme in lexer::lexemes(text)? {
            translation.take(&lexeme)?;
        }
        let plain = translation.finish(length + 1)?;
        let parsed = exmex::parse::<f64>(&plain).map_err(ExpressionError::Refused)?;
        Ok(Self { text: text.to_owned(), parsed, variables: variables.len() })
    }

    /// Appends the expression's value for each row.
    ///
    /// Shape: `columns` is `[variable][row]`, in the order of the variables given to [`Expression::parse`].
    /// Out of a function's domain the value is NaN.
    /// Cost: no allocation per row for expressions of up to 32 operands.
    ///
    /// # Panics
    /// If the columns are not one for each variable, all of one length.
    pub fn evaluate(&self, columns: &[Vec<f64>], values: &mut Vec<f64>) {
        assert_eq!(columns.len(), self.variables, "one column for each variable");
        let mut row = [0.0; MAX_VARIABLES];
        let rows = columns[0].len();
        values.reserve(rows);
        for place in 0..rows {
            for (value, column) in row.iter_mut().zip(columns) {
                *value = column[place];
            }
            let value = self.parsed.eval(&row[..self.variables]);
            values.push(value.expect("the number of variables was checked when parsing"));
        }
    }
}

impl fmt::Display for Expression {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(&self.text)
    }
}

impl fmt::Debug for Expression {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Expression({:?})", self.text)
    }
}

fn functions() -> String {
    [&FUNCTIONS[..], &FUNCTIONS_OF_TWO[..]].concat().join(" ")
}

fn check_variables(variables: &[&str]) -> Result<(), ExpressionError> {
    if variables.is_empty() || variables.len() > MAX_VARIABLES {
        return Err(ExpressionError::VariableCount(variables.len()));
    }
    for (place, name) in variables.iter().enumerate() {
        let function = FUNCTIONS.contains(name) || FUNCTIONS_OF_TWO.contains(name);
        if !lexer::is_name(name) || function || variables[..place].contains(name) {
            return Err(ExpressionError::VariableName((*name).to_owned()));
        }
    }
    Ok(())
}

/// An expression during its translation into the evaluator's syntax, checked token by token.
struct Translation<'a> {
    variables: &'a [&'a str],
    used: Vec<bool>,
    plain: String,
    /// Kind of token that must follow.
    due: Due,
    open: Vec<Frame>,
    /// Kind of the operand before the next operator, at this depth.
    operand: Operand,
}

#[derive(Clone, Copy, PartialEq)]
enum Due {
    Operand,
    /// Arguments of a function with this number of arguments.
    Arguments(u8),
    Operator,
}

/// Properties of an operand that matter if `^` follows.
#[derive(Clone, Copy, PartialEq)]
enum Operand {
    Plain,
    Signed,
    Power,
}

/// An open parenthesis: the number of commas that must follow, and the enclosing operand.
struct Frame {
    commas: u8,
    /// Function of two arguments whose comma must follow; the evaluator writes it between its operands.
    between: &'static str,
    operand: Operand,
}

impl<'a> Translation<'a> {
    fn new(variables: &'a [&'a str]) -> Self {
        let used = vec![false; variables.len()];
        let (due, operand) = (Due::Operand, Operand::Plain);
        Self { variables, used, plain: String::new(), due, open: Vec::new(), operand }
    }

    fn take(&mut self, lexeme: &Lexeme<'_>) -> Result<(), ExpressionError> {
        let expected = |expected| Err(ExpressionError::Syntax { expected, position: lexeme.position });
        match (self.due, lexeme.token) {
            (Due::Operand, Token::Number(value)) => self.operand(&format!("{value}")),
            (Due::Operand, Token::Name(name)) => return self.name(name, lexeme.position),
            (Due::Operand, Token::Open) => return self.open(lexeme.position),
            (Due::Arguments(_), Token::Open) => return self.open_arguments(lexeme.position),
            (Due::Arguments(_), _) => return expected("`(` is missing"),
            (Due::Operand, Token::Operator(sign @ ('+' | '-'))) => {
                self.plain.push(sign);
                self.operand = Operand::Signed;
            }
            (Due::Operand, _) => return expected("a number, a variable or a function is missing"),
            (Due::Operator, Token::Operator('^')) => match self.operand {
                Operand::Plain => self.operator('^', Operand::Power),
                Operand::Signed => return expected("write -(x^y) or (-x)^y, as you mean it, for `^`"),
                Operand::Power => return expected("write (x^y)^z or x^(y^z), as you mean it, for `^`"),
            },
            (Due::Operator, Token::Operator(operator)) => self.operator(operator, Operand::Plain),
            (Due::Operator, Token::Comma) => return self.comma(lexeme.position),
            (Due::Operator, Token::Close) => return self.close(lexeme.position),
            (Due::Operator, _) => return expected("an operator such as + or * is missing"),
        }
        Ok(())
    }

    fn operand(&mut self, plain: &str) {
        self.plain.push_str(plain);
        self.due = Due::Operator;
    }

    fn operator(&mut self, operator: char, next: Operand) {
        self.plain.push(operator);
        self.operand = next;
        self.due = Due::Operand;
    }

    fn name(&mut self, name: &str, position: usize) -> Result<(), ExpressionError> {
        if let Some(place) = self.variables.iter().position(|variable| *variable == name) {
            self.used[place] = true;
            // The evaluator orders variables by name: two digits keep them in this order.
            self.operand(&format!("v{place:02}"));
        } else if FUNCTIONS.contains(&name) {
            self.plain.push_str(name);
            self.due = Due::Arguments(1);
        } else if let Some(place) = FUNCTIONS_OF_TWO.iter().position(|function| *function == name) {
            self.due = Due::Arguments(2);
            self.open.push(Frame { commas: 1, between: FUNCTIONS_OF_TWO[place], operand: self.operand });
        } else if let Some((_, value)) = CONSTANTS.iter().find(|(constant, _)| *constant == name) {
            self.operand(&format!("{value}"));
        } else {
            let variables = self.variables.join(", ");
            return Err(ExpressionError::UnknownName { name: name.to_owned(), position, variables });
        }
        Ok(())
    }

    fn open_arguments(&mut self, position: usize) -> Result<(), ExpressionError> {
        if self.due == Due::Arguments(1) {
            return self.open(position);
        }
        // `max(a, b)` becomes `((a)max(b))`; its frame was pushed with its name.
        self.plain.push_str("((");
        (self.due, self.operand) = (Due::Operand, Operand::Plain);
        self.check_depth(position)
    }

    fn open(&mut self, position: usize) -> Result<(), ExpressionError> {
        self.plain.push('(');
        self.open.push(Frame { commas: 0, between: "", operand: self.operand });
        (self.due, self.operand) = (Due::Operand, Operand::Plain);
        self.check_depth(position)
    }

    fn check_depth(&self, position: usize) -> Result<(), ExpressionError> {
        let expected = "there are too many parentheses in each other";
        if self.open.len() > MAX_DEPTH { Err(ExpressionError::Syntax { expected, position }) } else { Ok(()) }
    }

    fn comma(&mut self, position: usize) -> Result<(), ExpressionError> {
        let Some(frame) = self.open.last_mut().filter(|frame| frame.commas > 0) else {
            let expected = "unexpected `,`: only min, max and atan2 take two arguments";
            return Err(ExpressionError::Syntax { expected, position });
        };
        frame.commas -= 1;
        self.plain.push(')');
        self.plain.push_str(frame.between);
        self.plain.push('(');
        (self.due, self.operand) = (Due::Operand, Operand::Plain);
        Ok(())
    }

    fn close(&mut self, position: usize) -> Result<(), ExpressionError> {
        let syntax = |expected| Err(ExpressionError::Syntax { expected, position });
        match self.open.pop() {
            None => syntax("no `(` matches `)`"),
            Some(frame) if frame.commas > 0 => syntax("the second argument is missing"),
            Some(frame) => {
                self.plain.push_str(if frame.between.is_empty() { ")" } else { "))" });
                (self.due, self.operand) = (Due::Operator, frame.operand);
                Ok(())
            }
        }
    }

    /// Returns the expression in the evaluator's syntax.
    fn finish(self, position: usize) -> Result<String, ExpressionError> {
        let expected = match (self.due, self.open.is_empty()) {
            (Due::Operand, _) => "a number, a variable or a function is missing",
            (Due::Arguments(_), _) => "`(` is missing",
            (Due::Operator, false) => "`)` is missing",
            (Due::Operator, true) => {
                let unused = self.used.iter().position(|used| !used);
                return match unused {
                    Some(place) => Err(ExpressionError::Unused(self.variables[place].to_owned())),
                    None => Ok(self.plain),
                };
            }
        };
        Err(ExpressionError::Syntax { expected, position })
    }
}

#[cfg(test)]
mod tests;
