//! Results by what a person looks for: one case of one subject on one network, all repetitions together.

use std::collections::{BTreeMap, BTreeSet};

use headrace_bench::report::Spread;

use super::results::{CaseInfo, Figure, Measured, Results};
use crate::server::Profile;

/// A look at results.
#[derive(Debug)]
pub struct View<'a> {
    /// They.
    pub results: &'a Results,
    by: BTreeMap<(Profile, &'a str, &'a str), Vec<&'a Figure>>,
}

impl<'a> View<'a> {
    /// Of these.
    pub fn of(results: &'a Results) -> View<'a> {
        let mut by: BTreeMap<_, Vec<&Figure>> = BTreeMap::new();
        for figure in &results.figures {
            by.entry((figure.profile, figure.case.as_str(), figure.subject.as_str()))
                .or_default()
                .push(figure);
        }
        View { results, by }
    }

    /// Networks with figures.
    pub fn profiles(&self) -> BTreeSet<Profile> {
        self.by.keys().map(|(profile, ..)| *profile).collect()
    }

    /// Groups of cases with figures on a network, in the order of the cases.
    pub fn groups(&self, profile: Profile) -> Vec<&'a str> {
        let mut groups: Vec<&str> = Vec::new();
        for case in self.cases(profile) {
            if !groups.contains(&case.group()) {
                groups.push(case.group());
            }
        }
        groups
    }

    /// Cases with figures on a network.
    pub fn cases(&self, profile: Profile) -> Vec<&'a CaseInfo> {
        let has = |case: &&CaseInfo| self.by.keys().any(|(p, id, _)| *p == profile && *id == case.id);
        self.results.cases.iter().filter(has).collect()
    }

    /// The cases of a group with figures on a network.
    pub fn cases_of(&self, profile: Profile, group: &str) -> Vec<&'a CaseInfo> {
        self.cases(profile).into_iter().filter(|case| case.group() == group).collect()
    }

    /// Subjects with figures in one of these cases.
    pub fn subjects(&self, profile: Profile, cases: &[&CaseInfo]) -> Vec<&'a str> {
        let names = self.results.subjects.iter().map(|subject| subject.name.as_str());
        names
            .filter(|name| cases.iter().any(|case| self.by.contains_key(&(profile, case.id.as_str(), name))))
            .collect()
    }

    /// All repetitions that gave something.
    pub fn measured(&self, profile: Profile, case: &str, subject: &str) -> Vec<&'a Measured> {
        let figures = self.by.iter().find(|((p, c, s), _)| (*p, *c, *s) == (profile, case, subject));
        figures
            .into_iter()
            .flat_map(|(_, figures)| figures.iter().filter_map(|figure| figure.measured.as_ref()))
            .collect()
    }

    /// A quantity of all repetitions.
    pub fn spread(
        &self,
        profile: Profile,
        case: &str,
        subject: &str,
        of: impl Fn(&Measured) -> Option<f64>,
    ) -> Option<Spread> {
        Spread::of(self.measured(profile, case, subject).into_iter().filter_map(of))
    }

    /// The case's own figure.
    pub fn value(&self, profile: Profile, case: &str, subject: &str) -> Option<Spread> {
        self.spread(profile, case, subject, |measured| Some(measured.value))
    }

    /// Why some of it is missing, by subject and reason: the cases.
    pub fn failures(
        &self,
        profile: Profile,
        cases: &[&CaseInfo],
    ) -> BTreeMap<(&'a str, &'a str), BTreeSet<&'a str>> {
        let mut failures: BTreeMap<_, BTreeSet<&str>> = BTreeMap::new();
        for ((p, case, subject), figures) in &self.by {
            if *p != profile || !cases.iter().any(|one| one.id == *case) {
                continue;
            }
            for why in figures.iter().filter_map(|figure| figure.failed.as_deref()) {
                failures.entry((*subject, why)).or_default().insert(case);
            }
        }
        failures
    }
}
