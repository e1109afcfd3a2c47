"""The packed readout: labels of a sequence as whole numbers, unpacked without an error."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import monolayer as ml
from monolayer_experiments.packed import PACKED_BITS, memorize_packed, pack, unpacking


@settings(max_examples=6, deadline=None)
@given(st.integers(1, PACKED_BITS), st.integers(1, 4), st.data())
def test_every_digit_of_every_number_comes_out_as_python_computes_it(
    bits: int, numbers: int, data: st.DataObject
) -> None:
    each = PACKED_BITS // bits
    held = data.draw(st.lists(st.integers(0, 2 ** (bits * each) - 1), min_size=numbers, max_size=numbers))
    held = [number << (PACKED_BITS - bits * each) for number in held]
    network = unpacking(numbers, bits)
    for chosen, digit in [(0, 0), (numbers - 1, each - 1), (numbers // 2, each // 2)]:
        choice = [float(i == chosen) for i in range(numbers)]
        x = torch.tensor([*map(float, held), *choice, float(digit)], dtype=torch.float64)
        wanted = (held[chosen] >> (PACKED_BITS - bits * (digit + 1))) & (2**bits - 1)
        assert int(network(x).item()) == wanted
        # Whole numbers add up exactly in any order: the same network over Python's integers.
        state = [int(value) for value in x.tolist()]
        for layer in network:
            if isinstance(layer, torch.nn.Linear):
                rows, bias = layer.weight.tolist(), layer.bias.tolist()
                assert all(float(w).is_integer() for row in rows for w in row)
                terms = [[int(w) * s for w, s in zip(row, state, strict=True)] for row in rows]
                for term, constant in zip(terms, bias, strict=True):
                    every = [*term, int(constant)]
                    # So every part of the sum, in any order, is a whole number that float64 holds.
                    assert sum(t for t in every if t > 0) <= 2**53
                    assert sum(t for t in every if t < 0) >= -(2**53)
                state = [sum(t) + int(b) for t, b in zip(terms, bias, strict=True)]
            else:
                state = [max(0, value) for value in state]
        assert state == [wanted]


def test_all_labels_come_back_and_one_bit_too_many_is_refused() -> None:
    random = np.random.default_rng(0)
    X = np.stack([random.permutation(40)[:9] for _ in range(50)])
    Y = random.integers(0, 2**10, X.shape)
    model = memorize_packed(X, Y, 10)
    assert (model.predict(X) == Y).all()
    assert ml.certify(model.body, X, pack(Y, 10)).verdict == "proved"
    with torch.no_grad():
        model.body.feed_forward.stages[0].weight_2[0, 3] += 1.0  # the last bit of a packed number
        model.body.feed_forward.stages[0].weight_2[0, 3] += 2.0 ** (PACKED_BITS - 10)
    assert (model.predict(X) != Y).any()
    with pytest.raises(ml.DataError, match="below 2"):
        memorize_packed(X, Y, 9)
