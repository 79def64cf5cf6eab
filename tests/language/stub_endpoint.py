"""A chat endpoint on this machine that answers from a script and remembers what it was asked."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def completion(text=None, *, tool_calls=None, finish_reason="stop"):
    message = {"role": "assistant", "content": text}
    if tool_calls:
        message["tool_calls"] = [
            {"id": f"c{i}", "type": "function", "function": {"name": name, "arguments": arguments}}
            for i, (name, arguments) in enumerate(tool_calls)
        ]
    return {
        "choices": [{"message": message, "finish_reason": finish_reason}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 3},
    }


def prompt_of(body):
    """Text of the last message of a request."""
    content = body["messages"][-1]["content"]
    return content if isinstance(content, str) else content[-1]["text"]


class StubEndpoint:
    """`script`: a list of steps taken in order (the last is repeated), or a function of the request's body.

    A step is a text, a completion's dict, or (status, headers, body); a callable step is called first.
    """

    def __init__(self, script: list | Callable):
        self.script, self.bodies, self.headers = script, [], []
        self._lock = threading.Lock()
        stub = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                status, headers, content = stub._step(self.path, dict(self.headers), body)
                try:
                    self.send_response(status)
                    for name, value in {**headers, "Content-Length": str(len(content))}.items():
                        self.send_header(name, value)
                    self.end_headers()
                    self.wfile.write(content)
                except (BrokenPipeError, ConnectionResetError):
                    pass  # the client no longer waits

            def log_message(self, *_):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._server.block_on_close = False
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})

    def _step(self, path, headers, body):
        with self._lock:
            self.bodies.append(body)
            self.headers.append(headers)
            place = len(self.bodies) - 1
        assert path == "/v1/chat/completions"
        step = self.script
        if isinstance(step, list):
            step = step[min(place, len(step) - 1)]
        if callable(step):
            step = step(body)
        if isinstance(step, str):
            step = completion(step)
        if isinstance(step, dict):
            step = (200, {}, step)
        status, sent, content = step
        return status, sent, content if isinstance(content, bytes) else json.dumps(content).encode()

    @property
    def prompts(self):
        return [prompt_of(body) for body in self.bodies]

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
