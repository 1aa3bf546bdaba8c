//! What the crates below report, as failures with an exit code and advice.

use headrace_fuse::MountError;
use headrace_store::{ErrorKind, StoreError};
use headrace_volume::VolumeError;

use crate::failure::{Exit, Failure};

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Failure {
        store(&error, Failure::new("").because(&error))
    }
}

impl From<VolumeError> for Failure {
    fn from(error: VolumeError) -> Failure {
        let failure = Failure::new("").because(&error);
        match &error {
            VolumeError::Held { .. } | VolumeError::HeldElsewhere { .. } => failure.exit(Exit::InUse),
            VolumeError::NotAVolume { .. } | VolumeError::NoMetadata { .. } => failure.exit(Exit::NotFound),
            VolumeError::KeyNeeded { .. } | VolumeError::KeyWrong { .. } => failure.exit(Exit::Denied),
            VolumeError::InvalidOption { .. } => failure.exit(Exit::Usage),
            VolumeError::Store(error) => store(error, failure),
            _ => failure,
        }
    }
}

impl From<MountError> for Failure {
    fn from(error: MountError) -> Failure {
        let failure = Failure::new("").because(&error);
        match &error {
            MountError::NotFound(_) => failure.exit(Exit::NotFound),
            MountError::InUse { .. } => failure.exit(Exit::InUse),
            MountError::Option { .. } => failure.exit(Exit::Usage),
            MountError::Mount { source, .. } if source.kind() == std::io::ErrorKind::PermissionDenied => {
                failure.advise("Mounting needs root, or fusermount3 (package fuse3).").exit(Exit::Denied)
            }
            _ => failure,
        }
    }
}

fn store(error: &StoreError, failure: Failure) -> Failure {
    match error.kind {
        ErrorKind::NotFound => failure.exit(Exit::NotFound),
        ErrorKind::Denied => failure
            .advise(
                "Check the credentials (AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, --profile, or --access-key-id with \
                 --secret-access-key-file) and what they may do.",
            )
            .exit(Exit::Denied),
        ErrorKind::Unsupported => failure.exit(Exit::Usage),
        ErrorKind::Transient => {
            failure.advise("Check the network, and --endpoint if the store is not the provider's own.")
        }
        _ => failure,
    }
}
