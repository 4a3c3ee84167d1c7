//! Functions in real worker processes: what they return, what they raise, what they must not do.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Int64Type, Schema};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use lancegate_functions::definition::{ArrowType, CallMode, Parameter, ResultStability, SideEffects};
use lancegate_functions::limits::{FailureLimits, JobLimits};
use lancegate_functions::redact::Redactor;
use lancegate_functions::sandbox::{Mode, Policy};
use lancegate_functions::types::parse_type;
use lancegate_functions::{
    CheckError, Definition, Environments, Evaluated, Executor, ExecutorError, Launch, Options, Pool, check, encode,
};

fn function(signature: &str, source: &str) -> Definition {
    let (parameter, output) = signature.split_once(" -> ").unwrap();
    let parameter =
        Parameter { name: "x".into(), arrow_type: ArrowType(parse_type(parameter).unwrap()), nullable: true };
    Definition {
        result_stability: Some(ResultStability::InputAndContext),
        side_effects: Some(SideEffects::None),
        ..Definition::new(vec![parameter], ArrowType(parse_type(output).unwrap()), source.into(), "f".into())
    }
}

fn vectorized(signature: &str, source: &str) -> Definition {
    Definition { mode: CallMode::Vectorized, ..function(signature, source) }
}

struct Bench {
    policy: Policy,
    options: Options,
    limits: JobLimits,
    environment: Vec<(String, String)>,
    secrets: Vec<String>,
    initialization: Option<String>,
    pool: Pool,
}

impl Bench {
    fn new(skip: bool) -> Self {
        Self {
            policy: Policy { mode: Mode::Require, ..Policy::default() },
            options: Options { skip, row_timeout: Duration::from_secs(60), ..Options::default() },
            limits: JobLimits::new(FailureLimits { fraction: None, rows: Some(1_000_000) }),
            environment: vec![("PATH".into(), "/usr/bin:/bin".into())],
            secrets: vec![],
            initialization: None,
            pool: Pool::new(4, Duration::from_secs(60)),
        }
    }

    async fn launch(&self, definition: &Definition) -> Launch {
        let base = std::env::var("LANCEGATE_TEST_PYTHON").unwrap_or_else(|_| "python3".into());
        let python = Environments::new(std::env::temp_dir(), PathBuf::from(base)).prepare(definition).await.unwrap();
        Launch {
            program: PathBuf::from(env!("CARGO_BIN_EXE_lancegate-worker")),
            prefix: vec![],
            python: python.executable,
            environment: self.environment.clone(),
            initialization: self.initialization.clone(),
            models: vec![],
            devices: vec![],
            policy: Policy { readable: python.readable, ..self.policy.clone() },
            redactor: Redactor::new(self.secrets.iter().map(String::as_str)),
        }
    }

    async fn executor(&self, definition: &Definition) -> Executor {
        let launch = self.launch(definition).await;
        let definition = Arc::new(definition.clone());
        Executor::new(
            self.pool.clone(),
            definition.digest(),
            Arc::new(launch),
            definition,
            self.options.clone(),
            &self.limits,
            Arc::default(),
        )
    }

    async fn run(&self, definition: &Definition, batch: &RecordBatch) -> Result<Evaluated, ExecutorError> {
        self.executor(definition).await.evaluate(batch).await
    }
}

fn numbers(values: impl IntoIterator<Item = i64>) -> RecordBatch {
    batch(Arc::new(Int64Array::from_iter_values(values)))
}

fn batch(column: ArrayRef) -> RecordBatch {
    let field = Field::new("c", column.data_type().clone(), true);
    RecordBatch::try_new(Arc::new(Schema::new(vec![field])), vec![column]).unwrap()
}

fn int64s(evaluated: &Evaluated) -> Vec<Option<i64>> {
    evaluated.values.as_primitive::<Int64Type>().iter().collect()
}

fn failed(evaluated: &Evaluated) -> Vec<(usize, &str)> {
    evaluated.errors.iter().map(|error| (error.row, error.raised.error_type.as_str())).collect()
}

