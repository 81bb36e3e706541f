// Formats numbers and times.

const integer = new Intl.NumberFormat("en");
const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const day = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });

export const NONE = "–";

export function count(number) {
  return number === null || number === undefined ? NONE : integer.format(Math.round(number));
}

export function counted(number, noun) {
  return `${count(number)} ${noun}${number === 1 ? "" : "s"}`;
}

// 1,234 stays; 12,345 becomes 12.3 k. For narrow columns.
export function short(number) {
  if (number === null || number === undefined) return NONE;
  if (Math.abs(number) < 10_000)
    return Number.isInteger(number) || number >= 100 ? count(number) : String(Math.round(number * 10) / 10);
  for (const [unit, size] of [
    ["T", 1e12],
    ["G", 1e9],
    ["M", 1e6],
    ["k", 1e3],
  ]) {
    if (Math.abs(number) >= size) return `${(number / size).toPrecision(3).replace(/\.0+$/, "")} ${unit}`;
  }
  return String(number);
}

export function size(bytes) {
  if (bytes === null || bytes === undefined) return NONE;
  let number = bytes;
  for (const unit of ["B", "kB", "MB", "GB"]) {
    if (number < 999.5) return `${unit === "B" || number >= 100 ? Math.round(number) : number.toFixed(1)} ${unit}`;
    number /= 1000;
  }
  return `${number.toFixed(1)} TB`;
}

export function rate(number) {
  return number === null || number === undefined
    ? NONE
    : number === 0
      ? "0"
      : number < 10
        ? number.toFixed(1)
        : short(Math.round(number));
}

export function span(seconds) {
  if (seconds === null || seconds === undefined) return NONE;
  if (seconds < 1) return seconds > 0 ? "< 1 s" : "0 s";
  if (seconds < 100) return `${Math.round(seconds)} s`;
  if (seconds < 6000) return `${Math.round(seconds / 60)} min`;
  if (seconds < 172_800) return `${Math.round(seconds / 3600)} h`;
  return `${Math.round(seconds / 86_400)} days`;
}

export function latency(ms) {
  if (ms === null || ms === undefined) return NONE;
  return ms < 10 ? `${Math.round(ms * 10) / 10} ms` : ms < 10_000 ? `${count(ms)} ms` : span(ms / 1000);
}

export function time(ms) {
  return ms ? clock.format(ms) : NONE;
}

export function moment(ms, now = Date.now()) {
  if (!ms) return NONE;
  return Math.abs(now - ms) < 43_200_000 ? clock.format(ms) : `${day.format(ms)} ${clock.format(ms)}`;
}

export function ago(ms, now) {
  return ms ? `${span(Math.max(0, now - ms) / 1000)} ago` : "never";
}
