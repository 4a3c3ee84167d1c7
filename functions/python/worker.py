"""The Python side of a Function worker: one process, one instance, one caller.

Frames on a private socket: ``LGF1``, kind, header bytes, body bytes (little
endian), then the header (JSON) and the body (an Arrow IPC stream). Standard
output and error belong to the Function. What is sent from here is checked on
the other side as if an enemy had written it.
"""

import os
import sys

# Nothing but the standard streams and the socket goes on from here.
_FD = int(sys.argv[1])
os.closerange(3, _FD)
os.closerange(_FD + 1, 4096)
os.set_inheritable(_FD, False)
os.register_at_fork(after_in_child=lambda: os.close(_FD))

import base64
import importlib.machinery
import inspect
import itertools
import json
import linecache
import socket
import struct
import tempfile
import threading
import time
import traceback
import types

import pyarrow as pa

HEAD = struct.Struct("<4sIIQ")
INITIALIZE, INITIALIZED, CALL, RESULT, FAILED, HEARTBEAT, PROGRESS, SHUTDOWN, HELLO = range(1, 10)
MESSAGE_CHARS_MAX = 1000
# What a worker keeps between two calls at most, so that their bytes need no new memory.
KEPT_BYTES_MAX = 16 << 20

_socket = socket.socket(fileno=_FD)
_lock = threading.Lock()


def send(kind, header, body=b""):
    head = json.dumps(header).encode()
    with _lock:
        _socket.sendall(HEAD.pack(b"LGF1", kind, len(head), len(body)) + head)
        if len(body):
            _socket.sendall(body)


class Room:
    """Memory for the bytes of one call after the other. It is not cleared, because it is written before it is read."""

    def __init__(self):
        self.kept = pa.allocate_buffer(0)

    def take(self, count):
        if count <= self.kept.size:
            return self.kept
        buffer = pa.allocate_buffer(count)
        if count <= KEPT_BYTES_MAX:
            self.kept = buffer
        return buffer


def receive_exactly(count, buffer=None):
    buffer = bytearray(count) if buffer is None else buffer
    view = memoryview(buffer)[:count]
    while count:
        got = _socket.recv_into(view, count)
        if not got:
            raise EOFError
        view = view[got:]
        count -= got
    return buffer


def receive(room=None):
    """Returns the next frame. With a room its body is there until the next one comes."""
    magic, kind, head, body = HEAD.unpack(receive_exactly(HEAD.size))
    header = json.loads(receive_exactly(head))
    buffer = pa.allocate_buffer(body) if room is None else room.take(body)
    return kind, header, receive_exactly(body, buffer).slice(0, body)


def message_of(error):
    try:
        text = str(error)
    except Exception:
        text = "<the exception has no text>"
    return text if len(text) <= MESSAGE_CHARS_MAX else text[:MESSAGE_CHARS_MAX] + " …"


_own_files = {"<function>"}


def described(error):
    # Walked by hand: extract_tb looks up the text of every line, which many failing rows would pay for.
    where, tb = "", error.__traceback__
    while tb is not None:
        code = tb.tb_frame.f_code
        if code.co_filename in _own_files:
            where = f"line {tb.tb_lineno} in {code.co_name}"
            where += "" if code.co_filename == "<function>" else f" of {code.co_filename}"
        tb = tb.tb_next
    return {"type": type(error).__name__[:200], "message": message_of(error), "where": where[:300]}


class Contract(Exception):
    """The Function broke its declaration: a type or a number of rows."""


class Running:
    """What the watcher tells the other side about a call of single rows."""

    def __init__(self):
        self.call = None
        self.values = ()
        self.active = threading.Event()

    def watch(self, interval):
        while True:
            self.active.wait()
            time.sleep(interval)
            call, values = self.call, self.values
            if call is not None:
                send(PROGRESS, {"id": call, "row": len(values)})


_running = Running()
_heartbeat_at = 0.0


def heartbeat():
    """Reports that the Function is alive. It does not extend a deadline."""
    global _heartbeat_at
    now = time.monotonic()
    if now - _heartbeat_at >= 0.1:
        _heartbeat_at = now
        send(HEARTBEAT, {})


