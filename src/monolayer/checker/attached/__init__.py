"""Folders that facts were attached to, judged from their files. What is proved: docs/attach.md, Lemmas A1 to A5.

Notation: `D` width, `u` = 2^−24, `γ_k = ku/(1 − ku)`; `h` a state of the host, `|h| ≤ 2^16`; û what the norm of an
appended block returns, over √D, `|û| ≤ 1 + η`, `η = (D + 16)u`. A neuron with stored row w and bias b has the key
k = w/|w|, the steepness α = |w|√D and the input α⟨k, û⟩ + b; `S`: its activation is 0 up to −S; `T = max(64, 8S)`.

    A1  an evaluation of the input is off by at most err = γ_{D+2} (α(1 + η) + |b|)
    A2  a neuron is silent where ⟨k, û⟩ ≤ s = (−S − b − err)/α; if all are, the state leaves the blocks as it came;
        what any neurons write stays finite, so that no place changes another
    A3  on the cap ⟨k, û⟩ ≥ c = (T/2 − b)/α a neuron returns at least 0.999 (T/2 − err), and those whose keys are
        further away than both caps reach are silent
    A4  what fires writes at least (T/16) w_2 along its row w_2; norms see w̄, the row less its mean, and return that
        direction to within 2 · 2^16 · 16/(T |w̄|) and rounding, which is relative to |w_2|; blocks behind it are silent
    A5  the logit of the answer is then the largest, and finite
"""
