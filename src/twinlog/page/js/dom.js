// Creates elements. Text is only ever set as text: names and errors are untrusted.

const SVG = "http://www.w3.org/2000/svg";

export function h(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

export function s(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.flat(9).filter((each) => each !== null && each !== undefined && each !== false));
  return element;
}

// Changes only what differs: every change affects screen readers and the layout.
export function text(element, words) {
  if (element.textContent !== words) element.textContent = words;
}

export function attribute(element, name, value) {
  if (value === null || value === undefined || value === false) element.removeAttribute(name);
  else if (element.getAttribute(name) !== String(value)) element.setAttribute(name, String(value));
}

// Replaces the children only if they differ.
export function only(parent, children) {
  const wanted = children.filter((each) => each);
  if (wanted.length === parent.childNodes.length && wanted.every((each, at) => each === parent.childNodes[at])) return;
  parent.replaceChildren(...wanted);
}

// Untrusted text in any script; its direction is isolated from its surroundings.
export function name(words, tag = "bdi", attributes = {}) {
  return h(tag, { dir: "auto", ...attributes }, words);
}

// Allows line breaks only after dots and spaces, not within an arrow: us->eu.MirrorSourceConnector
export function breakable(words) {
  return words.split(/(?<=[. ])/).map((piece) => h("span", { class: "piece" }, piece));
}

const SHAPES = {
  // different shapes, so that colour is not needed to distinguish them
  healthy: "M8 1a7 7 0 1 0 0 14A7 7 0 0 0 8 1Zm3.6 5.2-4.1 4.6a.8.8 0 0 1-1.2 0L4.4 8.9l1.2-1.1 1.3 1.3 3.5-4Z",
  lagging:
    "M7.1 1.6a1 1 0 0 1 1.8 0l6.3 11.9a1 1 0 0 1-.9 1.5H1.700a1 1 0 0 1-.9-1.500ZM7.200 5.500v4.500h1.600V5.500Zm0 5.800v1.600h1.600v-1.600Z",
  broken:
    "M5 1h6l4 4v6l-4 4H5l-4-4V5Zm.9 3.800L4.800 5.900 6.900 8l-2.100 2.100 1.100 1.100L8 9.100l2.100 2.100 1.100-1.100L9.100 8l2.100-2.100-1.100-1.100L8 6.900Z",
  lost: "M8 .5 15.5 8 8 15.5.5 8ZM4.500 7.200v1.600h7V7.200Z",
  unknown: "M8 1a7 7 0 1 0 0 14A7 7 0 0 0 8 1ZM4.500 7.200h7v1.600h-7Z",
};

export const LEVELS = { broken: 0, lagging: 1, lost: 2, unknown: 3, healthy: 4 };

export function mark(level, label = level) {
  const path = s("path", { "fill-rule": "evenodd" });
  const element = s("svg", { viewBox: "0 0 16 16", width: 16, height: 16, role: "img" }, path);
  element.set = (now, words = now) => {
    const known = SHAPES[now] ? now : "unknown";
    attribute(element, "class", `mark ${known}`);
    attribute(element, "aria-label", words);
    attribute(path, "d", SHAPES[known]);
  };
  element.set(level, label);
  return element;
}
