"""What one grammar may cost. Shared by the process that checks grammars and the one that runs them."""

from __future__ import annotations

from typing import Final

from llguidance import LLParserLimits

# 10,000 enumerated texts of 40 characters. Text without choice is the dearest: a megabyte of it takes seconds.
MAX_TEXT_BYTES: Final = 512 * 1024
# Processor time of the check, in another process, and how long the answer may take on a busy machine.
CHECK_PROCESSOR_SECONDS: Final = 2
CHECK_SECONDS: Final = 4.0
# Processor time of compiling for good, which cannot be broken off: it takes up to twice as long as the check.
COMPILE_SECONDS: Final = 1.5
# Address space of that process.
CHECK_MEMORY_BYTES: Final = 1 << 30
# Stack of the checking thread. Smaller than that of any thread of ours (8 MiB on Linux), so that what nests too deeply
# overflows there first.
CHECK_STACK_BYTES: Final = 1 << 20
# Processor time of one mask. Ordinary ones take a tenth of a millisecond.
MASK_SECONDS: Final = 0.25


def parser_limits() -> LLParserLimits:
    """Limits of the parser itself; a lexer state takes up to 2 kB, so one grammar holds at most 40 MB of them."""
    return LLParserLimits(max_lexer_states=20_000, verbose_errors=False)