fn doubled_but(count: i64, nulls: &[i64]) -> Vec<Option<i64>> {
    (0..count).map(|x| (!nulls.contains(&x)).then_some(2 * x)).collect()
}

#[tokio::test]
async fn scalar_and_vectorized_functions_and_classes_compute_every_row() {
    let bench = Bench::new(false);
    for definition in [
        function("int64 -> int64", "def f(x): return 2 * x"),
        vectorized("int64 -> int64", "import pyarrow.compute as pc\ndef f(x): return pc.multiply(x, 2)"),
        vectorized("int64 -> int64", "def f(x): return x.to_numpy() * 2"),
        function(
            "int64 -> int64",
            "class f:\n def __init__(self): self.k = 2\n def __call__(self, x): return self.k * x",
        ),
    ] {
        let evaluated = bench.run(&definition, &numbers(0..2_000)).await.unwrap();
        assert_eq!(int64s(&evaluated), doubled_but(2_000, &[]));
        assert!(evaluated.errors.is_empty());
    }
}

#[tokio::test]
async fn several_outputs_lists_and_nulls_arrive_as_declared() {
    let bench = Bench::new(false);
    let definition =
        function("utf8 -> struct<n: int64, up: utf8>", "def f(x): return None if x is None else (len(x), x.upper())");
    let words: ArrayRef = Arc::new(StringArray::from(vec![Some("ab"), None, Some("lance")]));
    let evaluated = bench.run(&definition, &batch(words)).await.unwrap();
    let outputs = evaluated.values.as_struct();
    assert!(outputs.is_null(1));
    assert_eq!(outputs.column(0).as_primitive::<Int64Type>().value(2), 5);
    assert_eq!(outputs.column(1).as_string::<i32>().value(0), "AB");
    let definition = function("int64 -> fixed_size_list<float32, 3>", "def f(x): return [x, x + 1, x + 2]");
    let evaluated = bench.run(&definition, &numbers(0..3)).await.unwrap();
    assert_eq!(evaluated.values.as_fixed_size_list().value(2).len(), 3);
}

#[tokio::test]
async fn a_null_for_a_parameter_that_takes_none_is_null_without_a_call() {
    let mut definition = function("int64 -> int64", "def f(x): return 2 * x");
    definition.parameters[0].nullable = false;
    let column: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), None, Some(3)]));
    let evaluated = Bench::new(false).run(&definition, &batch(column)).await.unwrap();
    assert_eq!(int64s(&evaluated), [Some(2), None, Some(6)]);
}

#[tokio::test]
async fn err_01_the_first_row_error_fails_and_names_row_and_exception() {
    let source = "def f(x):\n if x % 700 == 650: raise ValueError(f'bad {x}')\n return x";
    let error = Bench::new(false).run(&function("int64 -> int64", source), &numbers(0..2_000)).await.unwrap_err();
    let ExecutorError::Row { rows, raised } = error else { panic!("{error:?}") };
    assert_eq!((rows, raised.error_type.as_str(), raised.message.as_str()), (650..651, "ValueError", "bad 650"));
    assert_eq!(raised.place, "line 2 in f");
}

#[tokio::test]
async fn err_02_skip_makes_failing_rows_null_and_lists_them() {
    let source = "def f(x):\n if x in (3, 1500): raise KeyError(x)\n if x == 7: return 'seven'\n return 2 * x";
    let evaluated = Bench::new(true).run(&function("int64 -> int64", source), &numbers(0..2_000)).await.unwrap();
    assert_eq!(int64s(&evaluated), doubled_but(2_000, &[3, 7, 1_500]));
    assert_eq!(failed(&evaluated).iter().map(|(row, _)| *row).collect::<Vec<_>>(), [3, 7, 1_500]);
    assert_eq!(evaluated.errors[0].raised.error_type, "KeyError");
}

