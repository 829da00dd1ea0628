//! Crates of which the command asks for features only: those that its tests need anyway.
//!
//! Without them the crates below the command would be built twice, with and without the features.

use ahash as _;
use getrandom as _;
use object as _;
use regex_automata as _;
use strum as _;
