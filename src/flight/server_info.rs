//! What the server can do, and the types that it has.

use arrow_flight::sql::metadata::{
    SqlInfoData, SqlInfoDataBuilder, XdbcTypeInfo, XdbcTypeInfoData, XdbcTypeInfoDataBuilder,
};
use arrow_flight::sql::{
    Nullable, Searchable, SqlInfo, SqlNullOrdering, SqlSupportedCaseSensitivity, SqlSupportedTransaction, XdbcDataType,
    XdbcDatetimeSubcode,
};
use lancegate_engine::error::{Result, SqlError};

/// The version of the Arrow libraries.
const ARROW_VERSION: &str = arrow::ARROW_VERSION;

/// Returns the answers of `GetSqlInfo`.
///
/// # Errors
/// Internal errors only.
pub(super) fn info() -> Result<SqlInfoData> {
    let mut builder = SqlInfoDataBuilder::new();
    builder.append(SqlInfo::FlightSqlServerName, "lancegate");
    builder.append(SqlInfo::FlightSqlServerVersion, env!("CARGO_PKG_VERSION"));
    builder.append(SqlInfo::FlightSqlServerArrowVersion, ARROW_VERSION);
    builder.append(SqlInfo::FlightSqlServerReadOnly, false);
    builder.append(SqlInfo::FlightSqlServerSql, true);
    builder.append(SqlInfo::FlightSqlServerSubstrait, false);
    builder.append(SqlInfo::FlightSqlServerTransaction, SqlSupportedTransaction::None as i32);
    builder.append(SqlInfo::FlightSqlServerCancel, true);
    builder.append(SqlInfo::FlightSqlServerBulkIngestion, true);
    builder.append(SqlInfo::FlightSqlServerIngestTransactionsSupported, false);
    builder.append(SqlInfo::FlightSqlServerStatementTimeout, 0_i32);
    builder.append(SqlInfo::FlightSqlServerTransactionTimeout, 0_i32);
    builder.append(SqlInfo::SqlDdlCatalog, true);
    builder.append(SqlInfo::SqlDdlSchema, true);
    builder.append(SqlInfo::SqlDdlTable, true);
    builder.append(SqlInfo::SqlIdentifierCase, SqlSupportedCaseSensitivity::SqlCaseSensitivityLowercase as i64);
    builder.append(SqlInfo::SqlIdentifierQuoteChar, "\"");
    builder.append(SqlInfo::SqlQuotedIdentifierCase, SqlSupportedCaseSensitivity::SqlCaseSensitivityUnknown as i64);
    builder.append(SqlInfo::SqlAllTablesAreSelectable, false);
    builder.append(SqlInfo::SqlNullOrdering, SqlNullOrdering::SqlNullsSortedHigh as i64);
    builder.append(SqlInfo::SqlCatalogTerm, "database");
    builder.append(SqlInfo::SqlSchemaTerm, "schema");
    builder.append(SqlInfo::SqlTransactionsSupported, false);
    builder.append(SqlInfo::SqlSavepointsSupported, false);
    builder.build().map_err(SqlError::internal)
}

/// Returns the answers of `GetXdbcTypeInfo`.
///
/// # Errors
/// Internal errors only.
pub(super) fn types() -> Result<XdbcTypeInfoData> {
    use XdbcDataType::{
        XdbcBigint, XdbcBit, XdbcDate, XdbcDatetime, XdbcDecimal, XdbcDouble, XdbcInteger, XdbcReal, XdbcSmallint,
        XdbcTime, XdbcTimestamp, XdbcVarbinary, XdbcVarchar,
    };
    // Name, type, size, radix of the size.
    let rows: [(&str, XdbcDataType, i32, Option<i32>); 13] = [
        ("boolean", XdbcBit, 1, None),
        ("smallint", XdbcSmallint, 16, Some(2)),
        ("integer", XdbcInteger, 32, Some(2)),
        ("bigint", XdbcBigint, 64, Some(2)),
        ("real", XdbcReal, 24, Some(2)),
        ("double precision", XdbcDouble, 53, Some(2)),
        ("numeric", XdbcDecimal, 38, Some(10)),
        ("text", XdbcVarchar, i32::MAX, None),
        ("bytea", XdbcVarbinary, i32::MAX, None),
        ("date", XdbcDate, 10, None),
        ("time", XdbcTime, 15, None),
        ("timestamp", XdbcTimestamp, 26, None),
        ("timestamp with time zone", XdbcTimestamp, 32, None),
    ];
    let mut builder = XdbcTypeInfoDataBuilder::new();
    for (name, data_type, size, radix) in rows {
        let number = radix.is_some();
        let datetime = matches!(data_type, XdbcDate | XdbcTime | XdbcTimestamp);
        builder.append(XdbcTypeInfo {
            type_name: name.to_owned(),
            data_type,
            column_size: Some(size),
            literal_prefix: (!number && data_type != XdbcBit).then(|| "'".to_owned()),
            literal_suffix: (!number && data_type != XdbcBit).then(|| "'".to_owned()),
            create_params: (data_type == XdbcDecimal).then(|| vec!["precision".to_owned(), "scale".to_owned()]),
            nullable: Nullable::NullabilityNullable,
            case_sensitive: data_type == XdbcVarchar,
            searchable: Searchable::Full,
            unsigned_attribute: number.then_some(false),
            fixed_prec_scale: false,
            auto_increment: number.then_some(false),
            local_type_name: Some(name.to_owned()),
            minimum_scale: (data_type == XdbcDecimal).then_some(0),
            maximum_scale: (data_type == XdbcDecimal).then_some(38),
            sql_data_type: if datetime { XdbcDatetime } else { data_type },
            datetime_subcode: match name {
                "date" => Some(XdbcDatetimeSubcode::XdbcSubcodeYear),
                "time" => Some(XdbcDatetimeSubcode::XdbcSubcodeTime),
                "timestamp" => Some(XdbcDatetimeSubcode::XdbcSubcodeTimestamp),
                "timestamp with time zone" => Some(XdbcDatetimeSubcode::XdbcSubcodeTimestampWithTimezone),
                _ => None,
            },
            num_prec_radix: radix,
            interval_precision: None,
        });
    }
    builder.build().map_err(SqlError::internal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_is_there_and_nothing_else() {
        let info = info().unwrap();
        assert_eq!(info.record_batch([SqlInfo::FlightSqlServerName as u32]).unwrap().num_rows(), 1);
        assert!(info.record_batch([]).unwrap().num_rows() > 20);
        let types = types().unwrap();
        assert_eq!(types.record_batch(Some(XdbcDataType::XdbcBigint as i32)).unwrap().num_rows(), 1);
        assert_eq!(types.record_batch(None).unwrap().num_rows(), 13);
    }
}
