import json
from pathlib import Path

import pytest
from conftest import DEVICE, ELEMENTS, llvmlite_of_today

from mneme import AsyncReplayExecutor, RecordedExecution, RecordingError

numpy = pytest.importorskip("numpy")


def test_recorded_memory_is_what_the_program_computed(executor: AsyncReplayExecutor) -> None:
    before, after = executor.memory("prologue"), executor.memory("epilogue")
    assert [(each.address, each.size) for each in before] == [(each.address, each.size) for each in after]
    changed = [each.name for each, other in zip(before, after) if (each.array() != other.array()).any()]
    assert len(changed) == 1, "the kernel writes one buffer"
    whole = after[changed[0]]
    assert whole is after[whole.address] is after[hex(whole.address + whole.size - 1)]
    assert whole.array("int64").shape[0] >= ELEMENTS
    assert not whole.array().flags.writeable
    assert numpy.shares_memory(whole.array(), whole.array("int64")), "mapped, though in pieces"
    with pytest.raises(KeyError, match="0x10"):
        after["0x10"]
    with pytest.raises(KeyError, match="'nothing'"):
        after["nothing"]
    with pytest.raises(ValueError, match="'middle'"):
        executor.memory("middle")
    assert f"{whole.size} bytes at 0x{whole.address:x}" in repr(after)


def test_a_prologue_is_mapped_not_copied(executor: AsyncReplayExecutor) -> None:
    region = max(executor.memory("prologue"), key=lambda each: each.size)
    assert numpy.shares_memory(region.array(), region.array("int64")), "two views of one mapping"


def test_an_epilogue_in_pieces_is_mapped_too(tmp_path: Path) -> None:
    import mmap

    from mneme.mapping import PARTS, File

    page = mmap.PAGESIZE
    content = numpy.random.default_rng(1).integers(0, 256, 40 * page, dtype="uint8")
    path = tmp_path / "memory"
    content.tofile(path)
    parts = [(0, 7 * page, 2 * page), (2 * page, 0, page), (3 * page, 20 * page, 100)]
    size = 3 * page + 100
    expected = numpy.concatenate([content[offset : offset + length] for _, offset, length in parts])
    file = File(str(path))
    path.unlink()
    joined = file.join(parts, size)
    assert joined is not None
    assert joined.readonly
    assert numpy.array_equal(numpy.frombuffer(joined, "uint8"), expected)
    assert numpy.array_equal(numpy.frombuffer(file.copy(parts, size), "uint8"), expected)

    def mapped() -> int:
        return sum(
            "(deleted)" in line and path.name in line for line in Path("/proc/self/maps").read_text().splitlines()
        )

    before, array = mapped(), numpy.frombuffer(joined, "uint8")
    del joined
    assert numpy.array_equal(array, expected), "an array keeps the mapping"
    del array
    assert mapped() == before - len(parts)
    assert file.join([(0, 1, page), (page, 9 * page, 8)], page + 8) is None, "no page begins there"
    assert file.join([(at * page, 0, page) for at in range(PARTS + 1)], (PARTS + 1) * page) is None


def test_a_replay_leaves_what_was_recorded(executor: AsyncReplayExecutor) -> None:
    future = executor.submit({}, memory=True)
    assert future.result().verified
    assert executor.diff(future) == []


def test_the_memory_of_a_wrong_replay_shows_where_it_went_wrong(executor: AsyncReplayExecutor) -> None:
    llvmlite_of_today()
    from mneme.ir import parse, to_text

    wrong = to_text(parse(executor.ir())).replace(" add nsw i64", " sub nsw i64")
    future = executor.submit({}, ir=wrong, memory=True)
    assert future.result().status == "failed_verification"
    (found,) = executor.diff(future)
    indices, recorded, replayed = found.elements("int64")
    before = executor.memory("prologue")[found.recorded.address].array("int64")[indices]
    assert len(indices) > ELEMENTS // 2
    assert (recorded - before == before - replayed).all(), "what should have been added was subtracted"
    with pytest.raises(ValueError, match="memory=True"):
        executor.memory(executor.submit({}))


def test_an_instance_gives_its_memory_without_an_executor(recording: RecordedExecution) -> None:
    instance = next(iter(recording.values()))
    memory = instance.memory("prologue", ["--device", DEVICE])
    assert sum(region.size for region in memory) > 2 * 4 * ELEMENTS
    assert memory[0].array().sum() >= 0, "the mapping outlives the engine"


def test_an_instance_gives_its_ir_without_an_executor(recording: RecordedExecution) -> None:
    llvmlite_of_today()
    instance = next(iter(recording.values()))
    module = instance.ir(["--device", DEVICE])
    assert recording.kernel_name in [function.name for function in module.functions]


def test_memory_is_found_by_argument(
    executor: AsyncReplayExecutor, recording: RecordedExecution, record_id: str
) -> None:
    before, after, arguments = executor.memory("prologue"), executor.memory("epilogue"), recording[record_id].args
    written, read = (before[arguments[at]] for at in (0, 1))
    assert numpy.array_equal(after[arguments[1]].array(), read.array())
    sums = written.array("int64", ELEMENTS) + read.array("int64", ELEMENTS)
    assert numpy.array_equal(after[arguments[0]].array("int64", ELEMENTS), sums)


