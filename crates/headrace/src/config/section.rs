//! Groups of settings that can be set by name and laid over one another.

use std::fmt::Display;
use std::str::FromStr;

/// Why a setting was not set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SetError {
    /// No setting has this name.
    Unknown,
    /// The value does not fit; the text says why.
    Bad(String),
}

/// A group of settings.
pub trait Section: Default {
    /// The names, as written in flags.
    fn keys() -> Vec<String>;

    /// Sets one by name. Dashes and underscores in names are the same.
    fn set(&mut self, key: &str, text: &str) -> Result<(), SetError>;

    /// Takes from `lower` what is not set here. Lists of options are joined, the lower ones first; lists of places are not: the
    /// nearest counts.
    fn fill_from(&mut self, lower: Self);
}

/// Reads a value, keeping the reason as text.
pub fn parse<T: FromStr<Err: Display>>(text: &str) -> Result<T, SetError> {
    text.parse().map_err(|e: T::Err| SetError::Bad(e.to_string()))
}

/// A field's name as a flag.
pub fn key(field: &str) -> String {
    field.replace('_', "-")
}

/// Implements [`Section`] for a struct of `Option` fields and `Vec` fields: after `lists` those that are joined, after `nearest`
/// those of which the nearest counts.
macro_rules! section {
    (
        $type:ident { $($field:ident),* $(,)? }
        $(lists { $($list:ident),* $(,)? })?
        $(nearest { $($place:ident),* $(,)? })?
    ) => {
        impl $crate::config::section::Section for $type {
            fn keys() -> Vec<String> {
                vec![
                    $($crate::config::section::key(stringify!($field)),)*
                    $($($crate::config::section::key(stringify!($list)),)*)?
                    $($($crate::config::section::key(stringify!($place)),)*)?
                ]
            }

            fn set(&mut self, key: &str, text: &str) -> Result<(), $crate::config::section::SetError> {
                match key.replace('-', "_").as_str() {
                    $(stringify!($field) => self.$field = Some($crate::config::section::parse(text)?),)*
                    $($(stringify!($list) => self.$list.push($crate::config::section::parse(text)?),)*)?
                    $($(stringify!($place) => self.$place.push($crate::config::section::parse(text)?),)*)?
                    _ => return Err($crate::config::section::SetError::Unknown),
                }
                Ok(())
            }

            fn fill_from(&mut self, lower: Self) {
                $(if self.$field.is_none() {
                    self.$field = lower.$field;
                })*
                $($(self.$list.splice(0..0, lower.$list);)*)?
                $($(if self.$place.is_empty() {
                    self.$place = lower.$place;
                })*)?
            }
        }
    };
}
pub(crate) use section;