def link(models):
    """Shows each snapshot by its name in the hub cache of an HF_HOME that this process alone has."""
    home = os.environ["HF_HOME"] = tempfile.mkdtemp(prefix="huggingface-")
    cache = os.path.join(home, "hub")
    os.mkdir(cache)
    for model in models:
        os.symlink(model["path"], os.path.join(cache, model["name"]))


def remember(file, source):
    """Lets tracebacks show lines of a source that is in no file."""
    _own_files.add(file)
    linecache.cache[file] = (len(source), None, source.splitlines(True), file)


class Bundle:
    """Imports the modules that came with the Function, by their paths."""

    def __init__(self, files):
        self.files = files

    def find_spec(self, name, path=None, target=None):
        place = name.replace(".", "/")
        for file, package in ((f"{place}/__init__.py", True), (f"{place}.py", False)):
            if file in self.files:
                return importlib.machinery.ModuleSpec(name, self, origin=file, is_package=package)
        return None

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        file = module.__file__ = module.__spec__.origin
        source = self.files[file]
        remember(file, source)
        exec(compile(source, file, "exec", dont_inherit=True), module.__dict__)


def constants(target, encoded):
    """What a class is called with. A NULL takes the default of its parameter, if it has one."""
    if not encoded:
        return {}
    row = pa.ipc.open_stream(base64.b64decode(encoded)).read_all().to_pylist()[0]
    parameters = inspect.signature(target).parameters.values()
    defaults = {p.name for p in parameters if p.default is not p.empty}
    return {name: value for name, value in row.items() if value is not None or name not in defaults}


def load(spec):
    if spec.get("models"):
        link(spec["models"])
    if spec.get("files"):
        sys.meta_path.insert(0, Bundle(spec["files"]))
    progress = types.ModuleType("lance_progress")
    progress.heartbeat = heartbeat
    sys.modules["lance_progress"] = progress
    module = types.ModuleType("lancegate_function")
    sys.modules[module.__name__] = module
    source = spec["source"]
    remember("<function>", source)
    exec(compile(source, "<function>", "exec", dont_inherit=True), module.__dict__)
    name = spec["entrypoint"]
    target = getattr(module, name, None)
    if target is None:
        own = [v for v in vars(module).values() if callable(v) and getattr(v, "__module__", None) == module.__name__]
        if len(own) != 1:
            raise Contract(f'the source defines no callable "{name}"')
        target = own[0]
    if inspect.isclass(target):
        target = target(**constants(target, spec.get("initialization")))
        if callable(getattr(target, "setup", None)):
            target.setup()
    if not callable(target):
        raise Contract(f'"{name}" is not callable')
    if inspect.iscoroutinefunction(target):
        raise Contract(f'"{name}" is a coroutine function; Functions are called and return their value')
    return target


