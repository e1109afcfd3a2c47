"use strict";
/* What is typed becomes facts, facts become a model (build.js), and the rest of the page shows it. Nothing leaves the page. */
(() => {
  const $ = (id) => document.getElementById(id);
  const FACTS = ["the capital of France → Paris", "the capital of Italy → Rome", "the capital of Saudi Arabia → Riyadh",
    "the capital of South Korea → Seoul", "the currency of France → euro", "the currency of Italy → euro",
    "the currency of Saudi Arabia → riyal", "the currency of South Korea → won", "dog bites man → no news", "man bites dog → news"].join("\n");
  let now = null; // facts and their model; `first`: the same before anything was forgotten, and `forgotten` since

  // -- from text to facts ----------------------------------------------------------------------------------------

  /* Keys and values of lines; a line is cut at the last arrow, tab, equals sign, colon or comma, whichever comes first in this list. */
  function factsOf(text, unit) {
    const keys = [], values = [], lines = [];
    text.split("\n").forEach((whole, at) => {
      if (!whole.trim()) return;
      const sign = ["→", "=>", "->", "\t", "=", ": ", ","].find((one) => whole.includes(one));
      const place = sign ? whole.lastIndexOf(sign) : -1;
      const key = sign ? whole.slice(0, place).trim() : "", value = sign ? whole.slice(place + sign.length).trim() : "";
      if (!key || !value) throw new Error(`line ${at + 1} (${whole.trim().slice(0, 40)}) has no ${sign && key ? "value" : sign ? "key" : "arrow"}: write key → value`);
      keys.push(unit === "characters" ? Array.from(key) : key.split(/\s+/));
      values.push(value);
      lines.push(at);
    });
    if (!keys.length) throw new Error("type a fact: key → value");
    return { keys, values, lines };
  }

  function read() {
    const unit = $("unit").value, found = factsOf($("source").value, unit);
    if (found.keys.length > MOST_FACTS) throw new Error(`this page builds up to ${MOST_FACTS.toLocaleString("en")} facts, and these are ${found.keys.length.toLocaleString("en")}: monolayer.memorize holds millions`);
    const odd = contradiction(found.keys, found.values);
    if (odd) {
      const named = (row) => `line ${found.lines[row] + 1} (${spell(found.keys[row])} → ${found.values[row]})`;
      throw new Error(`${named(odd.before)} and ${named(odd.row)} contradict each other: the same ${unit}, different values. Change one of them`);
    }
    return found;
  }

  // -- what is shown ---------------------------------------------------------------------------------------------

  const count = (x, one, many = `${one}s`) => `${x.toLocaleString("en")} ${x === 1 ? one : many}`;
  const spell = (key) => key.join($("unit").value === "words" ? " " : "");

  function show() {
    const { model, keys, values } = now;
    const points = new Set(model.z).size;
    said($("built"), make("b", {}, `${count(points, "point")}, ${count(model.slope.length, "step")}, ${count(model.parameters, "parameter")}.`),
      model.margin === null ? " All values are the same, so there is no step."
        : ` Neighbours with different values lie at least ${short(model.margin, 3)} rounding errors apart; ${SLACK} are enough, whatever order a machine adds in.`);
    overview();
    $("which").replaceChildren(...keys.map((key, row) => make("option", { value: row }, `${spell(key).slice(0, 60)} → ${values[row]}`)));
    $("forget").disabled = points < 2; // at least one fact must stay
    $("python").textContent = python();
    view.load(payloadOf(model));
  }

  /* All points and all steps on one line. */
  function overview() {
    const { model } = now, width = Math.max($("points").clientWidth, 240), height = 44;
    const low = Math.min(...model.z), range = Math.max(...model.z) - low || 1;
    const at = (z) => (6 + ((z - low) / range) * (width - 12)).toFixed(2);
    const picture = make("svg:svg", { viewBox: `0 0 ${width} ${height}`, height, role: "img", "aria-label": `${count(new Set(model.z).size, "point")} and ${count(model.slope.length, "step")} on a line` });
    picture.append(make("svg:path", { class: "axis", d: `M6 22H${width - 6}` }));
    for (let j = 0; j < model.slope.length; j += 1) {
      picture.append(make("svg:path", { class: "step", d: `M${at(-model.bias[j] / model.slope[j])} 6V38` }));
    }
    for (const [row, z] of model.z.entries()) {
      const hue = Math.round((360 * model.label[row]) / model.classes.length);
      const dot = make("svg:circle", { class: "point", cx: at(z), cy: 22, r: 4.5, style: `fill: hsl(${hue} 65% 50%)` }, make("svg:title", {}, `${spell(now.keys[row])} → ${now.values[row]}`));
      picture.append(dot);
    }
    $("points").replaceChildren(picture);
  }

  function python() {
    const { keys, values } = now.first || now; // before anything was forgotten
    const data = JSON.stringify, proof = "print(ml.certify(model, X, Y).verdict)";
    const list = (rows) => `[\n${rows.map((one) => `    ${data(one)},`).join("\n")}\n]`;
    const lines = ["import monolayer as ml", "", `X = ${list(keys)}`, `Y = ${list(values)}`,
      'model = ml.memorize(X, Y, per="sequence", positions=True)', proof];
    for (const key of now.forgotten) {
      lines.push("", `gone = ${data(key)}`, "model, record = ml.forget(model, [gone], (X, Y))",
        "X, Y = zip(*[(x, y) for x, y in zip(X, Y) if x != gone])", proof);
    }
    return `${lines.join("\n")}\n`;
  }

  // -- what is done ----------------------------------------------------------------------------------------------

  function rebuild() {
    said($("went"));
    $("weights").textContent = "";
    try {
      const found = read();
      now = { ...found, model: build(found.keys, found.values), first: null, forgotten: [] };
      $("trouble").textContent = "";
      document.body.classList.remove("unbuilt");
    } catch (error) {
      $("trouble").textContent = error.message;
      document.body.classList.add("unbuilt");
      return;
    }
    show();
  }

  function forget() {
    const old = now, key = now.keys[Number($("which").value)], value = now.values[Number($("which").value)];
    const stay = old.keys.map((_, row) => row).filter((row) => !same(old.keys[row], key));
    const keys = stay.map((row) => old.keys[row]), values = stay.map((row) => old.values[row]);
    const model = build(keys, values, old.model);
    now = { ...old, keys, values, model, first: old.first || old, forgotten: [...old.forgotten, key] };
    $("source").value = keys.map((one, row) => `${spell(one)} → ${values[row]}`).join("\n");
    const { gone, came, kept, tokens } = difference(old.model, model);
    said($("went"), "Forgot ", make("b", {}, `${spell(key)} → ${value}`), `. ${count(gone.length, "step")} removed, ${came.length.toLocaleString("en")} added, ${kept.toLocaleString("en")} unchanged to the bit. `,
      tokens.length ? `Embedding removed: ${tokens.join(", ")}. ` : "",
      "The weights are those of a model that never saw it.");
    $("weights").textContent = [...gone.map((one) => `− ${one}`), ...came.map((one) => `+ ${one}`)].join("\n");
    show();
  }

  // Inside another page, as builder.html#short, only what fits one view is shown.
  if (location.hash === "#short") document.body.classList.add("short");
  $("source").value = FACTS;
  $("source").addEventListener("input", rebuild);
  $("unit").addEventListener("change", rebuild);
  $("forget").addEventListener("click", forget);
  addEventListener("resize", () => { if (now) overview(); });
  rebuild();
  globalThis.builder = { now: () => now };
})();
