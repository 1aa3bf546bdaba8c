//! Writers, what admits them, and a store that takes what they write; in virtual time.
//!
//! A [`gate::Gate`] decides who may write: the program's own ([`headrace_flow::writing`]), or one of Crucible's. A [`ledger::Ledger`] of
//! its own follows each byte from acceptance to commit, and checks what the gate says.

pub mod backend;
mod families;
mod figure;
pub mod gate;
pub mod judge;
pub mod ledger;
pub mod run;
#[cfg(test)]
mod tests;

pub use families::{FAMILIES, Family};
pub use figure::figure;
pub use judge::{Judgement, Summary, judge, run_all};
pub use run::{Flush, Outcome, Setup, Writer, run};
