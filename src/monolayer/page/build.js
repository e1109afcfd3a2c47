"use strict";
/* The construction in JavaScript: facts become the weights that `monolayer.memorize` gives them, to the bit.
   It takes the same steps in the same order as src/monolayer/construct/line: random keys, contexts, the draw that spreads
   them best, sorted points, one step between neighbours with different labels. Numbers are IEEE binary64 in both; exp is
   written out in both (exponential.py), and sums are added in NumPy's order. */

const UNIT = 2 ** -53;
const SLACK = 8; // neighbours with different labels must lie this many rounding errors apart (points.py)
const TEMPERATURES = [1, 2, 0.5, 4]; // one draw each (draw.py)
const MOST_FACTS = 1000; // so that a page stays quick; Python holds millions

// -- numbers as NumPy and Python make them ---------------------------------------------------------------------

/* numpy.random.default_rng(words).random(): a SeedSequence of 32-bit words seeds PCG64. */
function generator(words) {
  const mixer = (start, factor) => {
    let salt = start;
    return (value) => {
      let found = value ^ salt;
      salt = Math.imul(salt, factor);
      found = Math.imul(found, salt);
      return (found ^ (found >>> 16)) >>> 0;
    };
  };
  const hash = mixer(0x43b0d7e5, 0x931e8875);
  const pool = [0, 1, 2, 3].map((i) => hash(i < words.length ? words[i] : 0));
  for (let from = 0; from < 4; from += 1) {
    for (let to = 0; to < 4; to += 1) {
      if (from === to) continue;
      const found = Math.imul(0xca01f9dd, pool[to]) - Math.imul(0x4973f715, hash(pool[from]));
      pool[to] = (found ^ (found >>> 16)) >>> 0;
    }
  }
  const last = mixer(0x8b51f9dd, 0x58f38ded);
  const half = [0, 1, 2, 3, 4, 5, 6, 7].map((i) => BigInt(last(pool[i % 4])));
  const wide = (i) => BigInt.asUintN(128, ((half[i] | (half[i + 1] << 32n)) << 64n) | (half[i + 2] | (half[i + 3] << 32n)));
  const step = (wide(4) << 1n) | 1n;
  const next = (state) => BigInt.asUintN(128, state * 0x2360ed051fc65da44385df649fccf645n + step);
  let state = next(next(0n) + wide(0));
  return () => {
    state = next(state);
    const mixed = BigInt.asUintN(64, (state >> 64n) ^ state), turn = state >> 122n;
    const word = BigInt.asUintN(64, (mixed >> turn) | (mixed << (64n - turn)));
    return Number(word >> 11n) * UNIT;
  };
}

const powerOfTwo = (() => {
  const float = new Float64Array(1), words = new Uint32Array(float.buffer);
  return (exponent) => {
    words[1] = (exponent + 1023) << 20;
    return float[0];
  };
})();

/* The largest power of two up to a positive number. */
const powerBelow = (() => {
  const float = new Float64Array(1), words = new Uint32Array(float.buffer);
  return (value) => {
    float[0] = value;
    words[1] &= 0x7ff00000;
    words[0] = 0;
    return float[0];
  };
})();

/* e^x as in construct/line/exponential.py. */
function exponential(x) {
  const power = even(x * 1.44269504088896338700);
  const high = x - power * 6.93147180369123816490e-1, low = power * 1.90821492927058770002e-10;
  const rest = high - low, square = rest * rest;
  let series = square * 4.13813679705723846039e-8;
  for (const factor of [-1.65339022054652515390e-6, 6.61375632143793436117e-5, -2.77777777770155933842e-3, 1.66666666666666019037e-1]) {
    series = (series + factor) * square;
  }
  const curve = rest - series;
  const found = 1 - ((low - (rest * curve) / (2 - curve)) - high);
  return found * powerOfTwo(power >> 1) * powerOfTwo(power - (power >> 1));
}

