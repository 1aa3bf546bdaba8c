//! The machine's own file system, under the directory of the run: what the disk and the kernel can do.

use std::path::PathBuf;

use super::{Family, Mount, Site, Subject};
use crate::failure::Result;

/// It.
pub struct Native;

impl Subject for Native {
    fn name(&self) -> &'static str {
        "native"
    }

    fn family(&self) -> Family {
        Family::Native
    }

    fn program(&self) -> Option<&'static str> {
        None
    }

    fn settings(&self) -> String {
        "a directory".into()
    }

    fn durability(&self) -> &'static str {
        "never in a store; fsync: this machine's disk"
    }

    fn root(&self, site: &Site) -> Result<PathBuf> {
        site.directory("native")
    }

    fn format(&self, site: &Site) -> Result<()> {
        self.root(site).map(drop)
    }

    fn mount<'s>(&self, site: &'s Site) -> Result<Mount<'s>> {
        Ok(Mount::plain(self.root(site)?))
    }

    fn version(&self) -> String {
        std::fs::read_to_string("/proc/sys/kernel/osrelease")
            .map_or("?".into(), |text| format!("Linux {}", text.trim()))
    }
}