#[tokio::test]
async fn err_05_a_vectorized_call_that_raises_is_bisected_down_to_the_rows() {
    let source = "import pyarrow.compute as pc\nimport pyarrow as pa\ndef f(x):\n if pc.any(pc.is_in(x, pa.array([5, 6, 900]))).as_py(): raise ValueError('poison')\n return pc.multiply(x, 2)";
    let evaluated = Bench::new(true).run(&vectorized("int64 -> int64", source), &numbers(0..2_000)).await.unwrap();
    assert_eq!(int64s(&evaluated), doubled_but(2_000, &[5, 6, 900]));
    assert_eq!(failed(&evaluated), [(5, "ValueError"), (6, "ValueError"), (900, "ValueError")]);
}

#[tokio::test]
async fn err_05_rows_that_fail_here_and_there_cost_little_more_than_one_evaluation_of_all() {
    let source = "import pyarrow.compute as pc\nclass f:\n def __init__(self): self.rows = 0\n def __call__(self, x):\n  self.rows += len(x)\n  if any(value % 100 == 7 for value in x.to_pylist()): raise ValueError('poison')\n  return [self.rows] * len(x)";
    let rows = 20_000;
    let evaluated = Bench::new(true).run(&vectorized("int64 -> int64", source), &numbers(0..rows)).await.unwrap();
    assert_eq!(evaluated.errors.len(), 200);
    assert!(evaluated.errors.iter().all(|error| error.row % 100 == 7));
    // The last row tells how many had been evaluated by then.
    let total = int64s(&evaluated).last().copied().flatten().unwrap();
    assert!(total <= rows * 5 / 2, "{total} rows evaluated for {rows}");
}

#[tokio::test]
async fn rows_of_two_groups_are_in_no_call_and_an_instance_is_made_with_its_constants() {
    let source = "class f:\n def __init__(self, by, more=7): self.by, self.more = by, more\n def __call__(self, x): return [len(x) * self.by + self.more] * len(x)";
    let field = |name: &str| Parameter { name: name.into(), arrow_type: ArrowType(DataType::Int64), nullable: true };
    let definition =
        Definition { initialization: vec![field("by"), field("more")], ..vectorized("int64 -> int64", source) };
    let columns: Vec<ArrayRef> = vec![Arc::new(Int64Array::from(vec![100])), Arc::new(Int64Array::from(vec![None]))];
    let row = RecordBatch::try_new(definition.initialization_schema(), columns).unwrap();
    let bench = Bench { initialization: Some(STANDARD.encode(encode(&row).unwrap())), ..Bench::new(false) };
    let mut executor = bench.executor(&definition).await;
    let evaluated = executor.evaluate_groups(&numbers(0..9), &[2, 3, 0, 4]).await.unwrap();
    let expected = [vec![Some(207); 2], vec![Some(307); 3], vec![Some(407); 4]].concat();
    assert_eq!(int64s(&evaluated), expected);
}

#[tokio::test]
async fn a_source_is_looked_at_without_being_run() {
    let bench = Bench::new(false);
    let look = async |source: &str| {
        let definition = function("int64 -> int64", source);
        let launch = bench.launch(&definition).await;
        check(&launch, &definition).await
    };
    assert_eq!(look("raise SystemExit(3)\ndef f(x): return x").await.unwrap(), Some(CallMode::Scalar));
    let arrow = "from pyarrow import Array as A\ndef f(x: 'A') -> A: return x";
    assert_eq!(look(arrow).await.unwrap(), Some(CallMode::Vectorized));
    assert_eq!(look("from json import loads as f").await.unwrap(), None);
    let syntax = look("def f(x):\n return (").await.unwrap_err();
    assert!(matches!(&syntax, CheckError::Syntax(place) if place.line == Some(2)), "{syntax:?}");
    let wrong = look("def f(): return 1").await.unwrap_err();
    assert!(matches!(&wrong, CheckError::Definition(place) if place.line == Some(1)), "{wrong:?}");
}

