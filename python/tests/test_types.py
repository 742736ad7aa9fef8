import json

import pytest

from mneme import ExperimentConfiguration, ExperimentResult, dim3


def recorded() -> ExperimentConfiguration:
    return ExperimentConfiguration.from_dict(
        {"grid": {"x": 40000, "y": 1, "z": 1}, "block": {"x": 256, "y": 1, "z": 1}}
    )


def test_the_baseline_prints_as_in_the_documentation_of_the_existing_mneme() -> None:
    assert json.dumps(recorded().to_dict()) == (
        '{"grid": {"x": 40000, "y": 1, "z": 1}, "block": {"x": 256, "y": 1, "z": 1}, "shared_mem": 0, '
        '"specialize": false, '
        '"set_launch_bounds": false, "max_threads": 1024, "min_blocks_per_sm": 1, "specialize_dims": false, '
        '"passes": "default<O3>", '
        '"codegen_opt": 3, "codegen_method": "serial", "prune": true, "internalize": true}'
    )


def test_fields_of_ours_show_and_count_only_where_they_are_set() -> None:
    changed = recorded()
    changed.maxnreg = 32
    assert changed.to_dict()["maxnreg"] == 32
    assert changed.hash() != recorded().hash()
    assert ExperimentConfiguration.from_dict(changed.to_dict()) == changed


def test_launch_bounds_that_do_not_apply_are_grounded() -> None:
    other = recorded()
    other.max_threads, other.min_blocks_per_sm, other.codegen_method = 512, 4, "rtc"
    assert other.hash() != recorded().hash()
    assert other.grounded().hash() == recorded().grounded().hash()
    assert other.max_threads == 512
    assert other.ground() is other
    assert (other.max_threads, other.min_blocks_per_sm) == (0, 0)
    other.set_launch_bounds, other.max_threads = True, 512
    assert other.hash() != recorded().hash()
    assert other.grounded() == other


def test_the_hash_is_that_of_the_existing_mneme() -> None:
    digest = ExperimentConfiguration().hash()
    assert digest == "afc197d35054b502a0e774177d5672d750becf2cf225be27b4fd2f7c4a959e0b"


def test_the_hash_of_the_normal_form_is_that_of_its_json() -> None:
    import hashlib

    data = recorded().ground().to_dict()
    del data["codegen_method"]
    assert (data["max_threads"], data["min_blocks_per_sm"]) == (0, 0)
    text = json.dumps(data, sort_keys=True, separators=(",", ":"))
    assert recorded().ground().hash() == hashlib.sha256(text.encode()).hexdigest()


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"block": {"x": 2048}}, "block.x"),
        ({"block": {"x": 64, "y": 32}}, "2048 threads"),
        ({"grid": {"x": 0}}, "grid.x"),
        ({"codegen_opt": 4}, "codegen_opt"),
        ({"set_launch_bounds": True, "max_threads": 128}, "max_threads"),
        ({"shared_mem": -1}, "shared_mem"),
    ],
)
def test_what_no_gpu_can_run_is_not_valid(change: dict[str, object], word: str) -> None:
    config = ExperimentConfiguration.from_dict({**recorded().to_dict(), **change})
    assert not config.is_valid()
    assert word in (config.problem() or "")


def test_unknown_fields_are_named() -> None:
    with pytest.raises(ValueError, match="'pases'"):
        ExperimentConfiguration.from_dict({"pases": "default<O1>"})


def test_results_keep_what_they_do_not_know() -> None:
    plain = {"exec_time": [9, 5, 6], "verified": True, "warmup": 1, "status": "verified", "metrics": {"registers": 12}}
    result = ExperimentResult.from_dict(plain)
    assert result.measured == [5, 6]
    assert result.extra["metrics"] == {"registers": 12}
    assert ExperimentResult.from_dict(result.to_dict()) == result


def test_dim3() -> None:
    assert dim3.from_dict({"x": 2, "y": 3}).count() == 6
    assert list(dim3(4)) == [4, 1, 1]
    assert len({dim3(1), dim3(1)}) == 1


class Scalar:
    """A number of NumPy's, as far as a configuration sees it."""

    shape = ()

    def __init__(self, value: object) -> None:
        self.value = value

    def item(self) -> object:
        return self.value


def test_values_of_numpy_are_plain_ones() -> None:
    configuration = ExperimentConfiguration(
        specialize=Scalar(True),  # type: ignore[arg-type]
        maxnreg=Scalar(32),  # type: ignore[arg-type]
        llvm_options=(Scalar("-x"),),  # type: ignore[arg-type]
    )
    assert (configuration.specialize, configuration.maxnreg, configuration.llvm_options) == (True, 32, ["-x"])
    assert isinstance(configuration.specialize, bool)
    assert json.loads(json.dumps(configuration.ground().to_dict()))["specialize"] is True


@pytest.mark.parametrize("block", [{"x": 64.9}, 64.5, [1, 2.5], {"x": float("nan")}, {"x": "64"}])
def test_a_block_of_a_fraction_is_refused(block: object) -> None:
    with pytest.raises(ValueError):
        ExperimentConfiguration(block=block)  # type: ignore[arg-type]
    assert ExperimentConfiguration(block={"x": 64.0}).block.x == 64  # type: ignore[arg-type]
