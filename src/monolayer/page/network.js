"use strict";
/* The network in JavaScript, whose numbers are IEEE binary64: a table of tokens, one rank-1 head, staircase.
   Names are those of the Python source: key s, code t, context c, z = t + κ c; step j rises over [a_j, a_j + 1/w_j]. */

/* Normal numbers from a seed, by Box and Muller: the same seed gives the same noise at every strength. */
function gaussians(seed) {
  let state = seed >>> 0;
  const uniform = () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
  return () => Math.sqrt(-2 * Math.log(1 - uniform())) * Math.cos(2 * Math.PI * uniform());
}

class Network {
  /* `given` is what monolayer/page/payload.py writes; `change` = { temperature, noise, seed } departs from it.
     A temperature of ±Infinity is hardmax. */
  constructor(given, change = {}) {
    this.given = given;
    const sigma = change.noise || 0;
    const next = gaussians(change.seed || 1);
    const shake = (value) => (sigma ? value * (1 + sigma * next()) : value);
    const all = (values) => (sigma ? values.map(shake) : values);
    const pair = (table) => table && { ...table, key: all(table.key), code: all(table.code) };
    this.tokens = pair(given.tokens);
    this.positions = pair(given.positions);
    this.begin = { key: shake(given.begin.key), code: shake(given.begin.code) };
    const chosen = change.temperature === undefined ? given.temperature : change.temperature;
    this.temperature = shake(1) * shake(chosen); // W_K and W_Q
    this.kappa = shake(1) * shake(given.kappa); // W_V and W_O
    const start = given.readout.slope.map((w, j) => -given.readout.bias[j] / w);
    this.readout = { ...given.readout, start, end: start.map((a, j) => a + 1 / given.readout.slope[j]) };
    this.noisy = sigma ? neurons(this.readout, all) : null;
    this.head = sigma ? given.classes.map((_, j) => [shake(2 * j), shake(-j * j)]) : null;
  }

  /* Key and code of a token, a row of the table, at its place. */
  entry(token, place) {
    const at = (name) => this.tokens[name][token] + (this.positions ? this.positions[name][place] : 0);
    return { key: at("key"), code: at("code") };
  }

  /* Everything about a sequence: keys and weights, the begin token's first, the context, and at each answering place z, its step and its label. */
  run(sequence) {
    const entries = sequence.map((token, place) => this.entry(token, place));
    const keys = [this.begin.key, ...entries.map((one) => one.key)];
    const { weights, context } = attend(keys, this.temperature);
    const codes = this.given.per === "sequence" ? [this.begin.code] : entries.map((one) => one.code);
    const answers = codes.map((code) => ({ code, ...this.place(code + this.kappa * context) }));
    return { keys, weights, context, answers };
  }

  /* The step that z sits on, the labels beside it, the margin, and the label. */
  place(z) {
    const { start, end, slope, bias, level: levels } = this.readout;
    let step = 0, high = end.length;
    while (step < high) {
      const middle = (step + high) >> 1;
      if (end[middle] <= z) step = middle + 1; else high = middle;
    }
    const ramp = step < end.length && z > start[step];
    const below = ramp ? start[step] : step === 0 ? -Infinity : end[step - 1];
    const above = ramp ? end[step] : step === end.length ? Infinity : start[step];
    let level = levels[step];
    if (this.noisy) level = this.noisy(z);
    else if (ramp) {
      const part = Math.min(Math.max(slope[step] * z + bias[step], 0), 1);
      level = (1 - part) * level + part * levels[step + 1];
    }
    return {
      z, step, ramp, below, above, margin: ramp ? 0 : Math.min(z - below, above - z),
      left: ramp ? this.name(levels[step]) : step ? this.name(levels[step - 1]) : null,
      right: step < end.length ? this.name(levels[step + 1]) : null,
      level, label: this.noisy ? this.loudest(level) : this.name(level),
    };
  }

  /* The class nearest to a level. */
  name(level) {
    const { classes } = this.given;
    return classes[Math.min(Math.max(even(level), 0), classes.length - 1)];
  }

  /* The same under noise, by the logits 2 j y − j² of a noisy head. */
  loudest(level) {
    const logits = this.head.map(([slope, bias]) => slope * level + bias);
    return this.given.classes[logits.reduce((best, one, j) => (one > logits[best] ? j : best), 0)];
  }
}

/* Attention with a constant query: softmax of λ s, and the mean of the keys under it; hardmax shares among the largest. */
function attend(keys, temperature) {
  const hard = Math.abs(temperature) === Infinity;
  const scores = keys.map((key) => (hard ? Math.sign(temperature) * key : temperature * key));
  const top = scores.reduce((a, b) => Math.max(a, b), -Infinity);
  const terms = scores.map((score) => (hard ? Number(score === top) : Math.exp(score - top)));
  const total = terms.reduce((a, b) => a + b, 0);
  const weights = terms.map((term) => term / total);
  const context = keys.reduce((sum, key, l) => sum + key * terms[l], 0) / total;
  return { weights, context };
}

/* Rounding to the nearest integer, ties to even, as Python and PyTorch do it. */
function even(x) {
  const down = Math.floor(x), part = x - down;
  return part > 0.5 || (part === 0.5 && down % 2 !== 0) ? down + 1 : down;
}

/* The readout neuron by neuron, with `all` shaking every weight, as in model/staircase.py. */
function neurons({ slope: slopes, bias: biases, level }, all) {
  const slope = all(slopes), bias = all(biases), relu = (x) => (x > 0 ? x : 0);
  const jump = all(slopes.map((_, j) => level[j] - level[j + 1])), [last] = all(level.slice(-1));
  return (z) => jump.reduce((sum, one, j) => sum + one * relu(1 - relu(slope[j] * z + bias[j])), last);
}