def test_databases_round_trip(database: Path, recording: RecordedExecution, tmp_path: Path) -> None:
    import json

    copy = tmp_path / database.name
    assert json.loads(recording.to_json(copy)) == json.loads(database.read_text())
    assert RecordedExecution.from_json(copy).kernel_name == recording.kernel_name
    assert "vecadd" in recording.kernel_name
    assert RecordedExecution.from_json(database.parent).static_hash == recording.static_hash
    assert list(recording.keys()) == list(recording)
    with pytest.raises(KeyError, match="no recorded instance 5"):
        recording["5"]


def test_instances_have_the_names_of_the_existing_mneme(
    database: Path, recording: RecordedExecution, record_id: str
) -> None:
    raw, instance = json.loads(database.read_text()), recording[record_id]
    assert (instance.static_hash, instance.dynamic_hash) == (str(raw["StaticHash"]), record_id)
    assert instance.kernel_name == raw["KernelName"]
    assert instance.prologue.fn == str(database.parent / raw["instances"][record_id]["Prologue"])
    assert Path(instance.epilogue.fn).exists()
    assert instance.specializations == recording.specializations == raw["Specializations"]
    assert instance.available_specializations == [at for at, may in enumerate(raw["Specializations"]) if may]
    assert recording.to_dict(database.parent) == raw
    assert instance.to_dict()["Prologue"] == instance.prologue.fn


def test_configurations_are_converted_for_proteus(
    recording: RecordedExecution, record_id: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from mneme.convert import convert_to_json, export_proteus_tuned_kernel

    instance = recording[record_id]
    config, file = instance.configuration(), tmp_path / "tuned.json"
    config.passes = "default<O1>"
    convert_to_json(str(file), recording, instance, config)
    tuned = json.loads(file.read_text())[instance.kernel_name]
    assert (tuned["Pipeline"], tuned["OptLevel"], tuned["LaunchBounds"]) == ("default<O1>", 1, False)
    assert "GridDim" not in tuned
    assert f"PROTEUS_TUNED_KERNELS={file}" in capsys.readouterr().out
    config.block.x //= 2
    export_proteus_tuned_kernel(file, recording, instance, config, usage_filename=tmp_path / "usage.txt")
    tuned = json.loads(file.read_text())[instance.kernel_name]
    assert tuned["BlockDim"] == config.block.to_dict()
    assert tuned["GridDim"] == instance.grid_dim.to_dict()
    assert 'annotate("jit"' in (tmp_path / "usage.txt").read_text()
    assert capsys.readouterr().out == ""


def test_the_program_is_a_function_too(database: Path, tmp_path: Path) -> None:
    from mneme.cli import main

    assert main(["copy", str(database), str(tmp_path / "copy")]) == 0
    assert RecordedExecution.from_json(tmp_path / "copy" / database.name).keys()
    assert main(["ls", str(tmp_path / "none")]) == 66


def test_bad_databases_are_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match=r"there is no recording database .*none\.json"):
        RecordedExecution.from_json(tmp_path / "none.json")
    with pytest.raises(RecordingError, match="holds no recorded kernel"):
        RecordedExecution.from_json(tmp_path)
    for text in ("{", "[]", '{"instances": {}}', '{"instances": 3}'):
        (tmp_path / "bad.json").write_text(text)
        with pytest.raises(RecordingError, match=r"bad\.json"):
            RecordedExecution.from_json(tmp_path / "bad.json")


def test_ir_can_be_read_changed_and_replayed(executor: AsyncReplayExecutor, recording: RecordedExecution) -> None:
    llvmlite_of_today()
    from mneme.ir import parse, to_text

    module = parse(executor.ir())
    kernel = module.get_function(recording.kernel_name)
    assert sum(1 for block in kernel.blocks for _ in block.instructions) > 5
    assert executor.evaluate({}, ir=module).verified
    text = to_text(module)
    assert " add nsw i" in text
    wrong = executor.evaluate({}, ir=text.replace(" add nsw i", " sub nsw i"))
    assert wrong.status in ("failed_verification", "runtime_error"), "the changed IR is what ran"
    assert executor.evaluate({}, ir=executor.ir()).verified


def test_frames(executor: AsyncReplayExecutor) -> None:
    from mneme import frames

    results = list(executor.map([{"passes": "default<O1>"}, {"passes": "default<O3>"}, {"passes": "nonsense"}]))
    pandas = pytest.importorskip("pandas")
    table = frames.to_pandas(results)
    assert isinstance(table, pandas.DataFrame)
    assert list(table["passes"]) == ["default<O1>", "default<O3>", "nonsense"]
    assert table["time"].notna().tolist() == [True, True, False]
    polars = pytest.importorskip("polars")
    assert isinstance(frames.to_polars(results), polars.DataFrame)


def test_plots(executor: AsyncReplayExecutor) -> None:
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    from mneme import plots

    results = list(executor.map([{"passes": "default<O1>"}, {"passes": "default<O3>"}]))
    assert plots.history(results).get_ylabel() == "time (µs)"
    assert plots.heat_map(results).get_xlabel() == "block.x"


def test_the_last_measurement_of_a_trial_is_read(tmp_path: Path) -> None:
    from mneme import frames

    def line(trial: int, time: int, **more: float) -> str:
        return json.dumps({"trial": trial, "metric": time, "result": {"verified": True, "exec_time": [time]}, **more})

    path = tmp_path / "trials.jsonl"
    path.write_text("\n".join([line(0, 9), line(1, 7), line(0, 5, repeated=9)]) + "\n")
    assert [result.exec_time for result in frames.read_results(path)] == [[5], [7]]
