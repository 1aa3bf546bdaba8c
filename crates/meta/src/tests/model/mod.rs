//! Random operations on the namespace and on a model of it, which is too simple to be wrong, with the same answers.

mod operation;
mod reference;
mod run;

use operation::operations;
use proptest::prelude::*;

use super::fixture::Fixture;

proptest! {
    #![proptest_config(ProptestConfig { cases: 1024, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_namespace_does_what_the_model_does(operations in operations(1..80)) {
        run::run(Fixture::in_memory(), &operations)?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn so_it_does_on_the_embedded_engine(operations in operations(20..120)) {
        run::run(Fixture::embedded(), &operations)?;
    }
}
