import random
import shutil
import subprocess

import pytest

from mneme import SpaceError
from mneme.pipeline import PipelineManager, flatten_passes


def test_pipelines_survive_a_round_trip() -> None:
    manager = PipelineManager()
    for passes in manager.generate(50, 12, 4, seed=3):
        text = manager.to_string(passes)
        assert [str(each) for each in manager.from_string(text)] == [str(each) for each in passes]
        assert text.count("(") == text.count(")")


def test_the_same_seed_gives_the_same_pipelines() -> None:
    manager = PipelineManager()
    assert manager.generate(5, 8, 2, seed=1) == manager.generate(5, 8, 2, seed=1)
    assert manager.generate(5, 8, 2, seed=1) != manager.generate(5, 8, 2, seed=2)
    assert all(len(set(passes)) == len(passes) for passes in manager.generate(20, 30, 5, allow_repeats=False))


def test_adaptors_are_peeled_off() -> None:
    text = "globaldce,function<eager-inv>(sroa<modify-cfg>,loop-mssa(licm)),cgscc(inline,function(gvn))"
    assert flatten_passes(text) == ["globaldce", "sroa<modify-cfg>", "licm", "inline", "gvn"]


def test_unknown_passes_are_named() -> None:
    with pytest.raises(SpaceError, match="'no-such-pass'"):
        PipelineManager().from_string("function(no-such-pass)")
    with pytest.raises(SpaceError, match="'no-such-pass'"):
        PipelineManager(["no-such-pass"])


def test_a_mutation_changes_one_pass_at_most() -> None:
    manager, rng = PipelineManager(), random.Random(5)
    passes = manager.random_pipeline(10, 1, rng=rng)
    for _ in range(100):
        changed = manager.mutate(passes, rng)
        assert changed
        assert abs(len(changed) - len(passes)) <= 1
        passes = changed


@pytest.mark.skipif(shutil.which("opt-19") is None, reason="LLVM 19's opt is not installed")
def test_llvm_takes_every_pass_where_we_put_it() -> None:
    manager = PipelineManager()
    pipeline = manager.to_string(manager.from_string(",".join(manager.get_passes())))
    done = subprocess.run(
        ["opt-19", f"--passes={pipeline}", "-S", "-o", "-"],
        input="define void @f() { ret void }",
        text=True,
        capture_output=True,
    )
    assert done.returncode == 0, done.stderr
