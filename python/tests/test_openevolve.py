"""Unmodified OpenEvolve searches on a recording, with a model that answers from a list."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Union

import pytest
from conftest import DEVICE, ROOT, compiled

EXAMPLE = ROOT / "examples" / "openevolve"

# Answers of a model: texts, or what goes wrong on the way.
Answer = Union[str, int, bytes]
TOO_MANY, CUT, MALFORMED = 429, b"cut", b"malformed"


def block(search: str, replace: str) -> str:
    return f"I change this:\n<<<<<<< SEARCH\n{search}\n=======\n{replace}\n>>>>>>> REPLACE\n"


LOOP = """    c[row * n + column] = 0;
    for (int k = 0; k < n; ++k)
        atomicAdd(&c[row * n + column], a[row * n + k] * b[k * n + column]);"""
SUM = """    int sum = 0;
    for (int k = 0; k < n; ++k)
        sum += a[row * n + k] * b[k * n + column];
    c[row * n + column] = sum;"""
ATOMICS = """        atomicExch(&out[column * n + row], 0);
        atomicAdd(&out[column * n + row], in[row * n + column]);"""
ANSWERS: dict[str, list[Answer]] = {
    "matmul": [
        TOO_MANY,
        block(LOOP, LOOP.replace("a[", "nothing * a[")),
        CUT,
        block(LOOP, LOOP.replace("k < n", "k < n - 1")),
        MALFORMED,
        "",
        "I would rather not.",
        block(LOOP, SUM),
    ],
    "transpose": [
        TOO_MANY,
        block(ATOMICS, ATOMICS.replace("0)", "1)")),
        "",
        MALFORMED,
        CUT,
        block(ATOMICS, "        out[column * n + row] = in[row * n + column];"),
    ],
}


@contextmanager
def model(answers: list[Answer]) -> Iterator[tuple[str, list[str]]]:
    """A server that speaks as OpenAI's does. The last answer is repeated. Gives its address and the prompts it got."""
    prompts: list[str] = []
    waiting = list(answers)
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            with lock:
                prompts.append(body.decode())
                answer = waiting.pop(0) if len(waiting) > 1 else waiting[0]
            message = {"role": "assistant", "content": answer if isinstance(answer, str) else ""}
            choice = {"index": 0, "finish_reason": "stop", "message": message}
            text = {"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
            line = b"{no JSON" if answer == MALFORMED else json.dumps(text).encode()
            self.send_response(answer if isinstance(answer, int) else 200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(line)))
            self.end_headers()
            self.wfile.write(line[: len(line) // 2] if answer == CUT else line)
            self.close_connection = answer == CUT

        def log_message(self, *arguments: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1", prompts
    finally:
        server.shutdown()


@pytest.mark.parametrize("name", ["matmul", "transpose"])
def test_openevolve_improves_a_naive_kernel(name: str, tmp_path: Path) -> None:
    pytest.importorskip("openevolve")
    program = compiled(tmp_path, name, EXAMPLE)
    recording = tmp_path / "recording"
    command = ["mneme", "record", "-rdb", str(recording), "--device", DEVICE, "--", str(program)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    output = tmp_path / "output"
    with model(ANSWERS[name]) as (address, prompts):
        config = (EXAMPLE / "config.yaml").read_text().replace("https://api.openai.com/v1", address)
        (tmp_path / "config.yaml").write_text(config.replace("llm:\n", "llm:\n  retries: 3\n  retry_delay: 0\n"))
        command = [sys.executable, "-m", "openevolve.cli", str(EXAMPLE / f"{name}.cu"), str(EXAMPLE / "evaluator.py")]
        command += ["--config", str(tmp_path / "config.yaml"), "--iterations", "8", "--output", str(output)]
        done = subprocess.run(
            command,
            env={**os.environ, "OPENAI_API_KEY": "none", "MNEME_RECORDING": str(recording), "no_proxy": "127.0.0.1"},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=600,
        )
    assert done.returncode == 0, done.stdout + done.stderr
    best = json.loads((output / "best" / "best_program_info.json").read_text())
    assert best["metrics"]["combined_score"] > 1.05, (best, done.stderr)
    # A prompt has the feedback on the program before it.
    assert any("as fast as the application" in prompt or "does not compile" in prompt for prompt in prompts)
