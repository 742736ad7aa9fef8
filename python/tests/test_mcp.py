"""The official client of the Model Context Protocol drives mneme-mcp."""

import asyncio
import json
import os
import shutil
import subprocess
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from conftest import DEVICE, ROOT, compiled

mcp = pytest.importorskip("mcp")

EXAMPLE = ROOT / "examples" / "openevolve"
KERNEL = "__global__ void matmul(const int *a, const int *b, int *c, int n) {"
LOOP = """    c[row * n + column] = 0;
    for (int k = 0; k < n; ++k)
        atomicAdd(&c[row * n + column], a[row * n + k] * b[k * n + column]);"""
SUM = """    int sum = 0;
    for (int k = 0; k < n; ++k)
        sum += a[row * n + k] * b[k * n + column];
    c[row * n + column] = sum;"""


def block(replace: str) -> str:
    return f"<<<<<<< SEARCH\n{LOOP}\n=======\n{replace}\n>>>>>>> REPLACE\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a program and its source."""
    folder = tmp_path_factory.mktemp("allowed")
    shutil.copy(EXAMPLE / "matmul.cu", folder)
    compiled(folder, "matmul", EXAMPLE, "-gline-tables-only")
    return folder


@pytest.fixture(scope="module")
def recorded(folder: Path) -> Path:
    recording = folder / "earlier"
    command = ["mneme", "record", "-rdb", str(recording), "--device", DEVICE, "--", str(folder / "matmul")]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return recording


os.environ["MNEME_MCP_TEST"] = str(os.getpid())
MARK = f"MNEME_MCP_TEST={os.getpid()}".encode()


def environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name.startswith(("MNEME_", "PATH", "CUDA_"))}


@asynccontextmanager
async def connected(*folders: Path, mode: str = "auto") -> AsyncIterator[Any]:
    arguments = [word for folder in folders for word in ("--allow", str(folder))]
    server = mcp.StdioServerParameters(command="mneme-mcp", args=arguments, env=environment())
    async with mcp.Client(server, mode=mode) as client:
        # The client checks results against the schemas in the list.
        await client.list_tools()
        yield client


async def call(client: Any, tool: str, **arguments: Any) -> dict[str, Any]:
    """The answer of a call that has to succeed, after its job has ended."""
    answer = await client.call_tool(tool, arguments)
    while not answer.is_error and answer.structured_content["state"] == "running":
        answer = await client.call_tool("job", {"action": "poll", "job": answer.structured_content["job"], "wait": 60})
    assert not answer.is_error, answer.content
    found: dict[str, Any] = answer.structured_content
    assert found["state"] == "done" and json.loads(answer.content[0].text) == found
    return found


async def refused(client: Any, tool: str, **arguments: Any) -> str:
    answer = await client.call_tool(tool, arguments)
    assert answer.is_error, answer
    text: str = answer.content[0].text
    assert len(text) < 1200 and ";" in text, text
    return text


SLEEP = f"sleep {os.getpid()}.25"
"""A process that has left everything of its job but its parent, or not even that."""


