//! `headrace format`

use headrace_layout::superblock::Superblock;
use headrace_volume::format::warnings;
use serde_json::{Value, json};

use super::{Call, open};
use crate::failure::Failure;
use crate::output::progress::Progress;
use crate::output::table::Fields;
use crate::output::{self, human};

/// Runs the command.
pub fn run(call: &Call, url: &str, json: bool) -> Result<(), Failure> {
    let settings = call.begin(Some(url))?;
    let location = open::location(url)?;
    let options = open::format_options(&settings, url)?;
    let store = open::store_options(&settings)?;
    let state_dir = open::state_dir(&settings)?;
    let bar = Progress::new("checking the store");
    let superblock = super::block_on(async {
        Ok(headrace_volume::format(&location, &store, state_dir.as_deref(), &options).await?)
    })?;
    drop(bar);
    for warning in warnings(&superblock) {
        output::say(&format!("headrace: warning: {warning}"));
    }
    if json {
        return output::print_json(&describe(&superblock, &location.to_string()));
    }
    let mut fields = Fields::default();
    fields
        .add("name", &superblock.name)
        .add("id", superblock.uuid.to_string())
        .add("compression", superblock.compression.to_string())
        .add("encryption", superblock.encryption.as_ref().map_or("none", |e| &e.algorithm))
        .add("segments of", human::bytes(u64::from(superblock.segment_size)))
        .add("frames of", human::bytes(u64::from(superblock.frame_size)));
    output::print(&format!(
        "Created a volume in {location}\n{}Mount it with: headrace mount {location} MOUNTPOINT\n",
        fields.render(2)
    ))
}

/// A volume's parameters, without its wrapped key.
pub fn describe(superblock: &Superblock, url: &str) -> Value {
    json!({
        "url": url,
        "uuid": superblock.uuid.to_string(),
        "name": superblock.name,
        "format_version": superblock.version,
        "created": superblock.created,
        "compression": superblock.compression.to_string(),
        "encryption": superblock.encryption.as_ref().map(|e| e.algorithm.clone()),
        "frame_size": superblock.frame_size,
        "segment_size": superblock.segment_size,
        "inline_max": superblock.inline_max,
        "weak_conditional_put": superblock.weak_conditional_put,
    })
}
