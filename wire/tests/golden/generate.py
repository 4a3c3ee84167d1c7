"""Prints values as PostgreSQL writes them: the golden table of `values.txt`.

    python3 generate.py "host=127.0.0.1 user=postgres" > values.txt

Columns: TimeZone, extra_float_digits, type, input, text, binary in hex, escaped
as in COPY. The table was made with PostgreSQL 15; tests only read it.
"""

import random
import struct
import subprocess
import sys

random.seed(20240229)
cases = []


def add(type_name, *inputs, zone="UTC", digits=1):
    cases.extend((zone, digits, type_name, str(value)) for value in inputs)


def floats(fmt, bits, count):
    for _ in range(count):
        value = struct.unpack(fmt, random.getrandbits(bits).to_bytes(bits // 8, "big"))[0]
        if value == value and abs(value) != float("inf"):
            yield repr(value)


add("bool", "t", "f", "yes", "off", " TRUE ", "0", "1", "n")
add("int2", 0, 1, -1, 32767, -32768, " 12 ", "+7", "007")
add("int4", 0, 1, -1, 2147483647, -2147483648, 42)
add("int8", 0, 1, -1, 9223372036854775807, -9223372036854775808, 10**12)
add("oid", 0, 1, 16384, 4294967295, -1)
hard = "0 -0 1 -1 0.1 0.5 1.5 100000 123456 1e5 1e6 1234567 1e15 1e-4 1e-5 0.0001 0.00001234 NaN Infinity -Infinity inf 3.4e38 1.17549435e-38 1e-45 1.401298464e-45 16777216 16777217 33554432 8388608 4194304 67108864 9.5367431640625e-07 2e10 1e10 3e7 5e-40".split()
add("float4", *hard, *[2.0**k for k in range(-20, 100, 7)], *floats(">f", 32, 150))
hard = "0 -0 1 -1 0.1 0.2 0.3 1e20 1e21 1e22 1e23 1e24 9007199254740992 9007199254740993 1e14 1e15 1e16 123456789012345 1234567890123456 999999999999999.9 1e-4 1e-5 0.00012345 5e-324 2.2250738585072014e-308 1.7976931348623157e308 NaN Infinity -Infinity 8.41e21 2.0e23 4.5e15 9.5e15 2e23 9.007199254740993e15 5e22 1.5e23 3e23 18014398509481984 36028797018963968".split()
add("float8", *hard, *[2.0**k for k in range(-60, 200, 7)], *floats(">d", 64, 200))
add("float8", *[f"{random.randint(1, 9999)}e{random.randint(15, 26)}" for _ in range(200)])
for digits in (0, -3, -15, 3):
    add("float8", "0.1", "1", "1e20", "123456.789", "1e-5", "0.333333333333333333", "1e15", "1e14", digits=digits)
    add("float4", "0.1", "1", "1e20", "123456.789", "1e-5", "0.333333333333333333", digits=digits)
add("numeric", *"0 0.0 0.00 1 -1 10 100 1000 9999 10000 10001 100000000 1.5 -1.5 0.1 0.0001 0.00001 0.00010000 1234.5678 12345678901234567890123456789012345678 -0.000000000000000000000000000000000001 1e10 1.5e3 1e-10 99999999.99999999 +5 .5 5.".split())
add("numeric", *[f"{random.choice(['', '-'])}{random.randint(0, 10**random.randint(1, 25))}.{random.randint(0, 10**9):0{random.randint(1, 9)}}" for _ in range(60)])
add("numeric", "1" * 60, "-" + "9" * 50 + "." + "8" * 20)
add("text", "", "a", "hello world", 'quo"te', "back\\slash", "tab\there", "line\nbreak", "žluťoučký 🐎", "NULL", "{a,b}")
add("bytea", "\\x", "\\x00ff", "\\xDEADBEEF", "abc", "a\\\\b", "\\001\\377", "\\x de ad")
add("uuid", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "A0EEBC999C0B4EF8BB6D6BB9BD380A11", "{a0eebc99-9c0b4ef8-bb6d6bb9-bd380a11}")
add("json", "{}", '{"a" : [1, 2.50, null]}', '"x"', "1", " true ")
add("jsonb", '{"a": 1}', "[1, 2, 3]", '"x"', "null")
add("date", *"1970-01-01 2000-01-01 2024-02-29 0001-01-01 9999-12-31 10000-01-01 5874897-12-31 1582-10-15 1900-03-01 20240229 infinity -infinity epoch 2024-1-5".split(), "0001-01-01 BC", "4714-11-24 BC", "0044-03-15 BC", "2024-02-29 12:00:00")
add("time", *"00:00:00 12:34:56 12:34:56.789 23:59:59.999999 24:00:00 01:02 12:34:56.7891234 00:00:60".split())
stamps = ["1970-01-01 00:00:00", "2000-01-01 00:00:00", "2024-02-29 12:34:56.789", "1999-12-31 23:59:59.999999", "0001-01-01 00:00:00", "0044-03-15 12:00:00 BC", "4714-11-24 00:00:00 BC", "10000-01-01 00:00:00", "294246-12-31 23:59:59", "infinity", "-infinity", "epoch", "2024-02-29", "2024-02-29T12:34:56", "2024-02-29 12:34", "20240229 01:02:03.5"]
stamps += [f"{random.randint(1, 9999):04}-{random.randint(1, 12):02}-{random.randint(1, 28):02} {random.randint(0, 23):02}:{random.randint(0, 59):02}:{random.randint(0, 59):02}.{random.randint(0, 999999):06}" for _ in range(40)]
add("timestamp", *stamps)
add("timestamptz", *stamps)
zoned = ["2024-07-01 12:00:00Z", "2024-01-01 00:00:00+05:30", "2024-01-01 00:00:00-08", "2024-01-01T00:00:00.123456+0130", "2024-07-01 12:00:00 Europe/Berlin", "1890-01-01 00:00:00", "2024-03-31 02:30:00", "2024-10-27 02:30:00", "2024-11-03 01:30:00", "2024-03-10 02:30:00", "2024-07-01 12:00:00", "2024-01-01 12:00:00", "infinity", "0044-03-15 12:00:00 BC"]
for zone in ("UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe"):
    add("timestamptz", *zoned, zone=zone)
add("interval", "0", "1 year", "-1 year", "1 year 2 mons 3 days 04:05:06.789", "1 mon", "14 mons", "-14 mons", "1 day", "-1 day", "-1 day +01:00:00", "1 day -01:00:00", "-1 year 1 mon", "1 year -1 mons +3 days", "100:00:00", "-00:00:00.5", "P1Y2M3DT4H5M6.5S", "PT36H", "P-1D", "2 weeks", "1.5 days", "1.5 months", "1.5 years", "3 days ago", "@ 1 hour 5 minutes", "90 seconds", "1h", "25 ms", "12:34", "1 decade", "-1 mon 1 day -00:00:01")
add("int4[]", "{}", "{1}", "{1,2,3}", "{1,NULL,3}", "{{1,2},{3,4}}", "{{{1},{2}},{{3},{4}}}", " { 1 , 2 } ", "[0:1]={5,6}"[6:])
add("int2[]", "{1,-1}")
add("int8[]", "{9223372036854775807,NULL}")
add("bool[]", "{t,f,NULL}")
add("float4[]", "{}", "{0.1,1e20,NaN,-0}", "{1,2.5,NULL}")
add("float8[]", "{0.1,1e23,Infinity}", "{{1,2},{3,4}}")
add("text[]", "{}", "{a,b}", '{"a b",c}', '{"NULL",NULL,null}', '{"",x}', '{"a\\"b","c\\\\d"}', "{a\\,b}", '{"{x}","y,z"}', "{žlu}", '{ a , "b" }', '{{a,b},{c,d}}', '{"tab\there"}', "{a b}")
add("bytea[]", '{"\\\\x00ff",NULL}')
add("uuid[]", "{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11}")
add("date[]", "{2024-02-29,infinity,NULL}")
add("time[]", "{12:34:56}")
add("timestamp[]", '{"2024-02-29 12:34:56",infinity}')
add("timestamptz[]", '{"2024-02-29 12:34:56+00"}')
add("interval[]", '{"1 day","01:00:00"}')
add("numeric[]", "{1.5,2.5,NULL}")
add("json[]", '{"{\\"a\\": 1}",null}')
add("varchar", "x"), add("name", "pg_class"), add("\"char\"", "r")

SEND = {"bool": "boolsend", "text": "textsend", "varchar": "varcharsend", "name": "namesend", '"char"': "charsend", "oid": "oidsend", "bytea": "byteasend", "int2": "int2send", "int4": "int4send", "int8": "int8send", "float4": "float4send", "float8": "float8send"}


def literal(text):
    return "E'" + text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n").replace("\t", "\\t") + "'"


script = []
for zone, digits, type_name, value in cases:
    send = "array_send" if type_name.endswith("[]") else SEND.get(type_name, type_name + "_send")
    script.append(f"SET TimeZone = '{zone}'; SET extra_float_digits = {digits};")
    script.append(
        f"COPY (SELECT '{zone}', {digits}, '{type_name}', {literal(value)}, format('%s', v), "
        f"encode({send}(v), 'hex') FROM (SELECT {literal(value)}::{type_name}) t(v)) TO STDOUT;"
    )
result = subprocess.run(["psql", "-qX", "-v", "ON_ERROR_STOP=0", sys.argv[1]], input="\n".join(script), capture_output=True, text=True, check=True)
sys.stderr.write(result.stderr)
sys.stdout.write(result.stdout)
