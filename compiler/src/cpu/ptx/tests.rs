//! Inline PTX against the same computation written out.
