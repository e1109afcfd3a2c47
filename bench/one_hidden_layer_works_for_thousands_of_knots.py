"""Claim: with one hidden layer a block, as the paper writes it, approximators of some thousand knots keep their values.

They keep them to a millionth in float64; from ten thousand knots on it depends on the width of the ramps, and for
sorting two numbers at the default width it breaks. The yardstick is the exact form of the same network, in the same
run: the largest difference on 4,096 random sequences off the ramps, over the spread of the values.
"""

from __future__ import annotations

import monolayer as ml
from monolayer.model.one_hidden import OneHidden, one_hidden_error
from monolayer.theory.targets import TARGETS

CASES = (("sort", 1, 2, (8, 32, 64, 128)), ("sort", 1, 3, (8, 16, 32)), ("force", 2, 2, (4, 8)))
RAMPS = (2.0**-20, 2.0**-10, 2.0**-4)
SURE, LOST = 5_000, 0.1


def main() -> None:
    print(f"{'function':10}{'d, n':>6}{'D':>6}{'knots':>9}" + "".join(f"{f'ramp {ramp:.1g}':>14}" for ramp in RAMPS))
    lost = False
    for name, dim, length, sizes in CASES:
        for cells in sizes:
            errors, knots = [], 0
            for ramp in RAMPS:
                model = ml.approximate(TARGETS[name].function, dim, length, cells=cells, ramp=ramp)
                assert model.summary is not None
                knots = model.summary.labelled
                errors.append(one_hidden_error(model, OneHidden(model)))
            print(
                f"{name:10}{f'{dim}, {length}':>6}{cells:>6}{knots:>9,}" + "".join(f"{each:>14.1e}" for each in errors)
            )
            assert knots > SURE or max(errors) <= 1e-6, f"{knots:,} knots lose {max(errors):.1g}"
            lost |= errors[0] > LOST and errors[1] < 1e-4
    assert lost, "no size at which the default ramp breaks and a wider one does not"


if __name__ == "__main__":
    main()
