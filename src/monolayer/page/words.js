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

/* How this model's tokens and labels are written and read. */
function speech(given) {
  const { names, integers } = given.tokens;
  const rows = new Map(names.map((name, row) => [name, row]));
  const characters = !integers && names.every((name) => Array.from(name).length === 1);
  const token = (one) => visible(names[one]) || "⟨empty⟩";
  // Where a name holds a space, or nothing at all, a bar stands between tokens.
  const barred = !characters && names.some((name) => !name || /\s/.test(name));
  // A field of one line holds no line ends: they are typed and shown as signs there.
  const signed = (text) => text.replace(/[\n\r\t]/g, (one) => SIGNS[one]);
  const unsigned = (text) => Object.entries(SIGNS).reduce((all, [one, sign]) => (one === " " || rows.has(sign) ? all : all.replaceAll(sign, one)), text);
  const spelled = (sequence) => signed(sequence.map((one) => names[one]).join(characters ? "" : barred ? "|" : " "));
  const heading = (sequence) => visible(spelled(sequence)) || sequence.map(token).join(" "); // to be read, not typed
  const word = (label) => (label === null || label === undefined ? "—" : visible(String(label)) || "⟨empty⟩");

  function parse(typed) {
    const text = unsigned(typed);
    const parts = characters ? Array.from(text).filter((one) => rows.has(one) || one.trim())
      : barred ? text.split("|").map((one) => (rows.has(one) ? one : one.trim())) : text.trim().split(/\s+/).filter(Boolean);
    const strange = parts.find((one) => !rows.has(one));
    if (strange !== undefined) throw new Error(`${visible(strange)} is not in the vocabulary: the model has never seen it`);
    if (!parts.length) throw new Error("type a token");
    if (given.positions && parts.length > given.positions.key.length) throw new Error(`at most ${given.positions.key.length} tokens: the model has no further positions`);
    return parts.map((one) => rows.get(one));
  }

  return { characters, barred, token, spelled, heading, word, parse };
}
