//! The built-in types this gateway knows, with the constants of `pg_type`.

/// Object ids of PostgreSQL's built-in types.
#[allow(missing_docs)]
pub mod oid {
    pub const BOOL: u32 = 16;
    pub const BYTEA: u32 = 17;
    pub const CHAR: u32 = 18;
    pub const NAME: u32 = 19;
    pub const INT8: u32 = 20;
    pub const INT2: u32 = 21;
    pub const INT2VECTOR: u32 = 22;
    pub const INT4: u32 = 23;
    pub const REGPROC: u32 = 24;
    pub const TEXT: u32 = 25;
    pub const OID: u32 = 26;
    pub const XID: u32 = 28;
    pub const CID: u32 = 29;
    pub const OIDVECTOR: u32 = 30;
    pub const JSON: u32 = 114;
    pub const PG_NODE_TREE: u32 = 194;
    pub const FLOAT4: u32 = 700;
    pub const FLOAT8: u32 = 701;
    pub const UNKNOWN: u32 = 705;
    pub const ACLITEM: u32 = 1033;
    pub const BPCHAR: u32 = 1042;
    pub const VARCHAR: u32 = 1043;
    pub const DATE: u32 = 1082;
    pub const TIME: u32 = 1083;
    pub const TIMESTAMP: u32 = 1114;
    pub const TIMESTAMPTZ: u32 = 1184;
    pub const INTERVAL: u32 = 1186;
    pub const NUMERIC: u32 = 1700;
    pub const REGPROCEDURE: u32 = 2202;
    pub const REGCLASS: u32 = 2205;
    pub const REGTYPE: u32 = 2206;
    pub const VOID: u32 = 2278;
    pub const UUID: u32 = 2950;
    pub const JSONB: u32 = 3802;
    pub const REGNAMESPACE: u32 = 4089;
    pub const REGROLE: u32 = 4096;
    pub const BOOL_ARRAY: u32 = 1000;
    pub const INT4_ARRAY: u32 = 1007;
    pub const TEXT_ARRAY: u32 = 1009;
    pub const INT8_ARRAY: u32 = 1016;
    pub const FLOAT4_ARRAY: u32 = 1021;
    pub const FLOAT8_ARRAY: u32 = 1022;
}

/// A row of `pg_type`, and of its array type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BuiltinType {
    /// Object id.
    pub oid: u32,
    /// `typname`.
    pub name: &'static str,
    /// Name as `format_type` and error messages print it.
    pub sql_name: &'static str,
    /// Bytes of a value, -1 if they vary.
    pub typlen: i16,
    /// Object id of the array type, 0 if there is none.
    pub array_oid: u32,
    /// `typname` of the array type.
    pub array_name: &'static str,
}

macro_rules! types {
    ($(($oid:expr, $name:literal, $sql:literal, $len:literal, $array:literal),)*) => {
        &[$(BuiltinType {
            oid: $oid,
            name: $name,
            sql_name: $sql,
            typlen: $len,
            array_oid: $array,
            array_name: concat!("_", $name),
        },)*]
    };
}

