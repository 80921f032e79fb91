"""A signal to end that comes at any moment of publishing: no socket is left behind."""

from __future__ import annotations

from pathlib import Path

from processes import environment, python, run

# In a process for each moment: the next line, call or return of what publishes, and of what that
# is made with. Python handles signals between any two of them.
PROGRAM = """
    import contextlib, os, signal, sys, weakref
    from orin_llm.stats import StatsPublisher, folder, publisher, server

    PARTS = [module.__file__ for module in (publisher, server, folder, contextlib, weakref)]

    class Source:
        def describe(self): return {"model": "a.gguf", "config": {}}
        def stats(self): return {}

    def publish(moment):
        def trace(frame, event, argument):
            nonlocal moment
            if frame.f_code.co_filename not in PARTS:
                return None
            moment -= 1
            if moment == 0:
                sys.settrace(None)
                signal.raise_signal(signal.SIGTERM)
            return trace

        source = Source()
        sys.settrace(trace)
        published = StatsPublisher(source)
        assert published.problem is None, published.problem
        published.close()
        sys.settrace(None)
        return moment > 0

    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    sockets = os.path.join(os.environ["XDG_RUNTIME_DIR"], "orin-llm")
    os.mkdir(sockets)
    for moment in range(1, 10000):
        child = os.fork()
        if child == 0:
            sys.exit(3 if publish(moment) else 0)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if code == 3:
            break
        print(moment, code, os.listdir(sockets), flush=True)  # or each child would, too
        for name in os.listdir(sockets):
            os.unlink(os.path.join(sockets, name))
"""


def test_a_signal_to_end_at_any_moment_leaves_no_socket(tmp_path: Path) -> None:
    done = run(python(PROGRAM), env=environment(XDG_RUNTIME_DIR=str(tmp_path)))
    assert done.returncode == 0, done.stderr
    endings = done.stdout.splitlines()
    assert len(endings) > 50
    assert endings == [f"{n} 143 []" for n in range(1, len(endings) + 1)], done.stderr