#[tokio::test]
async fn err_04_the_first_hundred_rows_that_all_fail_end_the_part() {
    let mut executor = Bench::new(true).executor(&function("int64 -> int64", "def f(x): raise ValueError(x)")).await;
    let error = executor.evaluate(&numbers(0..5_000)).await.unwrap_err();
    assert!(error.to_string().contains("first 100 evaluated rows failed"), "{error}");
}

#[tokio::test]
async fn op_04_batch_size_caps_the_rows_of_a_call() {
    let mut bench = Bench::new(false);
    bench.options.batch_size = Some(7);
    let mut executor = bench
        .executor(&vectorized("int64 -> int64", "import pyarrow as pa\ndef f(x): return pa.array([len(x)] * len(x))"))
        .await;
    let evaluated = executor.evaluate(&numbers(0..20)).await.unwrap();
    assert_eq!(int64s(&evaluated), [vec![Some(7); 14], vec![Some(6); 6]].concat());
    assert_eq!(executor.counts(), (3, 1));
}

#[tokio::test]
async fn rc_13_a_worker_and_its_state_survive_from_one_executor_to_the_next() {
    let bench = Bench::new(false);
    let source = "class f:\n def __init__(self): self.calls = 0\n def __call__(self, x):\n  self.calls += 1\n  return self.calls";
    let definition = function("int64 -> int64", source);
    assert_eq!(int64s(&bench.run(&definition, &numbers(0..3)).await.unwrap())[2], Some(3));
    let mut one = bench.executor(&definition).await;
    assert_eq!(int64s(&one.evaluate(&numbers(0..1)).await.unwrap()), [Some(4)]);
    let mut other = bench.executor(&definition).await;
    assert_eq!(int64s(&other.evaluate(&numbers(0..1)).await.unwrap()), [Some(1)], "never shared");
    assert_eq!((one.counts().1, other.counts().1), (0, 1));
}

#[tokio::test]
async fn err_07_w09_a_row_that_hangs_is_one_row_timeout_error() {
    for hang in ["time.sleep(3600)", "[0 for _ in iter(int, 1)]"] {
        let mut bench = Bench::new(true);
        bench.options.row_timeout = Duration::from_secs(1);
        let mut definition =
            function("int64 -> int64", &format!("import time\ndef f(x):\n if x == 5: {hang}\n return 2 * x"));
        // Under skip any stability will do, as long as there are no effects.
        definition.result_stability = None;
        let evaluated = bench.run(&definition, &numbers(0..30)).await.unwrap();
        assert_eq!(int64s(&evaluated), doubled_but(30, &[5]), "{hang}");
        assert_eq!(failed(&evaluated), [(5, "RowTimeoutError")]);
        assert!(evaluated.errors[0].quarantined);
    }
}

#[tokio::test]
async fn err_06_declared_effects_are_never_replayed() {
    let mut bench = Bench::new(true);
    bench.options.row_timeout = Duration::from_secs(1);
    let mut definition = function("int64 -> int64", "import time\ndef f(x):\n if x == 5: time.sleep(3600)\n return x");
    definition.side_effects = Some(SideEffects::NonIdempotent);
    let mut executor = bench.executor(&definition).await;
    let error = executor.evaluate(&numbers(0..10)).await.unwrap_err();
    let ExecutorError::Row { rows, raised } = error else { panic!("{error:?}") };
    assert_eq!((rows, raised.error_type.as_str()), (5..6, "RowTimeoutError"));
    assert_eq!(executor.counts(), (1, 1));
}

#[tokio::test]
async fn long_02_heartbeats_do_not_extend_the_deadline() {
    let mut bench = Bench::new(false);
    bench.options.row_timeout = Duration::from_secs(1);
    let source =
        "import time, lance_progress\ndef f(x):\n while True:\n  lance_progress.heartbeat()\n  time.sleep(0.05)";
    for definition in [function("int64 -> int64", source), vectorized("int64 -> int64", source)] {
        let error = bench.run(&definition, &numbers(0..1)).await.unwrap_err();
        assert!(error.to_string().starts_with("RowTimeoutError"), "{error}");
    }
}