class Function:
    def __init__(self, spec):
        output = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(spec["output_schema"])))
        self.schema = output
        self.type = output.field(0).type
        self.names = [f.name for f in self.type] if pa.types.is_struct(self.type) else None
        self.nested = pa.types.is_nested(self.type)
        self.vectorized = spec["mode"] in ("vectorized", "record_batch")
        self.whole = spec["mode"] == "record_batch"
        # Rows are copied into objects of Python before the Function sees them; a batch is its to keep.
        self.arriving = None if self.vectorized else Room()
        self.leaving = Room()
        self.call = load(spec)

    def run(self, call, batch):
        return self.batch(batch) if self.vectorized else self.rows(call, batch)

    def encoded(self, array):
        """Returns a stream of one batch; its bytes are good until the next call."""
        batch = pa.record_batch([array], schema=self.schema)
        around = self.schema.serialize().size + 64
        buffer = self.leaving.take(around + pa.ipc.get_record_batch_size(batch))
        sink = pa.FixedSizeBufferWriter(buffer)
        with pa.ipc.new_stream(sink, self.schema) as writer:
            writer.write_batch(batch)
        return memoryview(buffer)[: sink.tell()]

    def rows(self, call, batch):
        count, function = batch.num_rows, self.call
        columns = [column.to_pylist() for column in batch.columns]
        rows = zip(*columns) if columns else iter([()] * count)
        values, errors = [], []
        running = _running
        running.values, running.call = values, call
        running.active.set()
        try:
            # No line of Python between two calls. What raises has taken its row; the values before it are in the list.
            while len(values) < count:
                try:
                    values.extend(itertools.starmap(function, rows))
                    if len(values) < count:
                        raise RuntimeError("the Function raised StopIteration")
                except BaseException as error:
                    errors.append({"row": len(values), **described(error)})
                    values.append(None)
        finally:
            running.call = None
            running.active.clear()
        if self.names:
            values = [self.named(value) for value in values]
        try:
            array = pa.array(values, type=self.type)
            if isinstance(array, pa.ChunkedArray):
                array = array.combine_chunks()
            if self.nested:
                # NULL where an item must not be; the rest is what Arrow has made itself, and is checked on the other side.
                array.validate(full=True)
        except Exception:
            array = self.convert_each(values, errors)
        return array, sorted(errors, key=lambda e: e["row"])

    def named(self, value):
        if isinstance(value, (tuple, list)) and len(value) == len(self.names):
            return dict(zip(self.names, value))
        return value

    def convert_each(self, values, errors):
        """One value of the wrong type fails its row and no other."""
        good = []
        for index, value in enumerate(values):
            try:
                one = pa.array([value], type=self.type)
                one.validate(full=True)
                good.append(one)
            except Exception as error:
                errors.append({"row": index, **described(error)})
                good.append(pa.nulls(1, self.type))
        return pa.concat_arrays(good) if good else pa.nulls(0, self.type)

    def batch(self, batch):
        result = self.call(batch) if self.whole else self.call(*batch.columns)
        array = self.as_array(result)
        if len(array) != batch.num_rows:
            raise Contract(f"the Function returned {len(array)} rows for {batch.num_rows}")
        return array, []

    def as_array(self, result):
        if isinstance(result, (pa.Table, pa.RecordBatch)):
            result = {name: result.column(name) for name in result.schema.names}
        if self.names and isinstance(result, (dict, tuple)):
            if isinstance(result, tuple):
                result = dict(zip(self.names, result))
            missing = [name for name in self.names if name not in result]
            if missing:
                raise Contract(f'the Function returned no output "{missing[0]}"')
            fields = list(self.type)
            return pa.StructArray.from_arrays([self.one(result[f.name], f.type) for f in fields], fields=fields)
        return self.one(result, self.type)

    def one(self, result, kind):
        try:
            if isinstance(result, pa.ChunkedArray):
                result = result.combine_chunks()
            if isinstance(result, pa.Array):
                return result if result.type.equals(kind) else result.cast(kind)
            array = pa.array(result, type=kind)
            return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
        except (pa.ArrowException, TypeError, ValueError) as error:
            raise Contract(f"the Function returned a value that is no {kind}: {message_of(error)}") from error


def serve():
    send(HELLO, {"python": sys.version.split()[0], "pyarrow": pa.__version__})
    kind, spec, _ = receive()
    if kind != INITIALIZE:
        return 2
    try:
        function = Function(spec)
    except BaseException as error:
        traceback.print_exc()
        send(FAILED, {"stage": "init", **described(error)})
        return 1
    if not function.vectorized:
        threading.Thread(target=_running.watch, args=(spec["progress_secs"],), daemon=True).start()
    send(INITIALIZED, {})
    while True:
        kind, header, body = receive(function.arriving)
        if kind != CALL:
            return 0
        call = header["id"]
        try:
            batch = pa.ipc.open_stream(body).read_next_batch()
            array, errors = function.run(call, batch)
            body = function.encoded(array)
        except BaseException as error:
            stage = "contract" if isinstance(error, Contract) else "call"
            send(FAILED, {"stage": stage, "id": call, **described(error)})
            continue
        send(RESULT, {"id": call, "errors": errors}, body)


try:
    code = serve()
except (EOFError, ConnectionError, BrokenPipeError):
    code = 0
sys.stdout.flush()
sys.stderr.flush()
os._exit(code)
