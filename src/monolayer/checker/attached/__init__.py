"""Judge folders that facts were attached to, from their files. What is proved is Lemmas A1 to A5
(docs/proofs-attached.md).

Notation: `D` is the width, `u` = 2^−24, `v` the unit roundoff of the folder's format, `γ_k = ku/(1 − ku)`, and `h` a
state of the host. û is what the norm of an appended block returns, divided by √D; `|û| ≤ 1 + η` where answers are
claimed, with `η = (D + 16)u` in float32 and `(D + 16)u + v` in short formats; `|û| ≤ λ` at any state, in float32 at any
that is no more than `R` times as long as it is less its mean. A neuron with stored row w and bias b has the key k =
w/|w|, the steepness α = |w|√D and the input α⟨k, û⟩ + b. Its activation is 0 up to −`S`, and `T` is its input at its
own state.

    A1  An evaluation of the input is off by at most err = γ_{D+2} (αλ + |b|), before it is rounded.
    A2  A neuron is silent where ⟨k, û⟩ ≤ s = (−S − b − err)/α. If all neurons are silent, the blocks leave the state
        unchanged. Whatever neurons write in front of the last block stays finite, so that no place changes another.
    A3  On the cap ⟨k, û⟩ ≥ c = (level − b)/α a neuron returns at least 0.999 (level − err), and neurons whose keys are
        further away than both caps reach are silent. In short formats the cap is limited to 1 − cos ≤ `turn`, and to
        inputs up to `high` T.
    A4  A neuron that fires writes at least 0.999 (level − err) w_2, where w_2 is its row. Norms see w̄, the row minus
        its mean, and return its direction to within twice the share of the state and of roundings, which are relative
        to |w_2|. Blocks behind the first one that fires are silent.
    A5  The logit of the answer is then the largest, and finite.
"""