#[tokio::test]
async fn long_01_the_deadline_is_of_each_row_and_not_of_the_call() {
    let mut bench = Bench::new(false);
    bench.options.row_timeout = Duration::from_secs(2);
    let definition = function("int64 -> int64", "import time\ndef f(x):\n time.sleep(0.4)\n return 2 * x");
    let evaluated = bench.run(&definition, &numbers(0..10)).await.unwrap();
    assert_eq!(int64s(&evaluated), doubled_but(10, &[]), "the probe of ten rows takes 4 s");
}

#[tokio::test]
async fn long_03_w12_an_init_that_hangs_or_raises_fails_with_what_it_printed() {
    let mut bench = Bench::new(true);
    bench.options.init_timeout = Duration::from_secs(1);
    for (body, said) in [
        ("print('loading weights'); import time; time.sleep(3600)", "within 1 s"),
        ("print('loading weights'); raise RuntimeError('no weights')", "RuntimeError: no weights"),
        ("print('loading weights', flush=True); import os; os._exit(0)", "ended before"),
    ] {
        let source = format!("class f:\n def __init__(self):\n  {body}\n def __call__(self, x): return x");
        let error = bench.run(&function("int64 -> int64", &source), &numbers(0..3)).await.unwrap_err();
        let ExecutorError::Initialization { message, output } = &error else { panic!("{error:?}") };
        assert!(message.contains(said) && output.contains("loading weights"), "{message}\n{output}");
    }
    for source in ["def f(x) return x", "import no_such_package\ndef f(x): return x", "g = 1"] {
        let error = bench.run(&function("int64 -> int64", source), &numbers(0..3)).await.unwrap_err();
        assert!(matches!(error, ExecutorError::Initialization { .. }), "{error:?}");
    }
}

#[tokio::test]
async fn err_07_w07_a_row_that_takes_all_memory_is_isolated() {
    for poison in [0, 12, 19] {
        let mut bench = Bench::new(true);
        bench.policy.memory_bytes = 300 << 20;
        let source = format!(
            "def f(x):\n if x == {poison}:\n  b = []\n  while True: b.append(bytearray(8 << 20))\n return 2 * x"
        );
        let evaluated = bench.run(&function("int64 -> int64", &source), &numbers(0..20)).await.unwrap();
        assert_eq!(int64s(&evaluated), doubled_but(20, &[poison]));
        assert_eq!(evaluated.errors.len(), 1);
        // Where the kernel ends the worker it is quarantined; where it refuses the memory, the row raises.
        let error_type = evaluated.errors[0].raised.error_type.as_str();
        assert!(["OutOfMemoryError", "MemoryError"].contains(&error_type), "{error_type}");
    }
}

#[tokio::test]
async fn w10_a_worker_that_ends_is_lost_also_under_skip() {
    for end in ["os._exit(0)", "os.abort()", "ctypes.string_at(0)"] {
        let source =
            format!("import os, ctypes\ndef f(x):\n if x == 3:\n  print('bye', flush=True)\n  {end}\n return x");
        let error = Bench::new(true).run(&function("int64 -> int64", &source), &numbers(0..9)).await.unwrap_err();
        let ExecutorError::Lost { output, .. } = &error else { panic!("{end}: {error:?}") };
        assert!(output.contains("bye"), "{output}");
    }
}

#[tokio::test]
async fn w11_output_is_bounded_and_never_read_as_frames() {
    let source = "import os, sys\nframe = b'LGF1' + bytes(16)\ndef f(x):\n for _ in range(64): os.write(1, frame * 50_000); os.write(2, b'x' * 1_000_000)\n if x == 4: os._exit(7)\n return 2 * x";
    let error = Bench::new(false).run(&function("int64 -> int64", source), &numbers(0..10)).await.unwrap_err();
    let ExecutorError::Lost { output, message } = &error else { panic!("{error:?}") };
    assert!(message.contains('7') && output.len() < 100_000, "{message} {}", output.len());
    let source = source.replace("4", "99");
    let evaluated = Bench::new(false).run(&function("int64 -> int64", &source), &numbers(0..10)).await.unwrap();
    assert_eq!(int64s(&evaluated), doubled_but(10, &[]));
}

