"use strict";
/* Words: names of tokens and labels, numbers as people read them, and what is typed as a sequence. */

/* An element with attributes, and strings or elements inside. */
function make(tag, attributes = {}, ...inside) {
  const one = tag.startsWith("svg:") ? document.createElementNS("http://www.w3.org/2000/svg", tag.slice(4)) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) one.setAttribute(name, value);
  if (inside.length) said(one, ...inside);
  return one;
}

/* Strings become text and nothing else: names of tokens and labels may hold any character. */
function said(element, ...parts) {
  element.replaceChildren(...parts.map((part) => (part instanceof Node ? part : document.createTextNode(String(part)))));
}

/* A number in few digits, with a raised exponent where it is very large or small. */
function short(x, digits = 4) {
  if (x === Infinity) return "∞";
  if (x === -Infinity) return "−∞";
  if (Number.isInteger(x) && Math.abs(x) < 1e9) return x.toLocaleString("en").replace("-", "−");
  const text = Math.abs(x) >= 1e-3 && Math.abs(x) < 1e6 ? String(Number(x.toPrecision(digits))) : x.toExponential(digits - 2);
  const raised = (digits_) => [...digits_].map((one) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[one] || "⁻").join("");
  return text.replace(/e\+?(-?\d+)$/, (_, power) => `·10${raised(power)}`).replace(/-/g, "−");
}

const same = (a, b) => JSON.stringify(a) === JSON.stringify(b);

/* White space and nothing at all as signs that can be seen: those of explain, and what has none. */
const SIGNS = { " ": "␣", "\n": "↵", "\r": "␍", "\t": "⇥" };
const visible = (text) => (/^\s|\s$/.test(text) ? text.replace(/[ \n\r\t]/g, (one) => SIGNS[one]) : text);

/* A text cut as Python cuts it (data/text.py): into characters, or into words, spaces and signs. */
function cut(text, unit) {
  const letter = "[\\p{L}\\p{N}_]", space = "(?:(?!\\ufeff)[\\s\\x1c-\\x1f\\x85])";
  const word = new RegExp(`${letter}+(?:['’]${letter}+)*|${space}+|(?!${letter}|${space})[^]`, "gu");
  return unit === "characters" ? Array.from(text) : text.match(word) || [];
}

/* Sizes of short windows of a text, below the full one: powers of two and three halves of them (data/text.py). */
function shortSizes(window) {
  const sizes = [1];
  for (let size = 1; size <= window; size *= 2) sizes.push(2 * size, 3 * size);
  return sizes.filter((size) => size < window);
}

/* How this model's tokens and labels are written and read. */
function speech(given) {
  const { script } = given;
  const names = given.tokens ? given.tokens.names.map(String) : null;
  const rows = names && new Map(names.map((name, row) => [name, row]));
  const characters = Boolean(names) && names.every((name) => Array.from(name).length === 1 && typeof given.tokens.names[0] === "string");
  const dim = given.lift ? given.lift.key.length : given.cells ? given.cells.length : 0;
  const token = (one) => (names ? visible(names[one]) || (script ? "⟨begin⟩" : "⟨empty⟩") : `(${one.map((x) => short(x, 4)).join(", ")})`);
  // Where a name holds a space, or nothing at all, a bar stands between tokens.
  const barred = Boolean(names) && !script && names.some((name) => !name || /\s/.test(name)) && !characters;
  // A field of one line holds no line ends: they are typed and shown as signs there.
  const signed = (text) => text.replace(/[\n\r\t]/g, (one) => SIGNS[one]);
  const unsigned = (text) => Object.entries(SIGNS).reduce((all, [one, sign]) => (one === " " || (rows && rows.has(sign)) ? all : all.replaceAll(sign, one)), text);
  const spelled = (sequence) => (names ? signed(sequence.map((one) => names[one]).join(characters || script ? "" : barred ? "|" : " ")) : sequence.map((one) => one.join(" ")).join("; "));
  const heading = (sequence) => visible(spelled(sequence)) || sequence.map(token).join(" "); // to be read, not typed
  const word = (label) => (label === null || label === undefined ? "—" : given.classes ? visible(String(label)) || (script ? "⟨end⟩" : "⟨empty⟩")
    : typeof label === "number" ? short(label, 6) : Array.isArray(label) ? `(${label.map((x) => short(x, 4)).join(", ")})` : String(label));

  function parse(typed) {
    if (!names) {
      const sequence = typed.split(/[;\n]/).filter((part) => part.trim()).map((part) => part.trim().split(/[\s,]+/).map(Number));
      const bad = sequence.find((one) => one.length !== dim || !one.every(Number.isFinite));
      if (bad) throw new Error(`a token is ${dim} ${dim === 1 ? "number" : "numbers"}; tokens are separated by ;`);
      return checked(sequence);
    }
    const text = unsigned(typed);
    const parts = script ? cut(text, script.unit)
      : characters ? Array.from(text).filter((one) => rows.has(one) || one.trim())
        : barred ? text.split("|").map((one) => (rows.has(one) ? one : one.trim())) : text.trim().split(/\s+/).filter(Boolean);
    const strange = parts.find((one) => !rows.has(one));
    if (strange !== undefined) {
      const why = names.length < given.vocabulary ? "is not in the sample of this page" : "is not in the vocabulary: the model has never seen it";
      throw new Error(`${visible(strange)} ${why}`);
    }
    const sequence = parts.map((one) => rows.get(one));
    return checked(script ? prompt(sequence) : sequence);
  }

  /* What a model of a text is asked: the begin marker and the first tokens, or the last few of a longer prompt. */
  function prompt(sequence) {
    const begun = rows.has("") ? [rows.get(""), ...sequence] : [];
    if (begun.length && begun.length <= script.window && (!sequence.length || given.examples.tokens.some((one) => same(one, begun)))) return begun;
    const size = sequence.length >= script.window ? script.window : Math.max(...shortSizes(script.window).filter((one) => one <= sequence.length));
    return sequence.slice(-size);
  }

  function checked(sequence) {
    if (!sequence.length) throw new Error("type a token");
    if (given.positions && sequence.length > given.positions.key.length) throw new Error(`at most ${given.positions.key.length} tokens: the model has no further positions`);
    if (given.length && sequence.length !== given.length) throw new Error(`exactly ${given.length} tokens: the model approximates a function of as many`);
    return sequence;
  }

  return { names, characters, barred, dim, token, spelled, heading, word, parse };
}