def processes() -> list[str]:
    """Processes of jobs, by a variable that they inherit, or by their command."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_text().replace("\0", " ") if entry.name.isdigit() else ""
            is_server = words.startswith("mneme-mcp --allow")
            if words.strip() == SLEEP or (words and MARK in (entry / "environ").read_bytes() and not is_server):
                found.append(words)
        except OSError:
            pass
    return found


def none_is_left(seconds: float) -> bool:
    end = time.monotonic() + seconds
    while processes() and time.monotonic() < end:
        time.sleep(0.05)
    return not processes()


def test_an_assistant_records_judges_and_tunes(folder: Path) -> None:
    async def session() -> None:
        async with connected(folder) as client:
            tools = (await client.list_tools()).tools
            assert len(tools) <= 12 and all(tool.output_schema and tool.annotations for tool in tools)
            assert sum(len(tool.model_dump_json(by_alias=True, exclude_none=True)) for tool in tools) < 10_000

            found = await call(client, "record", application=["./matmul"], device=DEVICE, kernels="matmul")
            assert found["result"]["exit_status"] == 0 and "c[1]" in found["output"]
            assert [kernel["instances"] for kernel in found["result"]["kernels"]] == [1]
            listed = (await call(client, "list_kernels"))["result"]["kernels"]
            assert "matmul" in listed[0]["kernel"] and (folder / "recording").is_dir()

            shown = await call(client, "show_kernel", code=True, device=DEVICE)
            assert len(shown["result"]["kernels"][0]["instances"][0]["arguments"]) == 4
            kernel = (EXAMPLE / "matmul.cu").read_text().splitlines().index(KERNEL) + 1
            assert shown["result"]["source"].endswith(f"matmul.cu:{kernel}")
            uri = next(uri for uri in shown["files"] if uri.endswith("/before.ll"))
            part = (await client.read_resource(f"{uri}?limit=100")).contents[0]
            assert len(part.text) == 100 and part.meta["next_offset"] == 100 < part.meta["size"]
            rest = (await client.read_resource(f"{uri}?offset=100&limit=262144")).contents[0]
            assert "define" in part.text + rest.text

            candidates = [
                {"id": "sum", "blocks": block(SUM)},
                {"id": "wrong", "blocks": block(SUM.replace("k < n", "k < n - 1"))},
                {"id": "broken", "blocks": block("    sum = 1;")},
            ]
            judged = await call(
                client,
                "evaluate",
                candidates=candidates,
                source_base="matmul.cu",
                confirm_time=4,
                device=DEVICE,
            )
            verdicts = {verdict["id"]: verdict for verdict in judged["result"]["verdicts"]}
            assert [verdicts[name]["verdict"] for name in ("sum", "wrong", "broken")] == [
                "faster",
                "incorrect",
                "invalid",
            ], verdicts
            assert verdicts["wrong"]["first_wrong"] and "line" in verdicts["broken"]["compiler"]

            checked = await call(client, "check", code=verdicts["sum"]["code"], device=DEVICE)
            assert checked["result"]["has_faults"] is False

            fault = "default<O1>,function(mneme-fault<lost-store>),default<O3>"
            cause = await call(client, "bisect", pipeline=fault, device=DEVICE)
            assert cause["result"]["verdict"] == "ir_pass" and "mneme-fault" in cause["result"]["summary"]
            assert any(uri.endswith("/pass.diff") for uri in cause["files"])

            tune = {"space": "launch", "sampler": "random", "trials": 3, "confirm_time": 2, "device": DEVICE}
            tuned = [await call(client, "tune", seed=seed, **tune) for seed in (1, 2)]
            assert all(found["result"]["summary"]["status"] == "completed" for found in tuned)
            assert (folder / tuned[0]["folder"] / "best.json").is_file()
            compared = await call(client, "compare", one=tuned[0]["folder"], other=tuned[1]["folder"])
            assert any(row["what"] == "speedup" for row in compared["result"]["rows"])
            report = await call(client, "report", results=tuned[0]["folder"])
            assert {uri.rsplit("/", 1)[1] for uri in report["files"]} >= {"report.html", "trials.csv"}
            assert len((await client.list_resources()).resources) > 10
            jobs = (await client.call_tool("job", {"action": "list"})).structured_content["jobs"]
            assert all(job["state"] == "done" for job in jobs)

    asyncio.run(session())


LONG = {"recording": "earlier", "space": "full", "sampler": "random", "trials": 100_000, "device": DEVICE}


async def running(client: Any, folder: Path) -> str:
    """Starts a session that takes long."""
    answer = (await client.call_tool("tune", {**LONG, "wait": 0})).structured_content
    assert answer["state"] == "running"
    trials = folder / answer["folder"] / "trials.jsonl"
    while not trials.exists() or not trials.read_text():
        await asyncio.sleep(0.05)
    job: str = answer["job"]
    return job


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_cancelled_jobs_leave_no_process(folder: Path, recorded: Path, mode: str) -> None:
    async def session() -> None:
        async with connected(folder, mode=mode) as client:
            assert client.protocol_version == ("2026-07-28" if mode == "auto" else "2025-11-25")
            job = await running(client, folder)
            assert len(processes()) >= 3
            start = time.monotonic()
            answer = await client.call_tool("job", {"action": "cancel", "job": job})
            assert answer.structured_content["state"] == "cancelled" and not processes(), processes()
            assert time.monotonic() - start < 2
            summary = json.loads((folder / answer.structured_content["folder"] / "summary.json").read_text())
            assert summary["status"] == "interrupted"
            assert "cancelled" in await refused(client, "job", action="poll", job=job)
            if mode == "legacy":
                # Without waiting, and by leaving.
                await running(client, folder)

    asyncio.run(session())
    assert none_is_left(5), processes()


def test_a_cancelled_request_ends_its_job(folder: Path, recorded: Path) -> None:
    async def session() -> None:
        async with connected(folder) as client:
            task = asyncio.create_task(client.call_tool("tune", {**LONG, "wait": 600}))
            while len(processes()) < 3:
                await asyncio.sleep(0.05)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            end = time.monotonic() + 2
            while processes() and time.monotonic() < end:
                await asyncio.sleep(0.05)
            assert not processes(), processes()

    asyncio.run(session())


def test_a_cancelled_poll_leaves_its_job(folder: Path, recorded: Path) -> None:
    async def session() -> None:
        async with connected(folder) as client:
            job = await running(client, folder)
            task = asyncio.create_task(client.call_tool("job", {"action": "poll", "job": job, "wait": 60}))
            await asyncio.sleep(0.5)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await asyncio.sleep(0.5)
            jobs = (await client.call_tool("job", {"action": "list"})).structured_content["jobs"]
            assert [it["state"] for it in jobs if it["job"] == job] == ["running"]
            await client.call_tool("job", {"action": "cancel", "job": job})

    asyncio.run(session())


def script(folder: Path, name: str, end: str) -> None:
    """A program that leaves a process in a session and with an environment of its own."""
    path = folder / name
    path.write_text(f"#!/bin/sh\nenv -i setsid {SLEEP} </dev/null >/dev/null 2>&1 &\n{end}\n")
    path.chmod(0o755)


def test_processes_that_leave_their_session_end_too(folder: Path) -> None:
    script(folder, "background.sh", "sleep 0.3; exec ./matmul")

    async def session() -> None:
        async with connected(folder) as client:
            found = await call(client, "record", application=["./background.sh"], recording="other", device=DEVICE)
            assert found["result"]["exit_status"] == 0 and not processes(), processes()

    asyncio.run(session())


def test_one_bad_candidate_leaves_the_verdicts_of_the_others(folder: Path, recorded: Path) -> None:
    async def session() -> None:
        async with connected(folder) as client:
            same = [{"id": "a", "source": "x"}, {"id": "a", "source": "y"}]
            assert "several" in await refused(client, "evaluate", recording="earlier", candidates=same)
            options = [{"id": "a", "source": "x"}, {"id": "b", "ir": "", "ptx": ""}]
            judged = await call(client, "evaluate", recording="earlier", candidates=options, device=DEVICE)
            assert {it["id"]: it["verdict"] for it in judged["result"]["verdicts"]} == {"a": "invalid", "b": "invalid"}

    asyncio.run(session())


def test_nothing_outside_the_folders_is_touched(folder: Path, recorded: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    shutil.copy(EXAMPLE / "matmul.cu", outside)
    (folder / "link").symlink_to(outside)
    linked = folder / "linked"
    shutil.copytree(recorded, linked)
    (linked / "extra").symlink_to(outside / "matmul.cu")

    async def session() -> None:
        async with connected(folder) as client:
            for path in ("..", "../outside", "link", "link/matmul.cu", str(outside), "/etc", "/nonesuch", "earlier/.."):
                assert "outside" in await refused(client, "list_kernels", recording=path), path
                assert "outside" in await refused(client, "report", results=path)
                assert "outside" in await refused(client, "record", application=["./matmul"], recording=path + "/new")
                assert "outside" in await refused(client, "evaluate", recording="earlier", files=[path], device=DEVICE)
            assert "link" in await refused(client, "list_kernels", recording="linked")
            for program in ("/bin/sh", "link/matmul.cu", "../sh", "matmul.cu", "sh"):
                await refused(client, "record", application=[program])
            for recording in ("mneme-mcp", "mneme-mcp/rec", "mneme-mcp/tune-9"):
                assert "results" in await refused(client, "record", application=["./matmul"], recording=recording)
            shutil.copytree(recorded, folder / "mneme-mcp" / "rec", dirs_exist_ok=True)
            name = next(it.name for it in recorded.iterdir() if it.name.startswith("DeviceState"))
            with pytest.raises(mcp.MCPError):
                await client.read_resource(f"mneme:///rec/{name}")
            include = {"id": "a", "source": '#include "/etc/passwd"\n'}
            judged = await call(client, "evaluate", recording="earlier", candidates=[include], device=DEVICE)
            assert judged["result"]["verdicts"][0]["verdict"] == "invalid"
            assert "root:" not in json.dumps(judged)
            load = {"id": "a", "config": {"llvm_options": ["-load=/tmp/evil.so"]}}
            await refused(client, "evaluate", recording="earlier", candidates=[load])
            await refused(client, "bisect", recording="earlier", pipeline="print</etc/x>")
            large = {"id": "a", "source": "x" * (3 << 20)}
            assert "exceeds" in await refused(client, "evaluate", recording="earlier", candidates=[large])
            for wrong in ({"space": "huge"}, {"trials": -1}, {"results_dir": "x"}, {"wait": 1e9}, {"kernel": 7}):
                await refused(client, "tune", recording="earlier", **wrong)
            # No value is taken for an option.
            await refused(client, "list_kernels", recording="earlier", instance="--help")
            await refused(client, "job", action="poll", job="../tune-1")
            for uri in (
                "mneme:///../matmul.cu",
                "mneme:///../../etc/passwd",
                "mneme:////etc/passwd",
                "file:///etc/passwd",
                "mneme:///record-1/..%2f..%2fmatmul.cu",
            ):
                with pytest.raises(mcp.MCPError):
                    await client.read_resource(uri)

    asyncio.run(session())
    assert sorted(it.name for it in outside.iterdir()) == ["matmul.cu"]


def test_malformed_lines_do_not_end_the_server(folder: Path, recorded: Path) -> None:
    """Lines are written by hand, also those of a client with the tasks extension."""
    server = subprocess.Popen(
        ["mneme-mcp", "--allow", str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert server.stdin and server.stdout
    stdin, stdout = server.stdin, server.stdout

    def ask(number: int, method: str, **params: Any) -> dict[str, Any]:
        stdin.write(json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}) + "\n")
        stdin.flush()
        while True:
            answer: dict[str, Any] = json.loads(stdout.readline())
            if answer.get("id") == number:
                return answer

    stdin.write("{no JSON\n\n")
    tasks: dict[str, Any] = {"extensions": {"io.modelcontextprotocol/tasks": {}}}
    about = {"capabilities": tasks, "clientInfo": {"name": "test", "version": "1"}}
    assert ask(1, "initialize", protocolVersion="2025-11-25", **about)["result"]["serverInfo"]["name"] == "mneme-mcp"
    stdin.write('{"jsonrpc": "2.0", "method": "notifications/initialized"}\n')
    for line in ("\x00\x01", "[]", "[" * 100_000, '{"jsonrpc": "2.0"}', '{"id": {}, "method": 7}', "null", "{" * 50):
        stdin.write(line + "\n")
    stdin.write("x" * (9 << 20) + "\n")
    assert ask(2, "tools/call", name="nonesuch", arguments={})["error"]["code"] == -32602
    assert ask(3, "tools/call", arguments=[])["error"]["code"] == -32602
    assert ask(4, "nonesuch")["error"]["code"] == -32601
    assert ask(5, "tools/call", name="list_kernels", arguments={"wait": 30, "recording": "earlier"})["result"]

    task = ask(6, "tools/call", name="tune", arguments=LONG)["result"]
    assert task["status"] == "working" and ask(7, "tasks/get", taskId=task["taskId"])["result"]["status"] == "working"
    assert "result" in ask(8, "tasks/cancel", taskId=task["taskId"])
    end = time.monotonic() + 3
    while (state := ask(9, "tasks/get", taskId=task["taskId"])["result"]["status"]) != "cancelled":
        assert time.monotonic() < end, state
        time.sleep(0.05)
    assert not processes(), processes()
    task = ask(10, "tools/call", name="list_kernels", arguments={"recording": "earlier"})["result"]
    while (done := ask(11, "tasks/get", taskId=task["taskId"])["result"])["status"] == "working":
        time.sleep(0.02)
    assert done["result"]["structuredContent"]["state"] == "done"
    stdin.close()
    assert server.wait(10) == 0


@pytest.mark.parametrize("tool", ["tune", "record"])
def test_processes_end_with_a_killed_server(folder: Path, recorded: Path, tool: str) -> None:
    script(folder, "sleeper.sh", SLEEP)
    arguments = LONG if tool == "tune" else {"application": ["./sleeper.sh"], "recording": "another", "device": DEVICE}
    server = subprocess.Popen(
        ["mneme-mcp", "--allow", str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert server.stdin and server.stdout
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    lines = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": tool, "arguments": arguments}},
    ]
    server.stdin.write("".join(json.dumps(line) + "\n" for line in lines))
    server.stdin.flush()
    end = time.monotonic() + 30
    while len(processes()) < 4 or (tool == "record" and processes().count(SLEEP + " ") < 2):
        assert time.monotonic() < end, processes()
        time.sleep(0.05)
    server.kill()
    server.wait()
    assert none_is_left(2), processes()