#[tokio::test]
async fn w13_wrong_rows_and_types_are_refused_also_under_skip() {
    for source in ["def f(x): return x[:-1]", "def f(x): return ['a'] * len(x)", "def f(x): return 5"] {
        let error = Bench::new(true).run(&vectorized("int64 -> int64", source), &numbers(0..9)).await.unwrap_err();
        assert!(matches!(error, ExecutorError::Contract(_)), "{error:?}");
    }
    // A Function that takes the socket over and writes what it likes.
    let source = "import os\ndef f(x):\n for fd in range(3, 64):\n  try: os.write(fd, b'LGF1' + b'\\xff' * 16)\n  except OSError: pass\n return x";
    let error = Bench::new(true).run(&function("int64 -> int64", source), &numbers(0..9)).await.unwrap_err();
    assert!(matches!(error, ExecutorError::Contract(_)), "{error:?}");
}

/// What a worker says twice is taken once: the answer to a call never serves the next one.
#[tokio::test]
async fn j13_frames_that_are_delivered_twice_have_no_effect() {
    let twice = "import __main__\nonce = __main__.send\ndef send(*frame):\n once(*frame)\n once(*frame)\n__main__.send = send\n";
    let mut bench = Bench::new(true);
    bench.options.batch_size = Some(3);
    let scalar = function(
        "int64 -> int64",
        &format!("{twice}def f(x):\n __main__.heartbeat()\n if x == 7: raise ValueError('seven')\n return 2 * x"),
    );
    let whole = vectorized(
        "int64 -> int64",
        &format!(
            "{twice}import pyarrow.compute as pc\ndef f(x):\n if 7 in x.to_pylist(): raise ValueError('seven')\n return pc.multiply(x, 2)"
        ),
    );
    for definition in [scalar, whole] {
        let evaluated = bench.run(&definition, &numbers(0..50)).await.unwrap();
        assert_eq!(int64s(&evaluated), doubled_but(50, &[7]));
        assert_eq!(failed(&evaluated), [(7, "ValueError")]);
    }
}

/// Nothing arrives from a worker past its deadline; what it would say later belongs to nobody.
#[tokio::test]
async fn j11_a_worker_that_falls_silent_is_replaced_and_its_late_answer_is_not_taken() {
    let source = "import __main__, time\ndef f(x):\n if x == 5:\n  with __main__._lock: time.sleep(20)\n  return 0\n return 2 * x";
    let mut bench = Bench::new(true);
    bench.options.row_timeout = Duration::from_secs(1);
    let mut executor = bench.executor(&function("int64 -> int64", source)).await;
    let evaluated = executor.evaluate(&numbers(0..9)).await.unwrap();
    assert_eq!(int64s(&evaluated), doubled_but(9, &[5]));
    assert_eq!(failed(&evaluated), [(5, "RowTimeoutError")]);
    let (_, started) = executor.counts();
    assert!(started >= 2, "the silent worker served on");
}

#[tokio::test]
async fn w14_a_secret_in_an_exception_or_in_output_is_redacted() {
    let mut bench = Bench::new(true);
    bench.environment.push(("API_KEY".into(), "sk-canary-123456".into()));
    bench.secrets.push("sk-canary-123456".into());
    let source = "import os, base64\nk = os.environ['API_KEY']\ndef f(x): raise ValueError(k + ' ' + base64.b64encode(k.encode()).decode())";
    let evaluated = bench.run(&function("int64 -> int64", source), &numbers(0..2)).await.unwrap();
    assert_eq!(evaluated.errors[0].raised.message, "<redacted> <redacted>");
    let source =
        "import os\nprint(os.environ['API_KEY'])\nraise RuntimeError(os.environ['API_KEY'])\ndef f(x): return x";
    let error = bench.run(&function("int64 -> int64", source), &numbers(0..2)).await.unwrap_err();
    assert!(!format!("{error:?}").contains("canary"), "{error:?}");
}

