"""Looks at the source of a Function without running it: one process, one answer.

Compiles the source with the Python that would run it, finds what the entrypoint
names, and compares its parameters with those of the Function. Where Python
alone could tell (a decorator, a base class, a name that is imported), nothing
is refused here. Frames are those of worker.py; nothing but the standard library
is imported, so the answer comes at once.
"""

import ast
import json
import os
import socket
import struct
import sys

_FD = int(sys.argv[1])
os.closerange(3, _FD)
os.closerange(_FD + 1, 4096)

HEAD = struct.Struct("<4sIIQ")
INITIALIZE, INITIALIZED, FAILED, HELLO = 1, 2, 5, 9
DYNAMIC = {"globals", "locals", "vars", "exec", "eval", "setattr", "__import__"}
CALLABLES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
TEXT_CHARS_MAX = 200

_socket = socket.socket(fileno=_FD)


def send(kind, header):
    head = json.dumps(header).encode()
    _socket.sendall(HEAD.pack(b"LGF1", kind, len(head), 0) + head)


def receive_exactly(count):
    data = bytearray()
    while len(data) < count:
        got = _socket.recv(min(count - len(data), 1 << 20))
        if not got:
            raise EOFError
        data += got
    return bytes(data)


def receive():
    _, _, head, body = HEAD.unpack(receive_exactly(HEAD.size))
    header = json.loads(receive_exactly(head))
    receive_exactly(body)
    return header


class Rejected(Exception):
    """What is wrong, and on which line."""

    def __init__(self, message, line=None):
        super().__init__(message)
        self.line = line


class Names:
    """What the names of a module stand for, as far as its text tells."""

    def __init__(self, tree):
        self.bound = {}
        self.imported = {}
        self.dynamic = False
        for node in tree.body:
            self.visit(node)

    def visit(self, node):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            self.bound[node.name] = node
            # A function may make names of the module.
            self.dynamic |= any(isinstance(inner, ast.Global) for inner in ast.walk(node))
            return
        if isinstance(node, ast.Import):
            for alias in node.names:
                name = alias.asname or alias.name.split(".")[0]
                self.bound[name] = None
                self.imported[name] = alias.name if alias.asname else name
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                self.dynamic |= alias.name == "*"
                name = alias.asname or alias.name
                self.bound[name] = None
                self.imported[name] = f"{node.module}.{alias.name}"
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Lambda):
            for target in node.targets:
                if isinstance(target, ast.Name):
                    self.bound[target.id] = node.value
            return
        elif isinstance(node, ast.Name):
            if isinstance(node.ctx, ast.Store):
                self.bound[node.id] = None
            self.dynamic |= node.id in DYNAMIC
        elif isinstance(node, ast.Attribute):
            self.dynamic |= node.attr in ("modules", "__dict__")
        for child in ast.iter_child_nodes(node):
            self.visit(child)

    def dotted(self, node):
        """The full name that an annotation stands for; `None` if it is no name."""
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            try:
                node = ast.parse(node.value, mode="eval").body
            except SyntaxError:
                return None
        if isinstance(node, ast.Attribute):
            outer = self.dotted(node.value)
            return outer and f"{outer}.{node.attr}"
        return self.imported.get(node.id, node.id) if isinstance(node, ast.Name) else None


def entrypoint(names, name):
    """What is called; `None` if the text does not tell."""
    if name in names.bound:
        return names.bound[name]
    if names.dynamic:
        return None
    own = {known: node for known, node in names.bound.items() if isinstance(node, CALLABLES)}
    # As in a worker: the only one there is will be meant.
    if len(own) == 1:
        return next(iter(own.values()))
    known = f"; it defines {', '.join(sorted(own))}" if own else ""
    raise Rejected(f'the source defines no callable "{name}"{known}')


def counted(count, what):
    return f"{count} {what}{'' if count == 1 else 's'}"


def ensure_takes(node, label, arguments, given, what, implicit=0):
    """Whether a call with so many positional arguments fits."""
    places = len(arguments.posonlyargs) + len(arguments.args) - implicit
    required = places - len(arguments.defaults)
    needed = [a.arg for a, default in zip(arguments.kwonlyargs, arguments.kw_defaults) if default is None]
    if needed:
        raise Rejected(f'{label} needs the keyword argument "{needed[0]}", and Functions are called by position', node.lineno)
    if given < required or (given > places and arguments.vararg is None):
        takes = counted(places, "argument") if required == places else f"{required} to {places} arguments"
        raise Rejected(f"{label} takes {takes}, and the Function has {counted(given, what)}", node.lineno)


