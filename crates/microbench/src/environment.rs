//! Where measurements were made: counts from elsewhere say nothing about a change of the code.

use std::process::Command;

use serde::{Deserialize, Serialize};

/// All that moves counts without a change in this repository.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Environment {
    /// What was compiled for, such as `x86_64-unknown-linux-gnu`.
    pub target: String,
    /// The compiler, with its commit.
    pub rustc: String,
    /// The C library, whose copying is counted too.
    pub libc: String,
    /// Valgrind, which decides what processor the program sees.
    pub valgrind: String,
    /// Instruction sets that code here chooses by at run time, and that valgrind shows to it.
    pub cpu: String,
}

/// A part of two environments that is not the same.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Difference {
    /// Which.
    pub what: &'static str,
    /// In the recorded one.
    pub recorded: String,
    /// Here.
    pub here: String,
}

impl Environment {
    /// Of this machine.
    ///
    /// # Errors
    /// A text for people, when a tool is missing or cannot be run.
    pub fn gather() -> Result<Environment, String> {
        let rustc = first_line("rustc", &["--version"])?;
        let verbose = output("rustc", &["-vV"])?;
        let target =
            verbose.lines().find_map(|line| line.strip_prefix("host: ")).unwrap_or("unknown").to_owned();
        Ok(Environment {
            target,
            rustc,
            libc: first_line("getconf", &["GNU_LIBC_VERSION"])?,
            valgrind: first_line("valgrind", &["--version"])?,
            cpu: cpu(),
        })
    }

    /// What is different here from `recorded`.
    pub fn differences(&self, recorded: &Environment) -> Vec<Difference> {
        [
            ("target", &recorded.target, &self.target),
            ("rustc", &recorded.rustc, &self.rustc),
            ("libc", &recorded.libc, &self.libc),
            ("valgrind", &recorded.valgrind, &self.valgrind),
            ("cpu", &recorded.cpu, &self.cpu),
        ]
        .into_iter()
        .filter(|(_, recorded, here)| recorded != here)
        .map(|(what, recorded, here)| Difference { what, recorded: recorded.clone(), here: here.clone() })
        .collect()
    }
}

fn output(program: &str, arguments: &[&str]) -> Result<String, String> {
    let command = || format!("{program} {}", arguments.join(" "));
    let ran = Command::new(program).args(arguments).output().map_err(|e| {
        format!("cannot run `{}`: {e}; `scripts/install-test-tools micro` installs what is needed", command())
    })?;
    if !ran.status.success() {
        let said = String::from_utf8_lossy(&ran.stderr);
        return Err(format!("`{}` failed ({}): {}", command(), ran.status, said.trim()));
    }
    Ok(String::from_utf8_lossy(&ran.stdout).into_owned())
}

fn first_line(program: &str, arguments: &[&str]) -> Result<String, String> {
    Ok(output(program, arguments)?.lines().next().unwrap_or_default().trim().to_owned())
}

/// Valgrind shows nothing above AVX2 to a program, so two processors that have these are the same to it.
#[cfg(target_arch = "x86_64")]
fn cpu() -> String {
    let all = [
        ("sse4.2", is_x86_feature_detected!("sse4.2")),
        ("pclmulqdq", is_x86_feature_detected!("pclmulqdq")),
        ("aes", is_x86_feature_detected!("aes")),
        ("avx", is_x86_feature_detected!("avx")),
        ("avx2", is_x86_feature_detected!("avx2")),
        ("bmi2", is_x86_feature_detected!("bmi2")),
        ("rdrand", is_x86_feature_detected!("rdrand")),
    ];
    all.into_iter().filter(|(_, there)| *there).map(|(name, _)| name).collect::<Vec<_>>().join(" ")
}

#[cfg(not(target_arch = "x86_64"))]
fn cpu() -> String {
    "any".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorded() -> Environment {
        Environment {
            target: "x86_64-unknown-linux-gnu".into(),
            rustc: "rustc 1.95.0".into(),
            libc: "glibc 2.36".into(),
            valgrind: "valgrind-3.19.0".into(),
            cpu: "avx2".into(),
        }
    }

    #[test]
    fn each_part_that_differs_is_named() {
        assert_eq!(recorded().differences(&recorded()), []);
        let here = Environment { rustc: "rustc 1.96.0".into(), cpu: "avx".into(), ..recorded() };
        let differences = here.differences(&recorded());
        assert_eq!(differences.iter().map(|d| d.what).collect::<Vec<_>>(), ["rustc", "cpu"]);
        assert_eq!(
            differences[0],
            Difference { what: "rustc", recorded: "rustc 1.95.0".into(), here: "rustc 1.96.0".into() }
        );
    }

    #[test]
    fn a_tool_that_is_missing_is_named_with_what_installs_it() {
        let error = output("no-such-tool-as-this", &["--version"]).expect_err("it is not there");
        assert!(error.contains("no-such-tool-as-this --version"), "{error}");
        assert!(error.contains("scripts/install-test-tools micro"), "{error}");
    }
}