const BUILTINS: &[BuiltinType] = types![
    (oid::BOOL, "bool", "boolean", 1, 1000),
    (oid::BYTEA, "bytea", "bytea", -1, 1001),
    (oid::CHAR, "char", "\"char\"", 1, 1002),
    (oid::NAME, "name", "name", 64, 1003),
    (oid::INT8, "int8", "bigint", 8, 1016),
    (oid::INT2, "int2", "smallint", 2, 1005),
    (oid::INT2VECTOR, "int2vector", "int2vector", -1, 1006),
    (oid::INT4, "int4", "integer", 4, 1007),
    (oid::REGPROC, "regproc", "regproc", 4, 1008),
    (oid::TEXT, "text", "text", -1, 1009),
    (oid::OID, "oid", "oid", 4, 1028),
    (oid::XID, "xid", "xid", 4, 1011),
    (oid::CID, "cid", "cid", 4, 1012),
    (oid::OIDVECTOR, "oidvector", "oidvector", -1, 1013),
    (oid::JSON, "json", "json", -1, 199),
    (oid::PG_NODE_TREE, "pg_node_tree", "pg_node_tree", -1, 0),
    (oid::FLOAT4, "float4", "real", 4, 1021),
    (oid::FLOAT8, "float8", "double precision", 8, 1022),
    (oid::UNKNOWN, "unknown", "unknown", -2, 0),
    (oid::ACLITEM, "aclitem", "aclitem", 12, 1034),
    (oid::BPCHAR, "bpchar", "character", -1, 1014),
    (oid::VARCHAR, "varchar", "character varying", -1, 1015),
    (oid::DATE, "date", "date", 4, 1182),
    (oid::TIME, "time", "time without time zone", 8, 1183),
    (oid::TIMESTAMP, "timestamp", "timestamp without time zone", 8, 1115),
    (oid::TIMESTAMPTZ, "timestamptz", "timestamp with time zone", 8, 1185),
    (oid::INTERVAL, "interval", "interval", 16, 1187),
    (oid::NUMERIC, "numeric", "numeric", -1, 1231),
    (oid::REGPROCEDURE, "regprocedure", "regprocedure", 4, 2207),
    (oid::REGCLASS, "regclass", "regclass", 4, 2210),
    (oid::REGTYPE, "regtype", "regtype", 4, 2211),
    (oid::VOID, "void", "void", 4, 0),
    (oid::UUID, "uuid", "uuid", 16, 2951),
    (oid::JSONB, "jsonb", "jsonb", -1, 3807),
    (oid::REGNAMESPACE, "regnamespace", "regnamespace", 4, 4090),
    (oid::REGROLE, "regrole", "regrole", 4, 4097),
];

/// Returns all built-in element types.
pub fn builtins() -> &'static [BuiltinType] {
    BUILTINS
}

/// Returns the built-in element type with an object id.
pub fn builtin(oid: u32) -> Option<&'static BuiltinType> {
    BUILTINS.iter().find(|builtin| builtin.oid == oid)
}

/// Returns the built-in element type with a `typname` or an SQL name.
pub fn builtin_by_name(name: &str) -> Option<&'static BuiltinType> {
    let by_name = |builtin: &&BuiltinType| builtin.name == name;
    let by_sql_name = |builtin: &&BuiltinType| builtin.sql_name == name;
    BUILTINS.iter().find(by_name).or_else(|| BUILTINS.iter().find(by_sql_name))
}

/// Returns the array type of an element type.
pub fn array_of(element: u32) -> Option<u32> {
    builtin(element).map(|builtin| builtin.array_oid).filter(|oid| *oid != 0)
}

/// Returns the element type of an array type.
pub fn element_of(array: u32) -> Option<&'static BuiltinType> {
    BUILTINS.iter().find(|builtin| array != 0 && builtin.array_oid == array)
}

/// Returns what the SQL function `format_type` prints, `???` for an unknown
/// type.
pub fn format_type(type_oid: u32, typmod: i32) -> String {
    if type_oid == 0 {
        return "-".to_owned();
    }
    if let Some(element) = element_of(type_oid) {
        return format!("{}[]", with_typmod(element, typmod));
    }
    match builtin(type_oid) {
        Some(builtin) => with_typmod(builtin, typmod),
        None => "???".to_owned(),
    }
}

fn with_typmod(builtin: &BuiltinType, typmod: i32) -> String {
    if typmod < 0 {
        return builtin.sql_name.to_owned();
    }
    match builtin.oid {
        oid::NUMERIC if typmod >= 4 => {
            let precision = ((typmod - 4) >> 16) & 0xffff;
            let scale = (((typmod - 4) & 0x7ff) ^ 1024) - 1024;
            format!("numeric({precision},{scale})")
        }
        oid::VARCHAR | oid::BPCHAR if typmod > 4 => {
            format!("{}({})", builtin.sql_name, typmod - 4)
        }
        oid::TIME => format!("time({typmod}) without time zone"),
        oid::TIMESTAMP => format!("timestamp({typmod}) without time zone"),
        oid::TIMESTAMPTZ => format!("timestamp({typmod}) with time zone"),
        _ => builtin.sql_name.to_owned(),
    }
}
