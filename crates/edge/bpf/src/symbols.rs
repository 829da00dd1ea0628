//! Functions of the kernel, by their addresses.

use std::sync::Arc;

/// Addresses of the kernel's functions in ascending order, each with its name.
#[derive(Clone, Debug, Default)]
pub struct Symbols(Vec<(u64, Arc<str>)>);

impl Symbols {
    /// Parses the text of `/proc/kallsyms`; empty for a user who may not see addresses (they are zero without
    /// `CAP_SYSLOG`).
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let function = |line: &str| {
            let mut words = line.split_whitespace();
            let address = u64::from_str_radix(words.next()?, 16).ok()?;
            let is_function = words.next()?.eq_ignore_ascii_case("t");
            let name = words.next()?;
            (is_function && address != 0).then(|| (address, Arc::from(plain(name))))
        };
        let mut symbols: Vec<_> = text.lines().filter_map(function).collect();
        symbols.sort_by_key(|(address, _)| *address);
        Self(symbols)
    }

    /// Returns whether there are no functions.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the address of a function; `None` if no function has this name.
    #[must_use]
    pub fn address(&self, name: &str) -> Option<u64> {
        self.0.iter().find(|(_, it)| &**it == name).map(|(address, _)| *address)
    }

    /// Returns the function that contains an address; `None` below the first.
    #[must_use]
    pub fn name(&self, address: u64) -> Option<Arc<str>> {
        let after = self.0.partition_point(|(start, _)| *start <= address);
        after.checked_sub(1).map(|index| Arc::clone(&self.0[index].1))
    }
}

/// Returns a name without the suffixes of compilers for parts and copies of a function: `.constprop.0`,
/// `.isra.1`, `.cold`.
fn plain(name: &str) -> &str {
    name.split('.').next().unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_lies_in_the_function_that_begins_before_it() {
        let symbols = Symbols::parse(
            "ffffffff81002000 t second.constprop.0\nffffffff81001000 T first\nffffffff81003000 d data\nffffffff81004000 t last\nno line\n",
        );
        let name = |address| symbols.name(address).map(|name| name.to_string());
        assert_eq!(name(0xffff_ffff_8100_0fff), None);
        assert_eq!(name(0xffff_ffff_8100_1000).as_deref(), Some("first"));
        assert_eq!(name(0xffff_ffff_8100_3005).as_deref(), Some("second"));
        assert_eq!(name(u64::MAX).as_deref(), Some("last"));
        assert_eq!(symbols.address("second"), Some(0xffff_ffff_8100_2000));
        assert_eq!(symbols.address("third"), None);
    }

    #[test]
    fn addresses_that_are_hidden_name_nothing() {
        let symbols = Symbols::parse("0000000000000000 T first\n0000000000000000 t second\n");
        assert!(symbols.is_empty());
        assert_eq!(symbols.name(7), None);
    }
}
