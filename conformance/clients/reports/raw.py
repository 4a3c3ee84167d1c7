"""Messages of protocol 3 one by one: what is sent is written here, what comes back is kept by its letter."""

import base64
import hashlib
import hmac
import os
import socket
import struct

from conformance import DATABASE, HOST, PASSWORD, PORT, USER


class Raw:
    """A connection, logged in with SCRAM-SHA-256 or whatever weaker the server asks for."""

    def __init__(self, protocol=3 << 16):
        self.socket = socket.create_connection((HOST, int(PORT)), 20)
        self.kinds, self.rows, self.error, self.status, self.parameters = [], [], {}, "", {}
        self.description = self.types = b""
        body = struct.pack(">i", protocol) + b"".join(text.encode() + b"\0" for text in ("user", USER, "database", DATABASE)) + b"\0"
        self.socket.sendall(struct.pack(">i", len(body) + 4) + body)
        self.log_in()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def exactly(self, count):
        data = b""
        while len(data) < count:
            piece = self.socket.recv(count - len(data))
            if not piece:
                raise EOFError("the server closed the connection")
            data += piece
        return data

    def receive(self):
        kind = self.exactly(1).decode()
        return kind, self.exactly(struct.unpack(">i", self.exactly(4))[0] - 4)

    def log_in(self):
        while True:
            kind, body = self.receive()
            if kind == "R":
                self.authenticate(body)
            elif kind == "S":
                name, value = body.rstrip(b"\0").split(b"\0") if body.count(b"\0") == 2 and not body.endswith(b"\0\0") else (body.split(b"\0")[0], b"")
                self.parameters[name.decode()] = value.decode()
            elif kind == "K":
                self.process, self.key_length = struct.unpack(">i", body[:4])[0], len(body) - 4
                self.key = struct.unpack(">i", body[4:8])[0]
            elif kind == "E":
                raise ConnectionError(body)
            elif kind == "Z":
                return

    def authenticate(self, body):
        code = struct.unpack(">i", body[:4])[0]
        if code == 10:
            self.nonce = base64.b64encode(os.urandom(18)).decode()
            self.first = f"n=,r={self.nonce}"
            said = f"n,,{self.first}".encode()
            self.send(self.message("p", b"SCRAM-SHA-256\0" + struct.pack(">i", len(said)) + said))
        elif code == 11:
            server = body[4:].decode()
            fields = dict(part.split("=", 1) for part in server.split(","))
            salted = hashlib.pbkdf2_hmac("sha256", PASSWORD.encode(), base64.b64decode(fields["s"]), int(fields["i"]))
            key = hmac.digest(salted, b"Client Key", "sha256")
            final = f"c=biws,r={fields['r']}"
            signature = hmac.digest(hashlib.sha256(key).digest(), f"{self.first},{server},{final}".encode(), "sha256")
            proof = base64.b64encode(bytes(a ^ b for a, b in zip(key, signature))).decode()
            self.send(self.message("p", f"{final},p={proof}".encode()))
        elif code == 3:
            self.send(self.message("p", PASSWORD.encode() + b"\0"))

    def send(self, *messages):
        self.socket.sendall(b"".join(messages))

    def until_ready(self):
        """Returns the letters of all messages up to ReadyForQuery, without ParameterStatus and notices."""
        self.kinds = []
        while True:
            kind, body = self.receive()
            if kind in "SN":
                continue
            self.kinds.append(kind)
            if kind == "D":
                self.rows.append(self.fields(body))
            elif kind == "E":
                self.error = {part[:1].decode(): part[1:].decode() for part in body.split(b"\0") if part}
            elif kind == "T":
                self.description = body
            elif kind == "t":
                self.types = body
            elif kind == "Z":
                self.status = body.decode()
                return self.kinds

    def pending(self, seconds):
        """Returns what still comes within some time."""
        self.socket.settimeout(seconds)
        try:
            return self.socket.recv(1000)
        except TimeoutError:
            return b""
        finally:
            self.socket.settimeout(20)

    @staticmethod
    def fields(body):
        found, place = [], 2
        for _ in range(struct.unpack(">h", body[:2])[0]):
            length = struct.unpack(">i", body[place:place + 4])[0]
            place += 4
            found.append(None if length < 0 else body[place:place + length])
            place += max(length, 0)
        return found

    def parameter_types(self):
        count = struct.unpack(">h", self.types[:2])[0]
        return list(struct.unpack(f">{count}i", self.types[2:]))

    def formats(self):
        """The format codes of the columns of the last RowDescription."""
        found, rest = [], self.description[2:]
        while rest:
            rest = rest[rest.index(b"\0") + 1:]
            found.append(struct.unpack(">h", rest[16:18])[0])
            rest = rest[18:]
        return found

    @staticmethod
    def message(kind, body):
        return kind.encode() + struct.pack(">i", len(body) + 4) + body

    def query(self, sql):
        return self.message("Q", sql.encode() + b"\0")

    def parse(self, name, sql):
        return self.message("P", name.encode() + b"\0" + sql.encode() + b"\0\0\0")

    def bind(self, portal, statement, values, result_format=0):
        body = portal.encode() + b"\0" + statement.encode() + b"\0" + struct.pack(">hh", 0, len(values))
        body += b"".join(struct.pack(">i", len(value)) + value for value in values)
        return self.message("B", body + struct.pack(">hh", 1, result_format))

    def describe(self, kind, name):
        return self.message("D", kind.encode() + name.encode() + b"\0")

    def execute(self, portal, limit=0):
        return self.message("E", portal.encode() + b"\0" + struct.pack(">i", limit))

    def close(self, kind, name):
        return self.message("C", kind.encode() + name.encode() + b"\0")

    def sync(self):
        return self.message("S", b"")
