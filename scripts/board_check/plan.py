"""All steps, in the order in which they run: what tells most comes first."""

from __future__ import annotations

from functools import partial

from board_check.build_steps import build, core, gpu_tests, greedy, parity
from board_check.machine_steps import doctor, facts, idle, monitor, setup
from board_check.speed_steps import bench, large, model, trace
from board_check.target import Target
from checking.steps import Context, Step

_BUILT = ("build",)
_WITH_MODEL = ("build", "model")


def all_steps(target: Target) -> list[Step[Context]]:
    """With guesses of their times on a board; what cannot be run takes none.

    The first build takes much longer, and is never put off: the next call goes on with it.
    """
    on_gpu = int(target.has_gpu)
    on_board = int(target.is_jetson)
    is_large = on_gpu or int(target.model is not None)

    def gpu(kind: str) -> partial[dict[str, object]]:
        return partial(gpu_tests, kind, target)

    return [
        Step("facts", "what the machine is", partial(facts, target), 90, 5, 0),
        Step("idle", "tegrastats at rest", partial(idle, target), 20, 4 * on_board, 0),
        Step("build", "the program for this machine", partial(build, target), 3600, 30, 0),
        Step("doctor", "what keeps it slow", partial(doctor, target), 120, 10, 1, _BUILT),
        Step("monitor", "one look at all sensors", partial(monitor, target), 60, 4, 1, _BUILT),
        Step("setup", "what the setup would change", partial(setup, target), 60, 3 * on_board, 1,
             _BUILT),
        Step("model", "the default model", partial(model, target), 300, 20, 1, _BUILT),
        Step("bench", "its TTFT and TPOT", partial(bench, target), 180, 25, 1, _WITH_MODEL),
        Step("kernels", "each kernel's tests on the GPU", gpu("kernels"), 600, 180 * on_gpu, 2,
             _BUILT),
        Step("engine", "whole engines' tests on the GPU", gpu("engine"), 600, 180 * on_gpu, 3,
             _BUILT),
        Step("greedy", "greedy text beside the CPU's", partial(greedy, target), 420, 120 * on_gpu,
             3, _WITH_MODEL),
        Step("core", "the core's programs on this processor", partial(core, target), 600, 90, 3),
        Step("parity", "hooks beside their references", partial(parity, target), 600, 150, 4,
             _BUILT),
        Step("large", "a large model's TTFT and TPOT", partial(large, target), 600,
             240 * is_large, 5 * is_large, _BUILT),
        Step("trace", "a short run, moment by moment", partial(trace, target), 120, 15, 3,
             _WITH_MODEL),
    ]  # fmt: skip