/// Runs Python statements that set `r`, and returns it as text.
async fn asked(bench: &Bench, statements: &str) -> String {
    let body = statements.replace('\n', "\n  ");
    let source = format!(
        "import os, socket, ctypes, sys, subprocess, errno\ndef f(x):\n try:\n  {body}\n except OSError as e: r = errno.errorcode[e.errno]\n return str(r)"
    );
    let evaluated = bench.run(&function("int64 -> utf8", &source), &numbers(0..1)).await.unwrap();
    evaluated.values.as_string::<i32>().value(0).to_owned()
}

#[tokio::test]
async fn w01_files_and_processes_of_others_are_not_there() {
    let bench = Bench::new(false);
    let outside = tempfile::NamedTempFile::new().unwrap();
    for path in ["/etc/passwd", "/root/.bashrc", "/etc/shadow", "/home", &outside.path().display().to_string()] {
        let told = asked(&bench, &format!("r = open({path:?}).read()")).await;
        assert!(["ENOENT", "EACCES", "EISDIR"].contains(&told.as_str()), "{path}: {told}");
    }
    assert_eq!(asked(&bench, "r = [p for p in os.listdir('/proc') if p.isdigit()]").await, "['1']");
    assert_eq!(
        asked(&bench, "r = sorted(os.readlink('/proc/self/fd/' + f).split(':')[0] for f in ('0', '1', '2'))").await,
        "['/dev/null', 'pipe', 'pipe']"
    );
    assert_eq!(asked(&bench, "r = len([f for f in range(3, 256) if os.path.exists(f'/proc/self/fd/{f}')])").await, "1");
    for path in ["/usr/x", "/x", "/dev/y"] {
        assert_eq!(
            asked(&bench, &format!("r = open({:?}, 'w')", format!("{path}.new"))).await.len(),
            5,
            "EROFS or EPERM"
        );
    }
}

#[tokio::test]
async fn w02_there_is_no_network_unless_it_is_declared() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let connect = format!("s = socket.create_connection(('127.0.0.1', {port}), 2)\nr = 'connected'");
    assert_eq!(asked(&Bench::new(false), &connect).await, "EPERM");
    let mut open = Bench::new(false);
    open.policy.network = true;
    assert_eq!(asked(&open, &connect).await, "connected");
    assert_eq!(asked(&open, "r = socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)").await, "EPERM");
}

#[tokio::test]
async fn w03_calls_that_no_function_needs_are_refused() {
    let bench = Bench::new(false);
    let call = |numbers: &str| {
        format!(
            "l = ctypes.CDLL(None, use_errno=True)\nr = l.syscall({numbers})\nr = errno.errorcode.get(ctypes.get_errno(), 'done') if r < 0 else 'done'"
        )
    };
    // ptrace, mount, unshare, setuid, perf_event_open, keyctl, io_uring_setup, bpf, pivot_root on x86-64.
    for number in [101, 165, 272, 105, 298, 250, 425, 321, 155] {
        assert_eq!(asked(&bench, &call(&format!("{number}, 0, 0, 0, 0, 0"))).await, "EPERM", "{number}");
    }
    assert_eq!(asked(&bench, &call("56, 0x10000011, 0, 0, 0, 0")).await, "EPERM", "clone of a user namespace");
    assert_eq!(asked(&bench, "os.kill(os.getppid(), 9) if os.getppid() else None\nr = os.getppid()").await, "0");
    assert_eq!(asked(&bench, "r = os.getuid()").await, "65534");
    let effective =
        asked(&bench, "r = [l.split()[1] for l in open('/proc/self/status') if l.startswith('CapEff')][0]").await;
    assert_eq!(effective, "0000000000000000");
}

