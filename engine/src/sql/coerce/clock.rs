//! The clock of the session, which decides what day and hour a moment with a zone is.
//!
//! Moments are stored with the zone UTC, and DataFusion takes days and hours of the zone that a type names. In PostgreSQL
//! `date_trunc('day', t)`, `t::date`, `extract(hour FROM t)`, `t + interval '1 month'` and the comparison of `t` with a
//! timestamp without a zone go by the session's `TimeZone`.

use std::sync::Arc;

use arrow::datatypes::{DataType, TimeUnit};
use datafusion::logical_expr::{Expr, Operator, ScalarUDF, cast};
use lancegate_wire::FormatSettings;

use crate::sql::functions::zones;

/// See the module documentation.
pub(super) struct Clock {
    /// From a moment to what the clock shows, and back.
    turned: Arc<ScalarUDF>,
    zone: Arc<str>,
    is_utc: bool,
}

fn local() -> DataType {
    DataType::Timestamp(TimeUnit::Microsecond, None)
}

fn is_utc(zone: &str) -> bool {
    matches!(zone, "UTC" | "Etc/UTC" | "Z" | "+00:00" | "+00")
}

impl Clock {
    /// Returns the clock of a session; `zone` is what Arrow calls its zone.
    pub(super) fn new(settings: &FormatSettings, zone: Option<&str>) -> Self {
        let zone = zone.unwrap_or("UTC");
        Self { turned: Arc::new(zones::of_session(settings.timezone)), zone: Arc::from(zone), is_utc: is_utc(zone) }
    }

    /// Returns what the clock shows at a moment; `None` if that is what the moment's own zone shows.
    pub(super) fn shown(&self, moment: &Expr, kind: Option<&DataType>) -> Option<Expr> {
        match kind {
            Some(DataType::Timestamp(_, Some(zone))) if !(self.is_utc && is_utc(zone)) => {
                Some(self.turned.call(vec![moment.clone()]))
            }
            _ => None,
        }
    }

    /// Returns the moment at which the clock shows a time.
    pub(super) fn moment(&self, shown: Expr) -> Expr {
        self.turned.call(vec![shown])
    }

    /// Makes moments of times without a zone that stand beside moments; tells whether there were any.
    pub(super) fn beside(&self, values: &mut [Expr], kinds: &mut [DataType]) -> bool {
        if self.is_utc || !kinds.iter().any(|kind| matches!(kind, DataType::Timestamp(_, Some(_)))) {
            return false;
        }
        let mut changed = false;
        for (value, kind) in values.iter_mut().zip(kinds) {
            if matches!(kind, DataType::Timestamp(_, None) | DataType::Date32) {
                *value = self.moment(cast(std::mem::take(value), local()));
                *kind = DataType::Timestamp(TimeUnit::Microsecond, Some(Arc::from("UTC")));
                changed = true;
            }
        }
        changed
    }

    /// Lets days and months be added by the clock; tells whether they are.
    pub(super) fn shifted(&self, sides: &mut [Expr; 2], kinds: &[DataType; 2], op: Operator) -> bool {
        let is_moment = |kind: &DataType| matches!(kind, DataType::Timestamp(_, Some(_)));
        let is_interval = |kind: &DataType| matches!(kind, DataType::Interval(_));
        let moment = match kinds {
            _ if self.is_utc => return false,
            [left, right] if is_moment(left) && is_interval(right) => 0,
            [left, right] if is_interval(left) && is_moment(right) && op == Operator::Plus => 1,
            _ => return false,
        };
        let of_session = DataType::Timestamp(TimeUnit::Microsecond, Some(Arc::clone(&self.zone)));
        sides[moment] = cast(std::mem::take(&mut sides[moment]), of_session);
        true
    }
}
