"""A transformation of the IR in Python: marks every call and function of the kernel for inlining, replays it, and looks
at what changed in memory when the transformation was wrong.
"""

from __future__ import annotations

import statistics

from common import arguments

from mneme import AsyncReplayExecutor
from mneme.ir import parse, to_text


def main() -> int:
    args = arguments(__doc__ or "")
    with AsyncReplayExecutor(args.record_db, args.record_id, iterations=5, device=args.device) as executor:
        module = parse(executor.ir())
        kernel = module.get_function(executor.hello["kernel"])
        opcodes: dict[str, int] = {}
        for block in kernel.blocks:
            for instruction in block.instructions:
                opcodes[instruction.opcode] = opcodes.get(instruction.opcode, 0) + 1
        print("instructions:", ", ".join(f"{opcode} {count}" for opcode, count in sorted(opcodes.items())))
        text = to_text(module).replace(" noinline ", " ")
        for name, ir in (("as recorded", None), ("transformed", text)):
            result = executor.evaluate({}, ir=ir)
            time = f"{statistics.median(result.measured) / 1000:.1f} µs" if result.verified else result.error
            print(f"{name}: {result.status}, {time}")
        wrong = executor.submit({}, ir=text.replace(" add nsw ", " sub nsw "), memory=True)
        print(f"with a mistake: {wrong.result().status}")
        for region in executor.diff(wrong) if wrong.result().executed else []:
            indices, recorded, replayed = region.elements("int64")
            print(
                f"  {region.name}: {len(indices)} elements differ, first [{indices[0]}]: {recorded[0]} became "
                f"{replayed[0]}"
            )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