/* numpy.add.reduceat over one row: the first number, plus the others added in pairs of pairs. */
function total(values) {
  const sum = (from, count) => {
    if (count < 8) {
      let found = -0;
      for (let i = 0; i < count; i += 1) found += values[from + i];
      return found;
    }
    if (count > 128) {
      const left = count / 2 - ((count / 2) % 8) | 0;
      return sum(from, left) + sum(from + left, count - left);
    }
    const part = values.slice(from, from + 8);
    let i = 8;
    for (; i < count - (count % 8); i += 8) for (let k = 0; k < 8; k += 1) part[k] += values[from + i + k];
    let found = ((part[0] + part[1]) + (part[2] + part[3])) + ((part[4] + part[5]) + (part[6] + part[7]));
    for (; i < count; i += 1) found += values[from + i];
    return found;
  };
  return values.length > 1 ? values[0] + sum(1, values.length - 1) : values[0];
}

/* Python's order of strings, by code point; JavaScript's own is by halves of surrogate pairs. */
function byCodePoint(a, b) {
  const left = Array.from(a), right = Array.from(b);
  const at = left.findIndex((one, i) => one !== right[i]);
  return at < 0 ? left.length - right.length : at === right.length ? 1 : left[at].codePointAt(0) - right[at].codePointAt(0);
}
const sorted = (names) => [...new Set(names)].sort(byCodePoint);

// -- the construction ------------------------------------------------------------------------------------------

/* A draw for so many tokens and places: keys of begin token, places and tokens, and a temperature (draw.py). */
function draw(number, tokens, longest) {
  const next = generator([0, 0, number]);
  const uniform = (share, count) => Array.from({ length: count }, () => -share + 2 * share * next());
  const begin = uniform(1, 1)[0], place = uniform(0.5, longest);
  return { number, begin, place, key: uniform(0.5, tokens), temperature: TEMPERATURES[number] };
}

/* The context of every row: the mean of its keys under softmax, the begin token's among them. */
function contexts(rows, drawn) {
  const { begin, place, key, temperature } = drawn;
  const weight = (s) => exponential(temperature * s);
  const ofToken = key.map(weight), ofPlace = place.map(weight), ofBegin = weight(begin);
  return rows.map((row) => {
    const shares = row.map((token, l) => ofToken[token] * ofPlace[l]);
    const moments = row.map((token, l) => (key[token] + place[l]) * shares[l]);
    return (total(moments) + begin * ofBegin) / (total(shares) + ofBegin);
  });
}

const contextError = (drawn, longest) => 2 * UNIT * (longest + 1 + 4 * drawn.temperature + 8 + 2);

/* How many contexts a draw separates, and the least gap between two of those as a share of all that they span. */
function quality(drawn, found, longest) {
  const line = Float64Array.from(found).sort();
  const gaps = [...line.subarray(1)].map((c, i) => c - line[i]).filter((gap) => gap > 2 * contextError(drawn, longest));
  return [gaps.length, gaps.length ? Math.min(...gaps) / (line[line.length - 1] - line[0]) : 0];
}

/* Rows in order of their contexts, the places where the label changes, and the least gap there in rounding errors. */
function line(rows, label, drawn, longest) {
  const z = contexts(rows, drawn);
  const order = z.map((_, i) => i).sort((a, b) => z[a] - z[b]);
  const changes = order.flatMap((row, i) => (i + 1 < order.length && label[row] !== label[order[i + 1]] ? [i] : []));
  const error = (at) => contextError(drawn, longest) + UNIT * Math.abs(at);
  const margin = changes.reduce((least, i) => {
    const left = z[order[i]], right = z[order[i + 1]];
    const room = (right - left) / error(Math.max(Math.abs(left), Math.abs(right)));
    return room < least ? room : least;
  }, Infinity);
  return { z, order, changes, margin };
}

/* The model of facts: `keys` are lists of tokens, `values` their labels. `used`: a model whose draw is used again, as
   `memorize(draw=)` and every edit do; without it the best of four draws is taken. */
