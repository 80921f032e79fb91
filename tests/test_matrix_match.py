"""Products of weights, and what becomes one launch with them, are known by their graph."""

from __future__ import annotations

import pytest

from orin_llm import _native

EMBD, HEAD, KV, FF, TOKENS = 256, 64, 128, 512, 3


class Graph:
    """What upstream builds, by names of weights."""

    def __init__(self) -> None:
        self.probe = _native.testing.MatrixProbe()

    def input(self, n_values: int = EMBD) -> int:
        return self.probe.input(n_values, TOKENS)

    def product(
        self,
        name: str,
        x: int,
        rows: int,
        kind: str = "q4_K",
        values: int = EMBD,
        bias: bool = False,
    ) -> int:
        product = self.probe.multiply(self.probe.weight(f"{name}.weight", kind, values, rows), x)
        if bias:
            weight = self.probe.weight(f"{name}.bias", "f32", rows, 1)
            product = self.probe.add(product, weight)
        return product

    def norm(self, name: str, x: int, values: int = EMBD) -> int:
        weight = self.probe.weight(f"{name}.weight", "f32", values, 1)
        return self.probe.scale_by(self.probe.rms_norm(x), weight)

    def gate(self, op: str, a: int, b: int = -1, swapped: bool = False) -> int:
        return self.probe.glu(op.upper(), a, b, swapped)

    def nodes(self, *ends: int, left: set[str] | None = None) -> list[str]:
        """The plan's nodes in words; the graph holds together with them in it."""
        for end in ends:
            self.probe.expand(end)
        plan = self.probe.plan(left or set())
        self.probe.apply(left or set())
        made = [name for op, name, _ in self.probe.nodes() if op == "CUSTOM"]
        assert len([name for name in made if name != "attention"]) == len(
            [words for words in plan["nodes"] if not words.startswith("attention")]
        )
        n_left = sum(op == "MUL_MAT" for op, _, _ in self.probe.nodes())
        assert n_left == plan["n_stock"]
        found: list[str] = plan["nodes"]
        return found

    def left(self) -> list[str]:
        """What is computed by upstream's nodes then."""
        views = ("VIEW", "RESHAPE", "CUSTOM")
        return [op for op, _, _ in self.probe.nodes() if op not in views]