def method(definition, name):
    """A method of a class by its name; `None` if the class has none of its own."""
    found = [node for node in definition.body if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name == name]
    return found[-1] if found else None


def ensure_constructed(definition, fields):
    init = method(definition, "__init__")
    if definition.decorator_list or (init is not None and init.decorator_list):
        return
    if init is None:
        if fields and not definition.bases and not definition.keywords:
            raise Rejected(f"class {definition.name} has no __init__ that takes {fields[0]['name']}", definition.lineno)
        return
    arguments = init.args
    places = [a.arg for a in arguments.args[1:]] if not arguments.posonlyargs else [a.arg for a in arguments.args]
    defaults = len(arguments.defaults)
    required = set(places[: len(places) - defaults] if defaults else places)
    required |= {a.arg for a, default in zip(arguments.kwonlyargs, arguments.kw_defaults) if default is None}
    known = set(places) | {a.arg for a in arguments.kwonlyargs}
    named = {field["name"] for field in fields}
    missing = [name for name in places + [a.arg for a in arguments.kwonlyargs] if name in required - named]
    if missing:
        raise Rejected(
            f'{definition.name}.__init__ needs "{missing[0]}", which is no initialization field of the Function', init.lineno
        )
    unknown = [field["name"] for field in fields if field["name"] not in known]
    if unknown and arguments.kwarg is None:
        raise Rejected(f'{definition.name}.__init__ takes no "{unknown[0]}"', init.lineno)


def arrow_kind(name):
    """`Array` for the full name of pyarrow's. The SDK ships annotations without their imports: `pa` stands for pyarrow."""
    module, _, kind = (name or "").rpartition(".")
    return kind if module.split(".")[0] in ("pyarrow", "pa", "") else None


def style(names, arguments, implicit=0):
    """How the annotations of the parameters want to be called."""
    taken = (arguments.posonlyargs + arguments.args)[implicit:]
    kinds = {arrow_kind(names.dotted(a.annotation)) if a.annotation is not None else None for a in taken}
    if len(taken) == 1 and kinds == {"RecordBatch"}:
        return "record_batch"
    if kinds and kinds <= {"Array", "ChunkedArray"}:
        return "vectorized"
    return "scalar"


def check(spec):
    source = spec["source"]
    tree = ast.parse(source, "<function>")
    compile(source, "<function>", "exec", dont_inherit=True)
    for path, text in spec.get("files", {}).items():
        compile(text, path, "exec", dont_inherit=True)
    names = Names(tree)
    node = entrypoint(names, spec["entrypoint"])
    fields = spec.get("initialization", [])
    if node is None:
        return None
    definition, label, implicit = node, spec["entrypoint"], 0
    if isinstance(node, ast.ClassDef):
        ensure_constructed(node, fields)
        definition, label, implicit = method(node, "__call__"), f"{node.name}.__call__", 1
        if definition is None:
            if not (node.bases or node.keywords or node.decorator_list):
                raise Rejected(f"class {node.name} has no method __call__", node.lineno)
            return None
    elif fields:
        raise Rejected("initialization fields need a class, and the source defines a function", node.lineno)
    if isinstance(definition, ast.AsyncFunctionDef):
        raise Rejected(f"{label} is a coroutine function; Functions are called and return their value", definition.lineno)
    if getattr(definition, "decorator_list", None) or getattr(node, "decorator_list", None):
        return None
    annotated = style(names, definition.args, implicit)
    batch = annotated == "record_batch" and spec["mode"] in ("annotated", "record_batch")
    ensure_takes(definition, label, definition.args, 1 if batch else spec["parameters"], "parameter", implicit)
    return annotated


def main():
    send(HELLO, {})
    spec = receive()
    try:
        send(INITIALIZED, {"style": check(spec)})
    except Rejected as error:
        send(FAILED, {"stage": "definition", "type": "", "message": str(error), "line": error.line})
    except SyntaxError as error:
        text = (error.text or "").rstrip()[:TEXT_CHARS_MAX]
        where = "" if error.filename in (None, "<function>", "<unknown>") else error.filename
        send(
            FAILED,
            {
                "stage": "syntax",
                "type": type(error).__name__,
                "message": error.msg,
                "line": error.lineno,
                "text": text,
                "where": where,
            },
        )
    except (ValueError, RecursionError, MemoryError, OverflowError) as error:
        send(FAILED, {"stage": "syntax", "type": type(error).__name__, "message": str(error) or "it is nested too deeply"})


main()
os._exit(0)