function build(keys, values, used = null) {
  const names = used ? used.names : sorted(keys.flat());
  const labels = used ? used.classes : sorted(values);
  const tokenOf = new Map(names.map((name, i) => [name, i])), labelOf = new Map(labels.map((name, i) => [name, i]));
  const rows = keys.map((key) => key.map((name) => tokenOf.get(name))), label = values.map((name) => labelOf.get(name));
  const longest = used ? used.longest : rows.reduce((most, row) => Math.max(most, row.length), 0);
  let draws = [used && used.draw];
  if (!used) {
    draws = TEMPERATURES.map((_, number) => draw(number, names.length, longest));
    const rank = new Map(draws.map((one) => [one, quality(one, contexts(rows, one), longest)]));
    draws.sort((a, b) => rank.get(b)[0] - rank.get(a)[0] || rank.get(b)[1] - rank.get(a)[1]);
  }
  const tried = draws.map((one) => [one, line(rows, label, one, longest)]);
  const [drawn, points] = tried.find(([, each]) => each.margin >= SLACK) || [null, null];
  if (!drawn) {
    const best = Math.max(...tried.map(([, each]) => each.margin));
    throw new Error(`two facts with different values lie ${best.toPrecision(2)} rounding errors apart, and a step needs ${SLACK}: `
      + "monolayer.memorize gives such facts a second line, which this page does not build");
  }
  const { z, order, changes, margin } = points;
  const ends = changes.map((i) => [z[order[i]], z[order[i + 1]]]);
  const width = ends.map(([left, right]) => 0.25 * powerBelow(right - left));
  const level = [...changes, order.length - 1].map((i) => label[order[i]]);
  const slope = width.map((one) => 1 / one);
  const bias = ends.map(([left, right], j) => -((left + (right - left - width[j]) * 0.5) * slope[j]));
  const first = Math.floor(names.length / 2);
  const present = new Set(rows.flat());
  return {
    names, classes: labels, longest, draw: drawn, margin: changes.length ? margin : null, z, rows, label, present,
    code: names.map((_, i) => (i - first) * longest), slope, bias, level,
    jump: level.slice(1).map((to, j) => 0 - (to - level[j])),
    parameters: 4 * names.length + 4 * longest + 4 + 64 + 3 * slope.length + 1 + 5 * labels.length,
  };
}

/* Two rows with the same tokens and different labels, or null. */
function contradiction(keys, values) {
  const seen = new Map();
  for (let row = 0; row < keys.length; row += 1) {
    const key = JSON.stringify(keys[row]), before = seen.get(key);
    if (before === undefined) seen.set(key, row);
    else if (values[before] !== values[row]) return { before, row };
  }
  return null;
}

/* The steps that went and came, as their three weights, how many stayed, and which tokens have no vector any more. */
function difference(old, now) {
  const steps = (model) => new Set(model.slope.map((w, j) => `weight_1 ${w}, bias_1 ${model.bias[j]}, weight_2 ${model.jump[j]}`));
  const before = steps(old), after = steps(now), lack = (these, those) => [...these].filter((one) => !those.has(one));
  const gone = lack(before, after), came = lack(after, before);
  const tokens = old.names.filter((_, token) => old.present.has(token) && !now.present.has(token));
  return { gone, came, kept: before.size - gone.length, tokens };
}

/* The model as network.js and view.js take it (payload.py). */
function payloadOf(model) {
  const kept = model.names.map((_, i) => i).filter((i) => model.present.has(i));
  const rowOf = new Map(kept.map((token, i) => [token, i]));
  const { slope, bias, level, draw: drawn } = model;
  return {
    per: "sequence", temperature: drawn.temperature, kappa: 1, begin: { key: drawn.begin, code: 0 },
    positions: { key: drawn.place, code: drawn.place.map((_, i) => i) },
    tokens: { integers: false, names: kept.map((i) => model.names[i]), key: kept.map((i) => drawn.key[i]), code: kept.map((i) => model.code[i]) },
    readout: { slope, bias, level }, classes: model.classes, parameters: model.parameters, verdict: null,
    examples: {
      given: true, tokens: model.rows.map((row) => row.map((token) => rowOf.get(token))), labels: model.label.map((one) => model.classes[one]),
    },
  };
}
