"""What the innermost loops of our hot functions, and of llama.cpp's, have to be made of on Arm.

A function is found by a pattern in its demangled name, an instruction by one at its beginning. The
sampling rule and the sums of an importance matrix are compiled with -ffp-contract=off, as a product
is rounded before it is added: `fmul` and `fadd` are right there, and `fmla` only where the source
says `std::fma`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from arm64_check.machine_code import Function, Instruction

Loop = Sequence[Instruction]

CALL = r"blr? "
SCALAR = r"(?:fn?m?(?:add|sub|ul)|fdiv|frint.|f(?:max|min)n?m?|fcmpe?|fcsel) [sdh]\d"  # of floats
CONTRACTED = r"fn?m(?:add|sub|la|ls) "
_SHOWN = 40  # instructions of a loop


@dataclass(frozen=True)
class HotLoop:
    """A rule for every function so named.

    Attributes:
        has: one of the innermost loops has all of these.
        without: that loop has none of these.
        nowhere: no innermost loop of the function has any of these.
        somewhere: the function has all of these, in whichever loop.
    """

    function: str
    has: tuple[str, ...] = ()
    without: tuple[str, ...] = (CALL, SCALAR)
    nowhere: tuple[str, ...] = ()
    somewhere: tuple[str, ...] = ()

    def broken_by(self, function: Function) -> str | None:
        """What is wrong: the function, its loops and their instructions."""
        if missed := [each for each in self.somewhere if not _has(function.code, each)]:
            return f"{function.name} at {function.code[0].address:x}: has no {', '.join(missed)}"
        loops = function.innermost_loops
        for pattern in self.nowhere:
            wrong = [loop for loop in loops if _has(loop, pattern)]
            if wrong:
                return f"{function.name}: a loop has `{pattern}`\n{_shown(wrong)}"
        if self.has and not any(self._holds(loop) for loop in loops):
            wanted = ", ".join(self.has)
            return (
                f"{function.name}: expected a loop with {wanted} and without"
                f" {', '.join(self.without)}; it has\n{_shown(loops) or '  no loop'}"
            )
        return None

    def _holds(self, loop: Loop) -> bool:
        return all(_has(loop, pattern) for pattern in self.has) and not any(
            _has(loop, pattern) for pattern in self.without
        )


def _has(loop: Loop, pattern: str) -> bool:
    return any(re.match(pattern, str(each)) for each in loop)


def _shown(loops: Sequence[Loop]) -> str:
    lines = []
    for loop in loops:
        lines.append(f"  a loop of {len(loop)} instructions at {loop[0].address:x}:")
        lines += [f"    {each.address:x}: {each}" for each in loop[:_SHOWN]]
        lines += ["    …"] if len(loop) > _SHOWN else []
    return "\n".join(lines)


_EXPONENTIAL = (r"fmla v\d+\.4s", r"frint[nx] v\d+\.4s")

SAMPLING = [
    HotLoop(r"sampling::AdjustedLogits::load\(", has=(r"fadd v\d+\.4s", r"umax v\d+\.4s")),
    HotLoop(
        r"sampling::AdjustedLogits::apply_mask\(",
        has=(r"ushl v\d+\.4s", r"(?:bsl|bit|bif) v\d+\.16b"),
        without=(SCALAR,),  # it calls copy_block() once for a block
    ),
    HotLoop(r"sampling::AdjustedLogits::penalize\(", nowhere=(CONTRACTED,)),
    # total_weight() is part of it.
    HotLoop(
        r"sampling::Selection::select\(",
        has=(*_EXPONENTIAL, r"fdiv v\d+\.4s"),
        nowhere=(r"fdiv s", r"fmadd s"),
    ),
    HotLoop(
        r"sampling::Selection::weigh\(",
        has=(*_EXPONENTIAL, r"fdiv v\d+\.4s"),
        nowhere=(r"fdiv s", r"fmadd s"),
    ),
    HotLoop(
        r"sampling::Selection::gather\(",
        has=(r"fcmge v\d+\.4s", r"tbl v\d+\.16b"),
        nowhere=(r"fcmpe? s",),
    ),
    HotLoop(r"sampling::Selection::keep<.*keep_to", has=(r"cmhi v\d+\.4s", r"tbl v\d+\.16b")),
    HotLoop(r"sampling::Selection::keep<.*keep_at", has=(r"cmhs v\d+\.4s", r"tbl v\d+\.16b")),
    HotLoop(r"sampling::Selection::keep_top_p\(", has=(r"fadd v\d+\.4s", r"ushr v\d+\.4s")),
    HotLoop(r"sampling::CutFinder::find\(", has=(r"umin v\d+\.4s", r"umax v\d+\.4s")),
    # log_sum_exp() is part of the one that is given where to write.
    HotLoop(
        r"sampling::top_logprobs\(.*TokenLogprob\*",
        has=(*_EXPONENTIAL, r"fcvtl v\d+\.2d"),
        nowhere=(r"fmadd s",),
    ),
]

OTHERS = [
    HotLoop(r"find_not_finite\(", has=(r"cmeq v\d+\.8h",)),
    HotLoop(r"find_not_finite\(", has=(r"cmeq v\d+\.4s",)),
    HotLoop(
        r"::add_squares\(.*omp",
        has=(r"fmul v\d+\.4s", r"fadd v\d+\.4s"),
        nowhere=(CONTRACTED,),
    ),
]

# A product of digits of 4 or 8 bits, four at once.
_FMLA = r"fmla v\d+\.4s"
_DIGITS = (r"sdot v\d+\.4s",)

ATTENTION = [
    HotLoop(r"attention::.*score_by_digits<", has=(*_DIGITS, _FMLA), without=(CALL,)),
    HotLoop(r"attention::.*score<.*F16Row", has=(r"fcvtl v\d+\.4s", _FMLA)),
    HotLoop(r"attention::.*score<.*Bf16Row", has=(r"shll v\d+\.4s", _FMLA)),
    HotLoop(r"attention::.*add_columns<.*F16Row", has=(r"fcvtl v\d+\.4s", _FMLA)),
    HotLoop(r"attention::.*add_columns<.*Bf16Row", has=(r"shll v\d+\.4s", _FMLA)),
    HotLoop(
        r"attention::.*add_columns<.*Q[48]Row",
        has=(r"tbl v\d+\.16b", r"scvtf v\d+\.4s", _FMLA),
    ),
    HotLoop(r"attention::prefill\(", has=(r"fmla v\d+\.4s, v\d+\.4s, v\d+\.s\[",)),
]

LLAMA = [
    HotLoop(name, has=_DIGITS, without=(CALL,))
    for name in (
        r"^ggml_vec_dot_(?:q[458]_[01]_q8_[01]|q[2-6]_K_q8_K|iq4_nl_q8_0|iq4_xs_q8_K)$",
        r"^ggml_gem[mv]_(?:q4_0|q8_0|iq4_nl)_4x4_q8_0$",
    )
]
# Around a loop that takes a block's scales apart.
LLAMA.append(HotLoop(r"^ggml_gem[mv]_q[456]_K_8x4_q8_K$", somewhere=_DIGITS))

HOT_LOOPS = [*SAMPLING, *OTHERS, *ATTENTION, *LLAMA]
