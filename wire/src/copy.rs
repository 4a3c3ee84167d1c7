//! COPY rows.
