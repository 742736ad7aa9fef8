//! What a configuration changes.
