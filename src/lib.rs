//! lancegate
