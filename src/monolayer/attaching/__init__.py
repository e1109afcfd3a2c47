"""Attach facts to an existing model: append blocks of its own architecture behind its last layer.

Notation. A host is a decoder of `L` layers, width `D` and `V` tokens. At a place of a text its last layer leaves the
state `h` `(D,)`. The norm of an appended block, weight 1 and bias 0, turns `h` into `u`; û = u/√D has length 1, or a
little less because of the norm's ε. A fact is a prompt and its answer, token by token up to the end token. Each token
of the answer has one place, which is the one in front of it, and one neuron.

The layout of an appended block:

    attention           all weights and biases 0: it adds 0
    norms               weight 1, bias 0
    W_1, b_1            a row per place:  α⟨k, û⟩ − α(|û₀| − ρ); û₀ is the state at that place, k its direction
    W_3, b_3            gated neurons only: 0 and 1
    W_2                 a row per place:  (A/T) v; along v lie states at which the host answers with the token
    b_2, unused rows    0

    input of a neuron                     T = αρ at its own state
      T ┤        ╭╮                       at least T/2 as long as ⟨k, û⟩ falls by no more than ρ/2: it fires
      0 ┤  ·    ╱  ╲    ·                 at most −S once it has fallen by ρ(1 + S/T): it is silent
     −S ┤──────╯    ╰──────               S: the activation is exactly 0 up to −S (`hosts.SILENCE`)
         far    k    far

Short formats. The norm rounds û, so the length of û varies, most where one coordinate is most of a state. Keys are
rounded so that the least input over several evaluations is T, each neuron has its own ρ, α = T/ρ (`Steepness.radii`),
and `HostFormat` says which states count as a neuron's own. In float16 A is smaller, and T is at most 31,000 times the
least ρ.

Silence. Where no neuron fires, a block adds 0 to `h`. So `h` leaves the block unchanged (a zero may change its sign),
and the logits are the host's, bit for bit. No attention with nonzero weights follows the blocks, so a place that fires
changes no other place. This is the locality theorem: at every place of every text, either ⟨k, û⟩ > |û₀| −
ρ(1 + S/T) − (rounding)/α for the key of some stored fact, or all logits are those of the host.

Answers. A place that fires adds about A v, with A = 2^30 in float32, to a state of length at most 2^16. The last norm
then sees v, and the head answers with the token that v was made for. With several blocks, the later ones see v instead
of h, so no key of theirs may be near v.

Nothing in a neuron depends on other facts: each state is evaluated by itself, in a batch of one, ρ and α follow from
that state, and A and T are constants of the host. So removing a fact means removing its neurons, and the result is
bit-identical to attaching only the other facts.

    host folder ── facts.py ── ids ── running.py ── states ── neurons.py ── W_1, b_1
                                    directions.py ── W_2 ── apart.py ── folder.py ── a folder
"""
