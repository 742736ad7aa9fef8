"""Judges sources of the only kernel in the recording that MNEME_RECORDING names, for OpenEvolve."""

import os

from mneme.openevolve import evaluator

evaluate = evaluator(os.environ.get("MNEME_RECORDING", "recording"))