#[tokio::test]
async fn w04_the_environment_is_what_was_declared() {
    let mut bench = Bench::new(false);
    bench.environment = vec![("ONLY".into(), "this".into())];
    let told = asked(&bench, "r = sorted(k for k in os.environ if k not in ('LC_CTYPE',))").await;
    assert_eq!(told, "['ONLY']");
}

#[tokio::test]
async fn w05_files_have_a_quota() {
    let mut bench = Bench::new(false);
    bench.policy.tmp_bytes = 8 << 20;
    let write = "f = open('/tmp/big', 'wb')\nfor _ in range(64): f.write(bytes(1 << 20)); f.flush()\nr = 'written'";
    let told = asked(&bench, write).await;
    assert!(["ENOSPC", "EFBIG"].contains(&told.as_str()), "{told}");
    assert_eq!(asked(&bench, "k = [open('/dev/null') for _ in range(100_000)]\nr = 'opened'").await, "EMFILE");
}

#[tokio::test]
async fn w06_processes_that_a_function_leaves_behind_end_with_its_worker() {
    let bench = Bench::new(false);
    let name = format!("lgw06{}", std::process::id());
    let body = format!(
        "p = os.fork()\nif p == 0:\n os.setsid()\n ctypes.CDLL(None).prctl(15, b'{name}')\n import time\n time.sleep(600)\n os._exit(0)\nimport time\ntime.sleep(0.3)\nr = p"
    );
    asked(&bench, &body).await;
    let alive = || {
        let comms = std::fs::read_dir("/proc")
            .unwrap()
            .filter_map(|entry| std::fs::read_to_string(entry.ok()?.path().join("comm")).ok());
        comms.filter(|comm| name.starts_with(comm.trim()) && !comm.trim().is_empty()).count()
    };
    assert_eq!(alive(), 1, "the child runs while its worker is idle");
    bench.pool.clear();
    for _ in 0..500 {
        if alive() == 0 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("a process outlived its worker");
}

#[tokio::test]
async fn w08_a_fork_bomb_meets_its_limit_and_the_next_row_is_right() {
    let bench = Bench::new(true);
    let source = "import os, time\ndef f(x):\n if x == 1:\n  kids = []\n  while len(kids) < 5000:\n   p = os.fork()\n   if p == 0:\n    time.sleep(60)\n    os._exit(0)\n   kids.append(p)\n return 2 * x";
    let evaluated = bench.run(&function("int64 -> int64", source), &numbers(0..3)).await.unwrap();
    assert_eq!(int64s(&evaluated), doubled_but(3, &[1]));
    assert_eq!(failed(&evaluated), [(1, "BlockingIOError")]);
}

#[tokio::test]
async fn a_dropped_call_kills_its_worker_and_nothing_else() {
    let bench = Bench::new(false);
    let definition =
        function("int64 -> int64", "import time\ndef f(x):\n time.sleep(600 if x == 9 else 0)\n return 2 * x");
    let mut executor = bench.executor(&definition).await;
    let hanging = numbers([9]);
    assert!(tokio::time::timeout(Duration::from_secs(1), executor.evaluate(&hanging)).await.is_err());
    assert_eq!(int64s(&executor.evaluate(&numbers(0..3)).await.unwrap()), doubled_but(3, &[]));
    assert_eq!(executor.counts().1, 2);
}

#[tokio::test]
async fn types_outside_the_declared_one_fail_the_row_alone() {
    let definition = function("int64 -> utf8", "def f(x): return str(x) if x else b'\\xff'");
    let evaluated = Bench::new(true).run(&definition, &numbers(0..3)).await.unwrap();
    assert_eq!(evaluated.values.data_type(), &DataType::Utf8);
    assert_eq!(evaluated.values.as_string::<i32>().value(2), "2");
}
