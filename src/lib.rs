//! lancegate: a PostgreSQL-wire SQL gateway for Lance tables.
//!
//! `ARCHITECTURE.md` in the repository's root says how the parts fit; each
//! module's own doc says what it owns and what it never does.
