//! What a constant more or less does.

use headrace_sim::scenarios::Family;
use headrace_sim::scenarios::sensitivity::{self, Constant, Effect};
use serde_json::json;
use std::process::ExitCode;

/// The median of a scenario may move by so much.
const SENSITIVE: f64 = 0.05;

/// Each constant times four and a quarter, a line as soon as it is known; then all medians that moved too far. Fails if there are any.
pub fn run(constants: &[Constant], families: &[Family], seeds: u64, json: bool) -> ExitCode {
    let baseline = sensitivity::baseline(families, seeds);
    let mut effects = Vec::new();
    for constant in constants {
        for factor in [0.25, 4.0] {
            let effect = sensitivity::effect(constant, factor, families, seeds, &baseline);
            if json {
                say!("{}", json!(effect));
            } else {
                say!("{}", line(&effect));
            }
            effects.push(effect);
        }
    }
    let far: Vec<&Effect> =
        effects.iter().filter(|effect| effect.beyond(SENSITIVE).next().is_some()).collect();
    if !json {
        say!("\n{}", summary(&effects, &far, families.len(), seeds));
    }
    if far.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn line(effect: &Effect) -> String {
    let most = effect.moved.first().map_or_else(String::new, |most| {
        let broken = if most.share.abs() > SENSITIVE { "  BROKEN" } else { "" };
        format!("{:+6.1} % of {}{broken}", most.share * 100.0, most.family)
    });
    format!("{:32} x{:<5}{most}", effect.constant, effect.factor)
}

fn summary(effects: &[Effect], far: &[&Effect], families: usize, seeds: u64) -> String {
    let (changes, percent) = (effects.len(), SENSITIVE * 100.0);
    let mut text = format!("{changes} changes in {families} scenarios of {seeds} seeds each: ");
    if far.is_empty() {
        text.push_str(&format!("no median moved by more than {percent} %"));
        return text;
    }
    text.push_str(&format!("{} moved a median by more than {percent} %\n", far.len()));
    for effect in far {
        for moved in effect.beyond(SENSITIVE) {
            text.push_str(&format!(
                "{:32} x{:<5}{:16} {:.3} -> {:.3}  {:+.1} %\n",
                effect.constant,
                effect.factor,
                moved.family,
                moved.before,
                moved.after,
                moved.share * 100.0
            ));
        }
    }
    text.truncate(text.trim_end().len());
    text
}
