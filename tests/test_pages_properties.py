"""Whatever is done to sequences, each finds in its cells what was computed for exactly its tokens.

Keys and values depend on a token and on all before it; here a cell holds that prefix itself.
"""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from orin_llm._native import PagedKv

MAX_SEQUENCES = 4
MAX_TOKENS = 40

tokens = st.lists(st.integers(0, 1), max_size=12)
prompts = st.lists(st.integers(0, 1), max_size=MAX_TOKENS)


class Sequences(RuleBasedStateMachine):
    """Token lists beside a page pool and a dict of its cells."""

    @initialize(
        n_pages=st.integers(2, 14),
        page_size=st.sampled_from([1, 2, 4, 8]),
        window=st.sampled_from([0, 0, 1, 3, 4, 7]),
        hash_bits=st.sampled_from([0, 1, 64]),
        prefix_cache=st.sampled_from([True, True, False]),
    )
    def make(
        self, n_pages: int, page_size: int, window: int, hash_bits: int, prefix_cache: bool
    ) -> None:
        self.kv = PagedKv(
            n_pages=n_pages, page_size=page_size, window=window, hash_bits=hash_bits,
            prefix_cache=prefix_cache, max_sequences=MAX_SEQUENCES, max_tokens=MAX_TOKENS,
        )  # fmt: skip
        self.capacity = n_pages - 1
        self.window = window
        self.tokens: dict[int, list[int]] = {}
        self.cells: dict[int, tuple[int, ...]] = {}

    def choose(self, data: st.DataObject) -> int:
        return data.draw(st.sampled_from(sorted(self.tokens)))

    def place(self, sequence: int, more: list[int]) -> None:
        needed = self.kv.pages_needed(sequence, len(more))
        fits = needed <= self.kv.available_pages
        before = self.kv.available_pages
        assert self.kv.append(sequence, more) == fits
        if fits:
            assert self.kv.available_pages == before - needed
            self.tokens[sequence] += more

    @precondition(lambda self: len(self.tokens) < MAX_SEQUENCES)
    @rule(prompt=prompts)
    def start(self, prompt: list[int]) -> None:
        sequence = self.kv.open()
        assert sequence not in self.tokens
        covered, idle = self.kv.match_prefix(prompt)
        before = self.kv.available_pages
        assert self.kv.adopt_prefix(sequence, prompt) == covered < max(len(prompt), 1)
        assert self.kv.available_pages == before - idle
        self.tokens[sequence] = prompt[:covered]
        self.place(sequence, prompt[covered:])

    @precondition(lambda self: self.tokens)
    @rule(data=st.data(), more=tokens)
    def append(self, data: st.DataObject, more: list[int]) -> None:
        sequence = self.choose(data)
        self.place(sequence, more[: MAX_TOKENS - len(self.tokens[sequence])])

    @rule()
    def step(self) -> None:
        for source, target, n in self.kv.pending_copies():
            for i in range(n):
                size = self.kv.page_size
                self.cells[target * size + i] = self.cells[source * size + i]
        self.kv.clear_copies()
        for sequence, text in self.tokens.items():
            for p in range(self.kv.n_committed(sequence), len(text)):
                self.cells[self.kv.cell(sequence, p)] = tuple(text[: p + 1])
        for sequence in self.tokens:
            self.kv.commit(sequence)

    @precondition(lambda self: self.tokens)
    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        sequence = self.choose(data)
        n_keep = data.draw(st.integers(0, len(self.tokens[sequence])))
        left = self.kv.truncate(sequence, n_keep)
        assert left == n_keep or (left == 0 and self.window)
        del self.tokens[sequence][left:]

    @precondition(lambda self: self.tokens)
    @rule(data=st.data())
    def fork(self, data: st.DataObject) -> None:
        sequence = self.choose(data)
        committed = self.kv.n_committed(sequence) == len(self.tokens[sequence])
        if committed and len(self.tokens) < MAX_SEQUENCES:
            self.tokens[self.kv.fork(sequence)] = list(self.tokens[sequence])

    @precondition(lambda self: self.tokens)
    @rule(data=st.data())
    def close(self, data: st.DataObject) -> None:
        sequence = self.choose(data)
        self.kv.close(sequence)
        del self.tokens[sequence]

    @rule(data=st.data())
    def set_budget(self, data: st.DataObject) -> None:
        n_pages = data.draw(st.integers(0, self.capacity))
        used = self.kv.counters()["used"]
        assert self.kv.set_budget(n_pages) == (n_pages >= used)

    @rule()
    def drop_cached(self) -> None:
        used = self.kv.counters()["used"]
        self.kv.drop_cached()
        assert self.kv.counters()["used"] == used and self.kv.counters()["cached"] == 0

    @invariant()
    def every_sequence_reads_its_own_tokens(self) -> None:
        if self.kv.pending_copies():
            return
        for sequence, text in self.tokens.items():
            n = self.kv.n_committed(sequence)
            for p in range(max(0, n - self.window + 1) if self.window else 0, n):
                assert self.cells[self.kv.cell(sequence, p)] == tuple(text[: p + 1])

    @invariant()
    def counters_add_up(self) -> None:
        self.kv.check()
        c = self.kv.counters()
        tables = [set(self.kv.block_table(s).tolist()) - {0} for s in self.tokens]
        held = set[int]().union(*tables)
        assert c["used"] == len(held)
        assert c["shared"] == sum(sum(page in t for t in tables) > 1 for page in held)
        assert c["free"] >= 0 and self.kv.available_pages == c["free"] + c["cached"]
        assert max(held, default=0) < self.kv.committed_pages <= self.capacity + 1
        assert 0 <= c["misses"] <= c["lookups"] and 0 <= c["prefix_hits"] <= c["prefix_queries"]
        assert 0.0 <= c["fragmentation"] <= 1.0

    @invariant()
    def sequences_keep_their_tokens(self) -> None:
        for sequence, text in self.tokens.items():
            assert self.kv.n_tokens(sequence) == len(text)


Sequences.TestCase.settings = settings(max_examples=150, stateful_step_count=40)
test_sequences_read_back_their_own_tokens = Sequences.TestCase
