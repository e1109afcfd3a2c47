"use strict";
/* The network in JavaScript, whose numbers are IEEE binary64: lift, one rank-1 head, staircase.
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
    this.lift = given.lift && { ...pair(given.lift), bias: all(given.lift.bias) };
    this.cells = given.cells && given.cells.map((one) => ladder(all(one.slope), all(one.bias), one.level.map(all)));
    this.begin = { key: shake(given.begin.key), code: shake(given.begin.code) };
    const chosen = change.temperature === undefined ? given.temperature : change.temperature;
    this.temperature = shake(1) * shake(chosen); // W_K and W_Q
    this.kappa = shake(1) * shake(given.kappa); // W_V and W_O
    this.whole = given.readout.number.length === given.readout.steps;
    this.readout = readout(given.readout);
    // Noise in the readout needs every neuron: of a sample the readout stays as it is.
    this.noisy = sigma && this.whole ? neurons(this.readout, all) : null;
    this.head = this.noisy && given.classes ? given.classes.map((_, j) => [shake(2 * j), shake(-j * j)]) : null;
  }

  /* Key and code of a token: a row of the table, or a vector. */
  entry(token, place) {
    let key, code;
    if (this.tokens) {
      key = this.tokens.key[token];
      code = this.tokens.code[token];
    } else if (this.cells) {
      [key, code] = this.cells.reduce((sum, steps, i) => {
        const one = climb(steps, token[i]);
        return [sum[0] + one[0], sum[1] + one[1]];
      }, [0, 0]);
    } else {
      key = token.reduce((sum, x, i) => sum + x * this.lift.key[i], 0) + this.lift.bias[0];
      code = token.reduce((sum, x, i) => sum + x * this.lift.code[i], 0) + this.lift.bias[1];
    }
    if (this.positions) {
      key += this.positions.key[place];
      code += this.positions.code[place];
    }
    return { key, code };
  }

  /* Everything about a sequence: keys, weights, contexts, and at each answering place z, its step and its label. */
  run(sequence) {
    const { causal, per } = this.given;
    const entries = sequence.map((token, place) => this.entry(token, place));
    const keys = [this.begin.key, ...entries.map((one) => one.key)];
    const shared = causal ? null : attend(keys, this.temperature);
    const answer = (code, seen) => {
      const { weights, context } = shared || attend(keys.slice(0, seen), this.temperature);
      return { code, weights, context, ...this.place(code + this.kappa * context) };
    };
    const answers = per === "sequence"
      ? [answer(this.begin.code, keys.length)]
      : entries.map((one, place) => answer(one.code, place + 2));
    return { keys: keys.slice(1), begin: keys[0], answers };
  }

  /* The step that z sits on, the labels beside it, the margin, and the label. */
  place(z) {
    const { start, end, left, right, number, steps } = this.readout;
    let low = 0, high = end.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (end[middle] <= z) low = middle + 1; else high = middle;
    }
    const ramp = low < end.length && z > start[low];
    // In a sample two kept steps may not be neighbours: what lies between them is not on this page.
    const before = low === 0 ? -1 : number[low - 1], after = low === end.length ? steps : number[low];
    const known = !Number.isNaN(z) && (ramp || after === before + 1);
    const below = ramp ? start[low] : low === 0 ? -Infinity : end[low - 1];
    const above = ramp ? end[low] : low === end.length ? Infinity : start[low];
    const here = low < end.length ? left[low] : low ? right[low - 1] : this.given.readout.first;
    const level = this.noisy ? this.noisy(z) : ramp ? climb(this.readout, z, low) : here;
    return {
      z, index: low, step: before + 1, ramp, known: known || Boolean(this.noisy), below, above,
      margin: ramp ? 0 : Math.min(z - below, above - z),
      left: ramp ? this.name(here) : low ? this.name(left[low - 1]) : null,
      right: low < end.length ? this.name(right[low]) : null,
      level, label: this.noisy ? this.loudest(level) : known ? this.name(level) : null,
    };
  }

  /* What users call a label: the class nearest to the level, or the level itself. */
  name(level) {
    const { classes, scalar } = this.given;
    if (!classes) return scalar ? level[0] : level;
    return classes[Math.min(Math.max(even(level[0]), 0), classes.length - 1)];
  }

  /* The same under noise, by the logits 2 j y − j² of a noisy head. */
  loudest(level) {
    if (!this.head) return this.name(level);
    let best = 0;
    const logit = ([slope, bias]) => slope * level[0] + bias;
    this.head.forEach((one, j) => { if (logit(one) > logit(this.head[best])) best = j; });
    return this.given.classes[best];
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

/* Ramps from slopes and biases, with the levels between them. */
function ladder(slope, bias, level) {
  const start = slope.map((w, j) => -bias[j] / w);
  return { slope, bias, start, end: start.map((a, j) => a + 1 / slope[j]), left: level.slice(0, -1), right: level.slice(1), first: level[0] };
}

function readout(given) {
  const start = given.slope.map((w, j) => -given.bias[j] / w);
  return { ...given, start, end: start.map((a, j) => a + 1 / given.slope[j]) };
}

/* The level of a ladder at x: flat between the ramps, linear on them. */
function climb(steps, x, found) {
  const { start, end, slope, bias, left, right, first } = steps;
  let j = found;
  if (j === undefined) {
    j = 0;
    while (j < end.length && end[j] <= x) j += 1;
  }
  if (j === end.length) return j ? right[j - 1] : first;
  if (!(x > start[j])) return left[j];
  const part = Math.min(Math.max(slope[j] * x + bias[j], 0), 1);
  return left[j].map((value, i) => (1 - part) * value + part * right[j][i]);
}

/* The readout neuron by neuron, with `all` shaking every weight: exact, runs and paper as in model/staircase.py. */
function neurons(steps, all) {
  const { form, left, right, first } = steps;
  const count = steps.slope.length, width = first.length;
  const level = [first, ...right];
  const relu = (x) => (x > 0 ? x : 0);
  if (form === "paper") {
    const slope = all(steps.slope.flatMap((w) => [w, w])), bias = all(steps.bias.flatMap((b) => [b, b - 1]));
    const jump = level.slice(1).map((row, j) => row.map((value, i) => value - left[j][i]));
    const out = jump.flatMap((row) => [all(row), all(row.map((value) => -value))]), last = all(first);
    return (z) => last.map((value, i) => slope.reduce((sum, w, k) => sum + out[k][i] * relu(w * z + bias[k]), value));
  }
  const slope = all(steps.slope), bias = all(steps.bias);
  const gate = (z, j) => relu(1 - relu(slope[j] * z + bias[j]));
  if (form === "runs") {
    const out = level.map(all);
    return (z) => {
      const sum = new Array(width).fill(0);
      let before = 0;
      for (let r = 0; r <= count; r += 1) {
        const now = r < count ? gate(z, r) : 1;
        const on = relu(now - before);
        if (on) for (let i = 0; i < width; i += 1) sum[i] += out[r][i] * on;
        before = now;
      }
      return sum;
    };
  }
  const out = right.map((row, j) => all(row.map((value, i) => left[j][i] - value)));
  const last = all(level[count]);
  return (z) => {
    const sum = [...last];
    for (let j = 0; j < count; j += 1) {
      const on = gate(z, j);
      if (on) for (let i = 0; i < width; i += 1) sum[i] += out[j][i] * on;
    }
    return sum;
  };
}
