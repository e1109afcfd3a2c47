"use strict";
/* The view: what is typed goes through the network, and every number on the way is shown. `view.load` takes what
   monolayer/page/payload.py or build.js makes of a model. */
const view = (() => {
  const $ = (id) => document.getElementById(id);
  const state = { sequence: null, place: 0, seed: 1 };
  let given, built, network, result, rows; // rows: which example a sequence is
  let characters, barred, token, spelled, heading, word, parse;
  const bold = (text, good) => make("b", { class: good ? "good" : "bad" }, text);

  // -- the model in words --------------------------------------------------------------------------------------

  function facts() {
    const number = (x) => x.toLocaleString("en");
    const order = given.positions ? ", order matters" : "";
    const parts = [`${number(given.tokens.names.length)} tokens`, `${number(given.classes.length)} classes, one per ${given.per}${order}`,
      `${number(given.readout.slope.length)} steps`, `${number(given.parameters)} parameters`, `softmax temperature λ = ${short(given.temperature)}`,
      `weight of the context κ = ${short(given.kappa)}`];
    const all = [parts.join(" · ")];
    if (given.verdict) all.push(" · ", make("span", { id: "verdict", class: given.verdict === "proved" ? "proved" : "" }, `certificate: ${given.verdict}`));
    said($("facts"), ...all);
    said($("hint"), characters ? "Type characters the model knows, or pick an example below"
      : `Type tokens, with ${barred ? "| between them" : "spaces between them"}, or pick an example below`);
  }

  // -- a sequence ------------------------------------------------------------------------------------------------

  /* The labels of the data for this sequence, null at places without one; null for a sequence that is not among them. */
  function stored(sequence) {
    const row = given.examples.given ? rows.get(JSON.stringify(sequence)) : undefined;
    return row === undefined ? null : given.per === "sequence" ? [given.examples.labels[row]] : given.examples.labels[row];
  }
  /* The labels that this sequence should have: those of the data, else those of the model as it was built. */
  function wanted(sequence) {
    const labels = stored(sequence);
    return built.run(sequence).answers.map((one, place) => (labels && labels[place] !== null ? labels[place] : one.label));
  }

  function answers() {
    const right = wanted(state.sequence);
    const cards = result.answers.map((one, place) => {
      const wrong = !same(one.label, right[place]);
      const input = make("input", { type: "radio", name: "place", value: place });
      input.checked = place === state.place;
      input.addEventListener("change", () => { state.place = place; line(); });
      const label = make("span", { class: "label" }, word(one.label), ...(wrong ? [" ", make("s", {}, word(right[place]))] : []));
      const head = given.per === "sequence" ? heading(state.sequence) : token(state.sequence[place]);
      return make("label", wrong ? { class: "wrong" } : {}, input, make("span", { class: "token" }, head), label);
    });
    $("answer").replaceChildren(...cards);
    said($("said"), `The model answers: ${result.answers.map((one) => word(one.label)).join(", ")}.`);
  }

  function attention() {
    const cells = result.weights.flatMap((weight, l) => [
      make("span", { class: l ? "" : "begin" }, l ? token(state.sequence[l - 1]) : "begin token"),
      make("span", { class: "bar", style: `width: ${(100 * weight).toFixed(2)}%`, "aria-hidden": "true" }),
      make("span", {}, `${(100 * weight).toFixed(1)} % · s = ${short(result.keys[l])}`)]);
    $("attention").replaceChildren(...cells);
  }

  // -- the line --------------------------------------------------------------------------------------------------

  /* What of the line is shown: two runs on either side, but never so far that the own step is lost. */
  function extent(one) {
    const { start, end } = network.readout;
    const low = Math.max(one.step - 3, 0), high = Math.min(one.step + 2, start.length - 1);
    const inner = [Number.isFinite(one.below) ? one.below : one.z - 1, Number.isFinite(one.above) ? one.above : one.z + 1];
    const own = Math.max(inner[1] - inner[0], 1e-300);
    const left = low < one.step ? start[low] : inner[0], right = high >= one.step ? end[high] : inner[1];
    const from = Math.max(left - 0.1 * (right - left), inner[0] - 4 * own), to = Math.min(right + 0.1 * (right - left), inner[1] + 4 * own);
    const half = Math.max((to - from) / 2, Math.abs(one.z) * 1e-15, 1e-15);
    return [(from + to) / 2 - half, (from + to) / 2 + half];
  }

  function line() {
    const one = result.answers[state.place];
    const box = $("line"), width = Math.max(box.clientWidth, 240), height = 210, base = height - 34;
    const view = make("svg:svg", { viewBox: `0 0 ${width} ${height}`, height, role: "img", "aria-label": `z = ${one.z} on the staircase of labels` });
    const [from, to] = extent(one);
    const across = (x) => ((Math.min(Math.max(x, from), to) - from) / (to - from)) * width;
    const { start, end, level } = network.readout;
    let low = 0;
    while (low < end.length && end[low] < from) low += 1;
    // Runs in the window: from the end of one ramp to the start of the next.
    const runs = [];
    for (let j = low; j <= start.length && runs.length < 400 && (j === low || start[j - 1] <= to); j += 1) {
      runs.push({ from: j ? Math.max(end[j - 1], from) : from, to: j < start.length ? Math.min(start[j], to) : to, level: level[j] });
    }
    const heights = runs.map((run) => run.level).concat(one.level);
    const least = Math.min(...heights), most = Math.max(...heights);
    const up = (value) => (most > least ? base - 16 - ((value - least) / (most - least)) * (base - 62) : base - 60);
    view.append(make("svg:path", { class: "axis", d: `M0 ${base}H${width}` }));
    let path = "";
    for (const run of runs) {
      path += `${path ? "L" : "M"}${across(run.from).toFixed(2)} ${up(run.level).toFixed(2)}H${across(run.to).toFixed(2)}`;
    }
    view.append(make("svg:path", { class: "stair", d: path }));
    let edge = -Infinity;
    for (const run of runs) {
      const middle = (across(run.from) + across(run.to)) / 2, text = word(network.name(run.level)), room = text.length * 7.5;
      const at = Math.min(Math.max(middle, room / 2 + 2), width - room / 2 - 2);
      if (at - room / 2 < edge || across(run.to) - across(run.from) < 3) continue;
      edge = at + room / 2 + 4;
      const own = one.z >= run.from && one.z <= run.to;
      view.append(make("svg:text", { x: at.toFixed(1), y: (up(run.level) - (own ? 13 : 9)).toFixed(1), "text-anchor": "middle" }, text));
    }
    for (const other of cloud()) {
      if (other.z < from || other.z > to || other.z === one.z) continue;
      view.append(make("svg:circle", { class: "other", cx: across(other.z).toFixed(2), cy: base, r: 3.5 }));
    }
    const high = up(one.level), x = across(one.z).toFixed(2);
    if (!one.ramp) {
      view.append(make("svg:path", { class: "own", d: `M${across(one.below).toFixed(2)} ${base}H${across(one.above).toFixed(2)}` }));
    }
    view.append(make("svg:path", { class: "drop", d: `M${x} ${base}V${high.toFixed(2)}` }), make("svg:circle", { class: "z", cx: x, cy: high.toFixed(2), r: 6 }),
      make("svg:circle", { class: "z", cx: x, cy: base, r: 4.5 }));
    view.append(make("svg:text", { class: "small", x: 2, y: base + 18 }, plain(from)), make("svg:text", { class: "small", x: width - 2, y: base + 18, "text-anchor": "end" }, plain(to)));
    box.replaceChildren(view);
    const name = given.per === "sequence" ? "The sequence" : token(state.sequence[state.place]);
    said($("where"), `${name} has z = t + κc = ${short(one.code, 6)} ${network.kappa < 0 ? "−" : "+"} ${short(Math.abs(network.kappa), 6)} · ${short(result.context, 6)} = ${String(one.z).replace("-", "−")}`);
    const count = (x) => x.toLocaleString("en"), all = start.length;
    const step = one.step === 0 ? `Before the first of ${count(all)} steps` : `After step ${count(one.step)} of ${count(all)}`;
    said($("beside"), one.ramp ? `On the ramp between ${word(one.left)} and ${word(one.right)}.`
      : `${all ? step : "There are no steps"}, between ${side(one.left)} and ${side(one.right)}; z may move by ${short(one.margin, 3)} before the answer changes. Grey: other examples.`,
    network.noisy ? " Under noise the staircase is drawn as it was built, and the dot where the noisy one puts it." : "");
  }
  const plain = (x) => short(x, 8);
  const side = (label) => (label === null ? "the end of the line" : word(label));

  function cloud() {
    return given.examples.tokens.slice(0, shown()).flatMap((one) => network.run(one).answers);
  }
  // Noise in the readout takes every neuron at every place: as many examples as that allows.
  const shown = () => (network.noisy ? Math.max(4, Math.min(60, Math.floor(4e6 / (given.readout.slope.length + 1) / 8))) : 60);

  // -- all examples under a change ---------------------------------------------------------------------------------

  function change() {
    const t = Number($("temperature").value), n = Number($("noise").value);
    const built_ = given.temperature, sign = Math.sign(built_) || 1;
    const temperature = t === 50 ? built_ : t === 0 ? 0 : t === 100 ? sign * Infinity : (built_ || 1) * 10 ** ((t - 50) / 12.5);
    const noise = n === 0 ? 0 : 10 ** (-16 + 0.16 * n);
    network = new Network(given, { temperature, noise, seed: state.seed });
    const moved = t !== 50 || n !== 0;
    if ($("verdict")) said($("verdict"), moved ? make("s", {}, `certificate: ${given.verdict}`) : `certificate: ${given.verdict}`, moved ? " for the weights as built, not for these" : "");
    const warm = t === 50 ? `λ = ${short(built_)}, as built` : t === 0 ? "λ = 0, the mean" : t === 100 ? "λ = ∞, hardmax" : `λ = ${short(temperature, 3)}`;
    const loud = n === 0 ? "none" : `every weight by ${short(noise, 2)} of itself`;
    said($("temperature-said"), warm);
    said($("noise-said"), loud);
    $("temperature").setAttribute("aria-valuetext", warm);
    $("noise").setAttribute("aria-valuetext", loud);
    examples();
    if (result) show();
  }

  function examples() {
    const some = given.examples.tokens.slice(0, shown());
    let right = 0, total = 0;
    const found = some.map((sequence) => {
      const { answers: all, keys, context } = network.run(sequence), labels = wanted(sequence);
      const good = all.map((one, place) => same(one.label, labels[place]));
      const known = stored(sequence), counted = good.filter((_, place) => !known || known[place] !== null);
      right += counted.filter(Boolean).length;
      total += counted.length;
      return { sequence, answers: all, keys, context, good };
    });
    const whose = given.examples.given ? "of the data" : "of the model as built";
    said($("score"), "Labels ", whose, ": ", bold(`${right} of ${total}`, right === total), " come back.");
    const open = $("examples").children.length === found.length ? [...$("examples").children] : null;
    const items = found.map(({ sequence, answers: all, good }, row) => {
      const words = all.flatMap((one, place) => [place ? " " : "", good[place] ? document.createTextNode(word(one.label)) : make("mark", {}, word(one.label))]);
      const inside = [document.createTextNode(heading(sequence)), make("span", { class: "out" }, ...words)];
      const item = open ? open[row] : make("li", {}, make("button", { type: "button" }));
      const button = item.firstChild;
      button.replaceChildren(...inside);
      button.setAttribute("aria-current", String(same(sequence, state.sequence)));
      if (!open) button.addEventListener("click", () => choose(sequence));
      return item;
    });
    if (!open) $("examples").replaceChildren(...items);
    strip(found);
  }

  /* Contexts of the examples as points on one line, and how many of them floats tell apart. */
  function strip(found) {
    const width = Math.max($("contexts").clientWidth, 240), height = 46;
    const keys = found.flatMap((one) => one.keys), low = Math.min(...keys), range = Math.max(...keys) - low || 1;
    const seen = new Map(found.map((one) => [[...one.keys].sort((a, b) => a - b).join(), { c: one.context, mine: same(one.sequence, state.sequence) }]));
    const sorted = [...seen.values()].sort((a, b) => a.c - b.c);
    const apart = sorted.filter((one, k) => k === 0 || one.c - sorted[k - 1].c > 1e-13 * range).length;
    const view = make("svg:svg", { viewBox: `0 0 ${width} ${height}`, height, role: "img", "aria-label": `${apart} different contexts on a line from the smallest to the largest key` });
    view.append(make("svg:path", { class: "axis", d: `M6 16H${width - 6}` }));
    const at = (c) => (6 + ((c - low) / range) * (width - 12)).toFixed(2);
    for (const one of sorted.sort((a, b) => a.mine - b.mine)) view.append(make("svg:circle", { class: `context${one.mine ? " mine" : ""}`, cx: at(one.c), cy: 16, r: 6 }));
    view.append(make("svg:text", { class: "small", x: 2, y: 40 }, "smallest key"), make("svg:text", { class: "small", x: width - 2, y: 40, "text-anchor": "end" }, "largest key"));
    $("contexts").replaceChildren(view);
    said($("apart"), `${seen.size} different contexts of the examples (the dots): `, bold(`${apart} told apart`, apart === seen.size), ".");
  }

  // -- together ----------------------------------------------------------------------------------------------------

  function show() {
    result = network.run(state.sequence);
    state.place = Math.min(state.place, result.answers.length - 1);
    answers();
    attention();
    line();
  }
  function choose(sequence, typed = false) {
    state.sequence = sequence;
    state.place = 0;
    $("problem").textContent = "";
    document.body.classList.remove("stale");
    if (!typed) $("text").value = spelled(sequence);
    show();
    examples();
  }

  $("text").addEventListener("input", () => {
    try {
      choose(parse($("text").value), true);
    } catch (error) {
      $("problem").textContent = error.message;
      document.body.classList.add("stale"); // what stands below belongs to the text before
    }
  });
  $("temperature").addEventListener("input", change);
  $("noise").addEventListener("input", change);
  $("draw").addEventListener("click", () => { state.seed += 1; if ($("noise").value === "0") $("noise").value = 50; change(); });
  $("reset").addEventListener("click", () => { $("temperature").value = 50; $("noise").value = 0; change(); });
  addEventListener("resize", () => { if (result) { line(); examples(); } });

  function load(payload) {
    given = payload;
    built = network = new Network(given);
    ({ characters, barred, token, spelled, heading, word, parse } = speech(given));
    rows = new Map(given.examples.tokens.map((one, row) => [JSON.stringify(one), row]).reverse());
    $("examples").replaceChildren();
    result = null;
    facts();
    choose(given.examples.tokens[0]);
    change();
    document.documentElement.dataset.drawn = "1";
    // For whoever wants the numbers: the page's own network, and how it reads text.
    globalThis.monolayer = { given, Network, parse, spelled, run: (sequence) => network.run(sequence) };
  }
  return { load, choose };
})();
