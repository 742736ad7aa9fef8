"""Writes a configuration for Proteus, with the names of the existing package's module."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any, Optional

from mneme import private_files
from mneme.engine import PathLike
from mneme.mneme_types import ExperimentConfiguration
from mneme.recorded_execution import KernelInstance, RecordedExecution


def tuned_kernel(kernel_descr: KernelInstance, config: ExperimentConfiguration) -> dict[str, Any]:
    """The content of a file for ``PROTEUS_TUNED_KERNELS``, as ``mneme tune`` writes it."""
    level = config.passes.removeprefix("default<O").removesuffix(">") if config.passes.startswith("default<O") else ""
    max_threads = config.max_threads if config.set_launch_bounds else None
    tuned: dict[str, Any] = {
        "CodeGen": config.codegen_method,
        "LaunchBounds": config.set_launch_bounds,
        "SpecializeDims": config.specialize_dims,
        "SpecializeDimsRange": False,
        "OptLevel": int(level) if level.isdigit() else 2,
        "Pipeline": config.passes,
        "CodeGenOptLevel": config.codegen_opt,
        "TunedMaxThreads": config.block.count() if max_threads is None else max_threads,
        "MinBlocksPerSM": config.min_blocks_per_sm,
    }
    if (config.grid, config.block) != (kernel_descr.grid_dim, kernel_descr.block_dim):
        tuned.update(GridDim=config.grid.to_dict(), BlockDim=config.block.to_dict())
    return {kernel_descr.kernel_name: tuned}


def usage(filename: PathLike, kernel_descr: KernelInstance) -> str:
    """How an application that is built with Proteus uses the file."""
    arguments = ", ".join(str(index + 1) for index in kernel_descr.available_specializations)
    annotate = f'annotate("jit", {arguments})' if arguments else 'annotate("jit")'
    return (
        f"Add this attribute to the kernel {kernel_descr.kernel_name}, and build the application with Proteus:\n\n"
        f"  __attribute__(({annotate}))\n\n"
        f"Then start the application with this variable:\n\n"
        f"  export PROTEUS_TUNED_KERNELS={shlex.quote(str(Path(filename).resolve()))}\n"
    )


def export_proteus_tuned_kernel(
    filename: PathLike,
    recorded_execution: RecordedExecution,
    kernel_descr: KernelInstance,
    config: ExperimentConfiguration,
    *,
    usage_filename: Optional[PathLike] = None,
) -> None:
    """Writes a configuration for Proteus, and how to use it to ``usage_filename`` or else to standard output."""
    text = usage(filename, kernel_descr)
    with private_files.open_text(Path(filename), "w") as file:
        file.write(json.dumps(tuned_kernel(kernel_descr, config), indent=2) + "\n")
    if usage_filename is None:
        print(text, end="")
        return
    with private_files.open_text(Path(usage_filename), "w") as file:
        file.write(text)


def convert_to_json(
    filename: PathLike,
    recorded_execution: RecordedExecution,
    kernel_descr: KernelInstance,
    config: ExperimentConfiguration,
) -> None:
    """The same, to standard output."""
    export_proteus_tuned_kernel(filename, recorded_execution, kernel_descr, config)
