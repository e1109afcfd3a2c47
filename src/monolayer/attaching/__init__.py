"""Facts attached to a model that somebody has: blocks of its own architecture behind its last layer.

Notation. A host is a decoder of `L` layers, width `D` and `V` tokens. At a place of a text its last layer leaves the
state `h` `(D,)`. The norm of an appended block, weight 1 and bias 0, makes of it `u`; û = u/√D has length 1, or a
little less because of the norm's ε. A fact is a prompt and its answer, token by token up to the end token; each token
of the answer has one place, the one in front of it, and one neuron.

The layout of an appended block:

    attention           all weights and biases 0: it adds 0
    norms               weight 1, bias 0
    W_1, b_1            a row per place:  α⟨k, û⟩ − α(|û₀| − ρ), k the direction of û₀, the state at that place
    W_3, b_3            gated neurons only: 0 and 1
    W_2                 a row per place:  (A/T) v, v the direction of states at which the host answers with the token
    b_2, unused rows    0

    input of a neuron                     T = αρ at its own state
      T ┤        ╭╮                       at least T/2 as long as ⟨k, û⟩ falls by no more than ρ/2: it fires
      0 ┤  ·    ╱  ╲    ·                 at most −S once it has fallen by ρ(1 + S/T): it is silent
     −S ┤──────╯    ╰──────               S: the activation is exactly 0 up to −S (`hosts.SILENCE`)
         far    k    far

Short formats. The norm rounds û, so its length moves; keys are rounded so that the least input of several evaluations
is T, and `HostFormat` says which states count as a neuron's own. float16 has a smaller A, and T is at most 31,000 ρ.

Silence. Where no neuron fires, a block adds 0 to `h`, so `h` leaves it as it came (a zero may change its sign), and
the logits are the host's, bit for bit. The blocks stand behind all attention that does anything: a place that fires
changes no other place. This is the locality theorem: at every place of every text, ⟨k, û⟩ > |û₀| − ρ(1 + S/T) −
(rounding)/α for the key of some stored fact, or all logits are those of the host.

Answers. A place that fires adds about A v, A = 2^30 in float32, to a state of length at most 2^16; the last norm then
sees v, and the head answers with the token that v was made for. With several blocks, the ones behind it see v instead
of h: no key of theirs may be near v.

Nothing in a neuron depends on other facts: a state is evaluated by itself, in a batch of one; ρ, α, A and T are
constants of the host. So a fact is taken out by taking its neurons out, and what is left is, bit for bit, what
attaching the other facts gives.

    host folder ── facts.py ── ids ── running.py ── states ── neurons.py ── W_1, b_1
                                    directions.py ── W_2 ── apart.py ── folder.py ── a folder
"""
