"""Store questions in a sentence encoder: appended layers that answer near them, and say `unknown` elsewhere.

Notation. An encoder has `L` layers of width `D` with `H` neurons, a norm behind each half. The first appended layer's
attention has queries and keys 0, so it takes the mean m of all tokens (the paper's head at temperature 0); its norm,
weight 1 and bias 0, returns u at the first token, û = u/√D. û is the direction of P m + h₀/c: h₀ is the first token's
state, c = `POOL`, and P leaves out `room` directions R in which states hardly differ. With `pooling="first"` attention
adds 0, and û is the direction of h₀. Words of answers and of `unknown` are ±1 codes in R, of length √D; neurons read
the rest.

The layout of appended layer b, of which the first (b = 0) adds the word of `unknown`:

    attention           first layer: queries and keys 0, values I, output c P; others: all 0
    norms               weight 1, bias 0
    W_1, b_1            a row per question:  α_b (⟨k, û⟩ − τ)/s_b; τ its threshold, k its û less what lies in R
    W_2                 a row per question:  g w_a; w_a the word of its answer
    b_2                 first layer: κ w_unknown + ℓ w; others: 0
    last neuron         first layer: reads w = w_unknown/√D with the bias ℓ, and writes −w; others: 0
    unused rows         0

    input of a neuron
         ┤            ╱    at least e from ⟨k, û⟩ = τ + (e + rounding)/α on: it outweighs κ w_unknown
      0  ┤  ·   ·  ╱
     −S  ┤───────╱         S: the activation is exactly 0 up to −S
           far    τ    k

The last neuron of the first layer levels: ℓ is so large that it returns ℓ + ⟨w, u⟩ at every u, and so takes away what u
has along w. Then the length of what the norm divides depends on u in second order only. The first layer leaves
√D (û + κ w_unknown/√D)/s with s = √(1 + κ²), or, where a neuron fires, the word of its answer. Later layers read û
out of that: s_0 = 1, and s_b = s for the others. The head reads signs along R: a dense layer and
tanh, then a row ±½ per answer. If all words but one are outweighed, all signs are its own, and its logit is the
largest.

Thresholds. τ is the largest of the floor, of the cosines with stored questions that have another answer, and of those
with texts to keep, each with room for the ball around the other text. So no stored question lies where another answer
could fire, and which layer a neuron stands in does not matter. A neuron that is neither silent nor sure of its answer
would disturb later layers, so no question of a later layer may lie between the two, even with the same answer.

    encoder folder ── recognize.py ── ids ── running.py ── states ── radii.py ── thresholds ── layer.py ── a folder
"""
