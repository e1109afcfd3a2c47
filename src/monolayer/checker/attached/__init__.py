"""Folders that facts were attached to, judged from their files. What is proved: docs/attach.md, Lemmas A1 to A5.

Notation: `D` width, `u` = 2^−24, `v` the unit roundoff of the folder's format, `γ_k = ku/(1 − ku)`; `h` a state of the
host; û what the norm of an appended block returns, over √D, `|û| ≤ 1 + η`, `η = (D + 16)u`, in short formats `+ v`. A
neuron with stored row w and bias b has the key k = w/|w|, the steepness α = |w|√D and the input α⟨k, û⟩ + b; `S`: its
activation is 0 up to −S; `T` its input at its own state.

    A1  an evaluation of the input is off by at most err = γ_{D+2} (α|û| + |b|), before it is rounded
    A2  a neuron is silent where ⟨k, û⟩ ≤ s = (−S − b − err)/α; if all are, the state leaves the blocks as it came;
        what any neurons write in front of the last block stays finite, so that no place changes another
    A3  on the cap ⟨k, û⟩ ≥ c = (level − b)/α a neuron returns at least 0.999 (level − err), and those whose keys are
        further away than both caps reach are silent; in short formats the cap is limited to 1 − cos ≤ `turn`, and to
        inputs up to `high` T
    A4  what fires writes at least 0.999 (level − err) w_2 along its row w_2; norms see w̄, the row less its mean, and
        return that direction to within twice the share of the state and of roundings, which are relative to |w_2|;
        blocks behind the first one that fires are silent
    A5  the logit of the answer is then the largest, and finite
"""
