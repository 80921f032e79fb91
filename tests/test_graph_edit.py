"""An edited graph is what ggml would have built, and computes what it says."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orin_llm import _native

N = 8
MAX_NODES = 32
SLOTS = 67  # that ggml keeps for so many; a tensor so much further on wants the same one


class Model:
    """A graph beside what it should be: sources by tensor, and the formula of each."""

    def __init__(self, max_nodes=64, max_tensors=64, skips=()):
        self.graph = _native.testing.GraphProbe(max_nodes=max_nodes, max_tensors=max_tensors)
        self.skips = list(skips)
        self.sources = []
        self.formulas = []
        self.sizes = []  # of values, and whether they lie in two rows

    def _add(self, number, size, sources, formula):
        assert number == len(self.sources)
        self.sources.append(list(sources))
        self.formulas.append(formula)
        self.sizes.append(size)
        if self.skips:
            self.graph.skip(self.skips.pop())
        return number

    def leaf(self):
        return self._add(self.graph.leaf(N), (N, 1), [], None)

    def affine(self, x, scale, bias):
        number = self.graph.affine(x, scale, bias)
        return self._add(number, self.sizes[x], [x], lambda v: v * scale + bias)

    def add(self, a, b):
        return self._add(self.graph.add(a, b), self.sizes[a], [a, b], lambda u, v: u + v)

    def half(self, x):
        size = self.sizes[x][0]
        number = self.graph.view(x, size // 4, size // 2)
        return self._add(
            number, (size // 2, 1), [x], lambda v: v[size // 4 : size // 4 + size // 2]
        )

    def rows(self, x):
        return self._add(self.graph.reshape(x, 2), (self.sizes[x][0], 2), [x], lambda v: v)

    def value(self, tensor, leafs):
        if self.formulas[tensor] is None:
            return leafs[tensor]
        return self.formulas[tensor](*(self.value(s, leafs) for s in self.sources[tensor]))

    def replace_uses(self, tensor, replacement):
        nodes = self.graph.state()["nodes"]
        behind = nodes.index(replacement) + 1 if replacement in nodes else 0
        expected = 0
        for node in nodes[behind:]:
            expected += self.sources[node].count(tensor)
            self.sources[node] = [replacement if s == tensor else s for s in self.sources[node]]
        assert self.graph.replace_uses(tensor, replacement) == expected

    def is_view(self, tensor):
        return self.graph.state()["views"][tensor][0] >= 0

    def check(self):
        state = self.graph.state()
        nodes, leafs, sources = state["nodes"], state["leafs"], state["sources"]
        assert sources == self.sources
        assert sorted(set(nodes) | set(leafs)) == sorted(nodes + leafs)
        assert sorted(state["uses"]) == sorted(nodes + leafs)
        assert state["n_used_slots"] == len(nodes) + len(leafs)
        uses = Counter(s for node in nodes for s in sources[node])
        assert state["uses"] == {t: uses[t] for t in nodes + leafs}
        for i, node in enumerate(nodes):
            assert set(sources[node]) <= set(nodes[:i]) | set(leafs)
            assert self.formulas[node] is not None
            self.check_view(state, node)

    def check_view(self, state, node):
        """A view lies in what its source lies in."""
        root, offset = state["views"][node]
        if root < 0:
            return
        source = self.sources[node][0]
        source_root, source_offset = state["views"][source]
        assert root == (source if source_root < 0 else source_root)
        own = 0 if self.sizes[node][0] == self.sizes[source][0] else self.sizes[source][0] // 4
        assert offset == source_offset + own

    def check_results(self, seed=0):
        state = self.graph.state()
        rng = np.random.default_rng(seed)
        leafs = {
            t: rng.standard_normal(N).astype(np.float32)
            for t in range(len(self.sources))
            if self.formulas[t] is None
        }
        outputs = [t for t in state["nodes"] if state["uses"][t] == 0]
        results = self.graph.compute({t: v.tolist() for t, v in leafs.items()}, outputs)
        for output in outputs:
            wanted = self.value(output, {t: v.astype(np.float64) for t, v in leafs.items()})
            np.testing.assert_allclose(results[output], wanted, rtol=1e-5, atol=1e-5)


def chain():
    """leaf → a → b → c"""
    m = Model()
    x = m.leaf()
    a = m.affine(x, 2.0, 1.0)
    b = m.affine(a, -1.0, 0.5)
    c = m.affine(b, 0.5, 0.0)
    m.graph.expand(c)
    return m, (x, a, b, c)


def test_an_inserted_node_comes_before_the_one_at_its_place_and_brings_its_leafs_along():
    m, (_x, a, b, c) = chain()
    y = m.leaf()
    between = m.affine(y, 3.0, 0.0)
    total = m.add(a, between)
    assert m.graph.insert(total, 1) == 2
    assert m.graph.state()["nodes"] == [a, between, total, b, c]
    assert y in m.graph.state()["leafs"]
    m.replace_uses(a, total)
    m.check()
    m.check_results()
    assert m.sources[total] == [a, between]


def test_a_node_is_not_inserted_in_front_of_what_it_needs():
    m, (_x, _a, b, _c) = chain()
    with pytest.raises(RuntimeError, match="in front of what it needs"):
        m.graph.insert(m.affine(b, 1.0, 0.0), 1)


def test_a_node_is_not_inserted_twice():
    m, (_x, a, _b, _c) = chain()
    with pytest.raises(RuntimeError, match="already"):
        m.graph.insert(a, 0)


def test_a_replaced_input_is_read_by_nobody_and_leaves_the_graph():
    m, (x, a, _b, _c) = chain()
    y = m.leaf()
    fed = m.affine(y, 1.0, 0.0)
    m.graph.insert(fed, 0)
    m.replace_uses(x, fed)
    assert m.sources[a] == [fed]
    m.graph.remove_leaf(x)
    m.check()
    assert m.graph.state()["leafs"] == [y]
    m.check_results()


def test_views_follow_the_tensor_that_replaces_theirs():
    m = Model()
    x = m.leaf()
    a = m.affine(x, 2.0, 0.0)
    half = m.half(m.rows(a))
    quarter = m.half(half)
    out = m.add(half, m.affine(half, 1.0, 1.0))
    m.graph.expand(quarter)
    m.graph.expand(out)
    # A replacement that is itself a view, at an offset.
    wide = m._add(m.graph.leaf(2 * N), (2 * N, 1), [], None)
    shifted = m._add(m.graph.view(wide, 5, N), (N, 1), [wide], lambda v: v[5 : 5 + N])
    m.graph.insert(shifted, 1)
    m.replace_uses(a, shifted)
    state = m.graph.state()
    assert [state["views"][t] for t in (half, quarter)] == [(wide, 7), (wide, 8)]
    m.graph.remove(a)
    values = np.arange(2 * N, dtype=np.float32)
    results = m.graph.compute({x: [0.0] * N, wide: values.tolist()}, [quarter, out])
    np.testing.assert_array_equal(results[quarter], values[8:10])
    np.testing.assert_array_equal(results[out], 2 * values[7:11] + 1)


def test_what_works_in_place_moves_to_the_replacement():
    m, (x, a, _b, _c) = chain()
    in_place = m.graph.scale_in_place(a, 4.0)
    m.sources.append([a])
    m.graph.expand(in_place)
    other = m.graph.affine(x, 10.0, 0.0)
    m.graph.insert(other, 1)
    m.graph.replace_uses(a, other)
    assert m.graph.state()["views"][in_place] == (other, 0)
    results = m.graph.compute({x: [1.0] * N}, [in_place])
    assert results[in_place] == [40.0] * N


def test_nodes_before_a_replacement_go_on_reading_the_old_tensor():
    m, (x, a, b, c) = chain()
    early = m.affine(x, 7.0, 0.0)
    m.graph.insert(early, 1)
    late = m.affine(x, 9.0, 0.0)
    m.graph.insert(late, 2)
    m.replace_uses(x, late)
    assert [m.sources[t] for t in (a, early, late)] == [[x]] * 3
    m.replace_uses(b, a)
    assert m.sources[c] == [a]
    m.check()


def test_a_replacement_of_another_shape_is_refused():
    m, (_x, a, b, _c) = chain()
    half = m.half(a)
    m.graph.insert(half, 1)
    with pytest.raises(RuntimeError, match="type and shape"):
        m.graph.replace_uses(b, half)


def test_a_removed_node_takes_the_views_along_that_only_it_read():
    m = Model()
    x = m.leaf()
    a = m.affine(x, 2.0, 0.0)
    outer, kept = m.rows(a), m.half(a)
    inner = m.half(outer)
    total = m.add(inner, kept)
    other = m.affine(kept, 1.0, 1.0)
    m.graph.expand(total)
    m.graph.expand(other)
    m.graph.remove(total)
    assert m.graph.state()["nodes"] == [a, kept, other]
    m.check()
    m.check_results()


def test_a_removed_tensor_can_come_back():
    m, (x, _a, b, c) = chain()
    m.graph.remove(c)
    m.graph.remove(b)
    m.graph.expand(c)
    m.check()
    m.check_results()
    assert m.graph.state()["leafs"] == [x]


def test_what_is_read_is_not_removed():
    m, (x, a, _b, _c) = chain()
    with pytest.raises(RuntimeError, match="still read"):
        m.graph.remove(a)
    with pytest.raises(RuntimeError, match="still read"):
        m.graph.remove_leaf(x)
    m.check()


def test_a_source_can_be_given_up():
    m, (x, a, _b, c) = chain()
    m.graph.set_source(c, 0, a)
    m.sources[c] = [a]
    m.check()
    m.graph.set_source(c, 0, -1)
    m.sources[c] = []
    m.check()
    assert m.graph.state()["uses"][a] == 1
    assert m.graph.state()["uses"][x] == 1


@st.composite
def edited(draw):
    """A random graph, edited at random; a check after each edit."""
    skips = draw(st.lists(st.sampled_from([0, SLOTS - 1, SLOTS - 2, SLOTS]), max_size=24))
    m = Model(MAX_NODES, 24 * (SLOTS + 1) + 64, skips)
    floats = st.floats(-2, 2, width=16)

    def tensor_like(tensors):
        return draw(st.sampled_from(tensors))

    def grow(known):
        x = tensor_like(known)
        same = [t for t in known if m.sizes[t] == m.sizes[x]]
        made = {
            "affine": lambda: m.affine(x, draw(floats), draw(floats)),
            "add": lambda: m.add(x, tensor_like(same)),
            "half": lambda: m.half(x) if m.sizes[x][0] >= 4 else m.affine(x, 1.0, 0.0),
            "rows": lambda: m.rows(x) if m.sizes[x][0] >= 4 else m.affine(x, 0.5, 0.0),
        }[draw(st.sampled_from(["affine", "add", "half", "rows"]))]()
        return made

    known = [m.leaf(), m.leaf()]
    for _ in range(draw(st.integers(3, 12))):
        known.append(grow(known))
    for tensor in known[2:]:
        m.graph.expand(tensor)
    m.check()
    for _ in range(draw(st.integers(1, 8))):
        state = m.graph.state()
        nodes, leafs = state["nodes"], state["leafs"]
        edit = draw(st.sampled_from(["insert", "remove", "leaf"]))
        if edit == "insert":
            index = draw(st.integers(0, len(nodes)))
            if draw(st.booleans()):
                m.leaf()
                leafs = [*leafs, len(m.sources) - 1]
            # Not a view: a view of the tensor that it replaces would have no stride of its own.
            x = tensor_like([*leafs, *nodes[:index]])
            new = m.affine(x, draw(floats), draw(floats))
            place = m.graph.insert(new, index)
            assert m.graph.state()["nodes"][place] == new
            same = [
                t for t in m.graph.state()["nodes"][:place] + leafs if m.sizes[t] == m.sizes[new]
            ]
            if same:
                m.replace_uses(draw(st.sampled_from(same)), new)
        unread = [t for t in m.graph.state()["nodes"] if m.graph.state()["uses"][t] == 0]
        if edit == "remove" and len(unread) > 1:
            m.graph.remove(draw(st.sampled_from(unread)))
        if edit == "leaf":
            for leaf in m.graph.state()["leafs"]:
                if m.graph.state()["uses"][leaf] == 0:
                    m.graph.remove_leaf(leaf)
        m.check()
    return m


@settings(max_examples=150)
@given(edited())
def test_a_graph_edited_at_random_computes_what_it_says(m):
    m.check_results()