def with_projections(graph: Graph, x: int, kinds: tuple[str, str, str], bias: bool = False) -> int:
    """Q, K and V, all read; the sum of V is the end."""
    ends = []
    for name, kind, rows in zip(("q", "k", "v"), kinds, (EMBD, KV, KV), strict=True):
        heads = graph.product(name, x, rows, kind, bias=bias)
        ends.append(graph.probe.reshape(heads, HEAD, rows // HEAD))
        graph.probe.expand(ends[-1])
    return ends[-1]


def test_a_layer_of_a_llama_is_five_nodes_and_its_attention() -> None:
    graph = Graph()
    x = graph.input()
    with_projections(graph, graph.norm("attn_norm", x), ("q4_K", "q4_K", "q6_K"))
    attention = graph.probe.attention(HEAD, EMBD // HEAD, TOKENS)
    out = graph.product("o", graph.probe.flatten(attention), EMBD)
    x = graph.probe.add(out, x)
    normed = graph.norm("ffn_norm", x)
    gated = graph.gate("swiglu", graph.product("gate", normed, FF), graph.product("up", normed, FF))
    x = graph.probe.add(graph.product("down", gated, EMBD, "q6_K", values=FF), x)
    assert graph.nodes(x) == [
        "int8 rows attn_norm",
        "q, k, v",
        "attention as int8",
        "o + sum",
        "int8 rows ffn_norm",
        "swiglu of gate, up as int8",
        "down + sum",
    ]
    assert graph.left() == []


def test_biases_of_projections_are_part_of_their_launch() -> None:
    graph = Graph()
    end = with_projections(graph, graph.norm("norm", graph.input()), ("q8_0",) * 3, bias=True)
    assert graph.nodes(end) == ["int8 rows norm", "q + bias, k + bias, v + bias"]
    assert graph.left() == []


def test_no_result_lies_where_kernels_cannot_read_it() -> None:
    graph = Graph()
    x = graph.input()
    ends = [graph.product(name, x, rows) for name, rows in (("q", EMBD), ("few", 6), ("k", KV))]
    assert graph.nodes(*ends) == ["int8 rows", "q, k", "few"]


def test_products_of_f16_read_activations_as_they_are() -> None:
    graph = Graph()
    end = with_projections(graph, graph.input(), ("f16",) * 3)
    assert graph.nodes(end) == ["q, k, v"]


def test_a_norm_that_rows_of_two_kinds_are_made_of_is_computed_once() -> None:
    graph = Graph()
    end = with_projections(graph, graph.norm("norm", graph.input()), ("f16", "q4_K", "q4_K"))
    assert sorted(graph.nodes(end)) == ["int8 rows", "k, v", "q"]
    assert graph.left() == ["RMS_NORM", "MUL"]


def test_more_than_three_products_of_the_same_rows_are_several_launches() -> None:
    graph = Graph()
    x = graph.norm("norm", graph.input())
    for i in range(4):
        graph.probe.expand(graph.product(f"w{i}", x, KV))
    assert graph.nodes() == ["int8 rows norm", "w0, w1, w2", "w3"]


def test_a_norm_that_others_read_stays() -> None:
    graph = Graph()
    normed = graph.norm("norm", graph.input())
    product = graph.product("w", normed, EMBD)
    other = graph.gate("swiglu", normed, product)  # reads the norm as it is
    assert graph.nodes(other) == ["int8 rows", "w"]
    assert graph.left() == ["RMS_NORM", "MUL", "GLU"]


def test_a_norm_that_is_a_result_stays() -> None:
    graph = Graph()
    normed = graph.norm("norm", graph.input())
    graph.probe.set_output(normed)
    assert graph.nodes(graph.product("w", normed, EMBD)) == ["int8 rows", "w"]
    assert graph.left() == ["RMS_NORM", "MUL"]


def test_a_product_that_is_a_result_is_served_and_added_elsewhere() -> None:
    graph = Graph()
    x = graph.input()
    product = graph.product("w", x, EMBD)
    graph.probe.set_output(product)
    assert graph.nodes(graph.probe.add(product, x)) == ["int8 rows", "w"]
    assert graph.left() == ["ADD"]


def test_of_a_result_that_is_a_part_of_a_node_the_node_is_kept() -> None:
    graph = Graph()
    x = graph.norm("norm", graph.probe.add(graph.input(), graph.input()))
    k = graph.product("k", x, KV)
    graph.probe.set_output(k)
    graph.nodes(graph.product("q", x, EMBD), k)
    assert graph.probe.outputs() == ["product q.weight", "product q.weight (view)"]


@pytest.mark.parametrize("op", ["reglu", "geglu", "swiglu", "geglu_erf", "geglu_quick"])
def test_every_gate_with_two_products_becomes_part_of_them(op: str) -> None:
    graph = Graph()
    x = graph.norm("norm", graph.input())
    gated = graph.gate(op, graph.product("gate", x, FF), graph.product("up", x, FF, bias=True))
    assert graph.nodes(gated) == ["int8 rows norm", f"{op} of gate, up + bias"]
    assert graph.left() == []


@pytest.mark.parametrize("swapped", [False, True])
def test_both_halves_of_a_gate_may_be_of_one_matrix(swapped: bool) -> None:
    graph = Graph()
    both = graph.product("up", graph.norm("norm", graph.input()), 2 * FF)
    gated = graph.gate("swiglu", both, swapped=swapped)
    down = graph.product("down", gated, EMBD, values=FF)
    halves = ["up", f"up from {FF}"]
    gate, other = reversed(halves) if swapped else halves
    assert graph.nodes(down) == ["int8 rows norm", f"swiglu of {gate}, {other} as int8", "down"]
    assert graph.left() == []


def test_a_half_that_kernels_cannot_begin_at_leaves_the_gate() -> None:
    graph = Graph()
    both = graph.product("up", graph.norm("norm", graph.input()), 2 * 33, "q6_K")
    assert graph.nodes(graph.gate("swiglu", both)) == ["int8 rows norm", "up"]
    assert graph.left() == ["GLU"]


def test_gates_that_kernels_do_not_have_stay() -> None:
    graph = Graph()
    x = graph.input()
    gated = graph.gate("swiglu_oai", graph.product("gate", x, FF), graph.product("up", x, FF))
    assert graph.nodes(gated) == ["int8 rows", "gate, up"]
    assert graph.left() == ["GLU"]


def test_products_of_a_gate_that_have_different_types_or_inputs_are_not_one() -> None:
    graph = Graph()
    x = graph.input()
    other = graph.gate(
        "swiglu", graph.product("a", x, FF, "q4_K"), graph.product("b", x, FF, "q6_K")
    )
    apart = graph.gate("swiglu", graph.product("c", x, FF), graph.product("d", graph.input(), FF))
    assert graph.nodes(other, apart) == ["int8 rows", "a, b, c", "int8 rows", "d"]
    assert graph.left() == ["GLU", "GLU"]


def test_a_gate_whose_result_is_read_twice_keeps_it_as_it_is() -> None:
    graph = Graph()
    x = graph.input()
    gated = graph.gate("swiglu", graph.product("gate", x, FF), graph.product("up", x, FF))
    down = graph.product("down", gated, FF, values=FF)
    assert graph.nodes(graph.probe.add(down, gated)) == [
        "int8 rows",
        "swiglu of gate, up",
        "int8 rows",
        "down + sum",
    ]


def test_rows_are_picked_between_a_product_and_its_sum() -> None:
    """As in the last layer, where few tokens are outputs."""
    graph = Graph()
    x = graph.input()
    picked = graph.probe.pick_rows(graph.product("o", x, EMBD), 1)
    x = graph.probe.add(picked, graph.probe.pick_rows(x, 1))
    x = graph.probe.add(graph.product("w", graph.norm("norm", x), EMBD), x)
    assert graph.nodes(x) == ["int8 rows", "o", "int8 rows of sum, norm", "w + sum"]
    assert graph.left() == ["GET_ROWS", "GET_ROWS"]


def test_a_norm_behind_a_product_its_sum_and_the_next_norm_are_one_node() -> None:
    graph = Graph()
    x = graph.input()
    for name in ("attn", "ffn"):
        product = graph.product(name, graph.norm(f"{name}_norm", x), EMBD)
        x = graph.probe.add(graph.norm(f"post_{name}", product), x)
    assert graph.nodes(graph.product("out", graph.norm("last", x), KV)) == [
        "int8 rows attn_norm",
        "attn",
        "int8 rows of post_attn + sum, ffn_norm",
        "ffn",
        "int8 rows of post_ffn + sum, last",
        "out",
    ]
    assert graph.left() == []


def test_two_products_that_are_added_up_are_added_once() -> None:
    """Attention and feed-forward next to each other: one norm, one sum of three."""
    graph = Graph()
    x = graph.input()
    normed = graph.norm("norm", x)
    a = graph.product("a", normed, EMBD)
    b = graph.product("b", normed, EMBD)
    assert graph.nodes(graph.probe.add(graph.probe.add(a, x), b)) == [
        "int8 rows norm",
        "a + sum",
        "b + sum",
    ]
    assert graph.left() == []


def test_products_that_stay_say_why_and_leave_the_others_alone() -> None:
    graph = Graph()
    x = graph.norm("norm", graph.input())
    with_projections(graph, x, ("q4_K", "f32", "q4_K"))
    plan = graph.probe.plan(set())
    assert (plan["n_served"], plan["n_stock"]) == (2, 1)
    assert plan["reason"] == "k.weight: it is left"
    assert graph.nodes() == ["int8 rows", "q, v"]


def test_what_multiplies_no_weights_is_no_product() -> None:
    graph = Graph()
    keys, queries = graph.input(), graph.input()
    graph.probe.expand(graph.probe.multiply(keys, queries))
    plan = graph.probe.plan(set())
    assert (plan["n_served"], plan["n_stock"], plan["nodes"]) == (0, 0, [])


def test_products_of_heads_stay() -> None:
    graph = Graph()
    heads = graph.probe.reshape(graph.input(), HEAD, EMBD // HEAD)
    graph.probe.expand(graph.product("w", heads, KV, "q8_0", values=HEAD))
    assert graph.probe.plan(set())["reason"] == (
        "w.weight: it is more than rows of weights and of activations"
    )


def test_results_of_one_launch_lie_one_behind_the_other() -> None:
    graph = Graph()
    end = with_projections(graph, graph.input(), ("q4_K",) * 3)
    graph.nodes(end)
    reads = {name: sources for _, name, sources in graph.probe.nodes()}
    views = [name for op, name, _ in graph.probe.nodes() if op == "VIEW"]
    assert len(views) == 3
    for view in views:
        assert reads[view] == ["product q.weight"]
