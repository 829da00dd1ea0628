/**
 * The synthetic streams of the fake server: what they are, their value at any moment, and their holes.
 *
 * Everything is a pure function of time, so history reaches back as far as anybody asks and every run shows
 * the same. Times are UTC nanoseconds as bigint.
 */

export const SECOND = 1_000_000_000n;
/** Loss is looked for this long before its stage is known. */
const SETTLE = 2n * SECOND;
/** No list of holes grows beyond this. */
const MAX_GAPS = 4096;

/**
 * @typedef {object} Recipe A hole that comes again: every `every` ns, `after` ns into the period.
 * @property {bigint} every
 * @property {bigint} after
 * @property {bigint} length
 * @property {number} code
 * @property {string} evidence
 *
 * @typedef {object} Signal
 * @property {string} name
 * @property {number} rate samples per second
 * @property {string} dtype
 * @property {string} station
 * @property {{name: string, unit: string}[]} channels
 * @property {(t: number, channel: number) => number} value t in seconds of the day
 * @property {Recipe[]} holes
 * @property {boolean} [derived]
 * @property {boolean} [silent]
 * @property {number[]} [shape] of the only channel
 * @property {Record<string, string>} [labels]
 * @property {(t: number, row: number, column: number, plane?: number) => number} [element] value of an element of a shape
 */

/** @param {number} n */
const hash = (n) => {
  let x = Math.imul(n ^ (n >>> 16), 0x45d9f3b);
  x = Math.imul(x ^ (x >>> 16), 0x45d9f3b);
  return ((x ^ (x >>> 16)) >>> 0) / 2 ** 32;
};
/** Noise that is the same for the same moment. @param {number} t @param {number} seed */
const noise = (t, seed = 1) => hash(Math.floor((t * 1e6) % 4e9) + seed * 7919) * 2 - 1;
/** @param {number} x @param {number} at @param {number} width @param {number} height */
const bump = (x, at, width, height) => height * Math.exp(-(((x - at) / width) ** 2));

/** A heart's beat in mV. @param {number} t @param {number} lead */
function ecg(t, lead) {
  const beat = t * 1.18 + 0.06 * Math.sin(t * 0.7);
  const x = beat - Math.floor(beat);
  const shape = bump(x, 0.2, 0.03, 0.14) + bump(x, 0.355, 0.009, -0.16) + bump(x, 0.375, 0.0105, 1.25) +
    bump(x, 0.397, 0.009, -0.32) + bump(x, 0.62, 0.055, 0.29);
  return (lead === 0 ? shape : 0.62 * shape - 0.08) + 0.05 * Math.sin(t * 1.9) + 0.012 * noise(t, lead + 3);
}

/** Ground motion in counts, with an event now and then. @param {number} t @param {number} component */
function seismic(t, component) {
  const micro = 220 * Math.sin(t * 1.3 + component) + 130 * Math.sin(t * 2.9 + component * 2) + 60 * noise(t, component + 11);
  const since = t % 47;
  const wave = (2600 - 500 * component) * Math.exp(-since / 6) * Math.sin(since * (8 - component)) * Math.min(1, since * 2);
  return Math.round(micro + wave);
}

/** Gyrotron power: ramps, flat tops and notches. @param {number} t @param {number} k */
function power(t, k) {
  const x = t % 18;
  const flat = x < 1 ? x : x < 14 ? 1 : x < 15 ? 15 - x : 0;
  const notch = x > 6 && x < 6.25 ? 0.35 : 1;
  return 0.94e6 * flat * notch * (1 + 0.012 * Math.sin(t * 31 + k) + 0.006 * noise(t, k + 21)) + 2e3 * noise(t, k);
}

/** @param {number} every s @param {number} after s @param {number} length s @param {number} code @param {string} evidence @returns {Recipe} */
const hole = (every, after, length, code, evidence) => ({
  every: BigInt(Math.round(every * 1e9)), after: BigInt(Math.round(after * 1e9)),
  length: BigInt(Math.round(length * 1e9)), code, evidence,
});

/** @param {string} name @param {number} rate @param {string} station @param {[string, string][]} channels @param {Signal['value']} value @param {Recipe[]} holes @returns {Signal} */
const signal = (name, rate, station, channels, value, holes = []) => ({
  name, rate, station, dtype: 'f4', value, holes, channels: channels.map(([n, unit]) => ({ name: n, unit })),
});

/** A heated plate seen by a camera in °C, with a corner that it does not see. @param {number} t @param {number} row @param {number} column */
function plate(t, row, column) {
  if (row < 6 && column > 87) return NaN;
  const away = Math.hypot(row - 32, column - 24);
  const spot = Math.hypot(row - 32 - 16 * Math.sin(t / 3), column - 62 - 10 * Math.cos(t / 3));
  return 20 + 180 * Math.exp(-away / 14) + 60 * Math.exp(-((spot / 7) ** 2));
}

/** A slice of a hot column that leans, in °C: each deeper one is shifted and cooler. @param {number} t @param {number} row @param {number} column @param {number} [plane] */
function slice(t, row, column, plane = 0) {
  const away = Math.hypot(row - 16 - 5 * plane, column - 14 - 11 * plane - 3 * Math.sin(t));
  return 20 + (160 - 25 * plane) * Math.exp(-away / 9) + 0.1 * plane;
}

/** Power in V²/Hz: a line at 50 Hz, one that wanders, noise that falls with frequency; nothing at all in the last bin. @param {number} t @param {number} bin */
function power257(t, bin) {
  const hz = 0.9765625 * bin;
  if (bin === 256) return 0;
  const peak = (/** @type {number} */ at, /** @type {number} */ height) => height / (1 + ((hz - at) / 0.8) ** 2);
  return 1e-9 * (1 + 0.3 * noise(t + bin * 0.013, bin)) / (1 + hz / 40) + peak(50, 1e-3) + peak(120 + 30 * Math.sin(t / 4), 2e-5);
}

/** @param {string} name @param {number} rate @param {[string, string]} channel @param {number[]} shape @param {NonNullable<Signal['element']>} element @param {Record<string, string>} [labels] @returns {Signal} */
const field = (name, rate, channel, shape, element, labels = {}) => ({
  ...signal(name, rate, 'sim', [channel], (t) => element(t, 0, 0)), shape, element, labels,
});

/** Streams whose samples have a shape. @returns {Signal[]} */
export function fields() {
  return [
    field('plate/image', 20, ['temperature', '°C'], [64, 96], plate),
    { ...field('plate/camera', 10, ['light', ''], [48, 64], (t, row, column) => (row * 4 + column * 3 + Math.floor(t * 10)) % 256), dtype: 'u8' },
    field('plate/line', 10, ['profile', '°C'], [96], (t, _, column) => plate(t, 32, column)),
    field('plate/blind', 10, ['nothing', 'V'], [8, 8], () => NaN),
    field('plate/stack', 10, ['temperature', '°C'], [4, 48, 64], slice),
    field('plate/shots', 10, ['temperature', '°C'], [2, 3, 24, 32], (t, row, column, plane = 0) => slice(t, 2 * row, 2 * column, plane)),
    field('lab/probes', 10, ['x', 'V²/Hz'], [3, 1, 257], (t, _, bin, plane = 0) => power257(t, Math.max(0, bin - 40 * plane)), { spectrum_bin_hz: '0.9765625', spectrum: 'density' }),
    field('lab/spectrum', 10, ['x', 'V²/Hz'], [257], (t, _, bin) => power257(t, bin), { spectrum_bin_hz: '0.9765625', spectrum: 'density' }),
  ];
}

/** @returns {Signal[]} */
function catalogue() {
  const plasma = (/** @type {number} */ t) => 4.2e19 * (0.7 + 0.3 * Math.tanh(Math.sin(t / 3) * 3)) * (1 + 0.02 * noise(t, 5));
  return [
    signal('clinic/ward-2/ecg', 360, 'bedside-4', [['MLII', 'mV'], ['V5', 'mV']], ecg,
      [hole(23, 17, 0.35, 0, 'recording: no samples between the two blocks')]),
    signal('w7x/ecrh/power', 200_000, 'daq-3', [['gyrotron 1', 'W'], ['gyrotron 2', 'W']], power,
      [hole(9, 3.1, 0.16, 17, 'SO_RXQ_OVFL rose by 37 between datagrams 812 and 850'),
        hole(31, 12.2, 0.9, 6, 'sender tally: queue discipline refused numbers 40 112 to 40 251 (IP_RECVERR, ENOBUFS)')]),
    signal('w7x/interferometer/density', 50_000, 'daq-1', [['line integral', 'm⁻²']], plasma,
      [hole(6, 4.4, 0.0004, 17, 'SO_RXQ_OVFL rose by 1 between datagrams 55 and 57')]),
    signal('w7x/magnetics/mirnov', 1_000_000, 'daq-3', [['probe 7', 'V']],
      (t) => 0.4 * Math.sin(t * 251) * (0.4 + 0.6 * Math.sin(t * 0.9) ** 2) + 0.11 * noise(t, 8),
      [hole(13, 7, 0.42, 254, 'no evidence at either end')]),
    signal('geo/grfo/seismogram', 100, 'vault', [['BHZ', 'counts'], ['BHN', 'counts'], ['BHE', 'counts']], seismic,
      [hole(29, 11, 1.4, 8, 'no counter of either host moved; the switch counts 140 output drops')]),
    signal('geo/grfo/infrasound', 20, 'vault', [['BDF', 'Pa']], (t) => 0.35 * Math.sin(t / 2.1) + 0.1 * Math.sin(t * 2.7) + 0.04 * noise(t, 4)),
    signal('hall/microphones/stereo', 48_000, 'console', [['left', 'V'], ['right', 'V']],
      (t, c) => 0.02 * Math.sin(t * (900 + 300 * c)) * Math.sin(t * 1.1 + c) ** 4 + 0.001 * noise(t, c + 30)),
    signal('host/daq-3/cpu', 1, 'daq-3', [['user', '%'], ['softirq', '%'], ['iowait', '%']],
      (t, c) => Math.max(0, [34, 8, 2][c] ?? 0) * (1 + 0.3 * Math.sin(t / (5 + c))) + 2 * Math.abs(noise(Math.floor(t), c))),
    signal('host/daq-3/net', 1, 'daq-3', [['received', 'B/s'], ['sent', 'B/s']], (t, c) => 1.1e8 * (c + 1) * (1 + 0.1 * Math.sin(t / 7))),
    signal('test/hole', 1000, 'self', [['sine', 'V']], (t) => Math.sin(t * 2 * Math.PI),
      [hole(4, 1, 0.5, 17, 'SO_RXQ_OVFL rose by 500 between datagrams 1000 and 1501')]),
    signal('test/injected', 1000, 'self', [['sine', 'V']], (t) => 2 * Math.sin(t * Math.PI),
      [hole(3, 0.4, 0.12, 3, 'tally: numbers 400 to 402 withheld on purpose'), hole(7, 5, 0.08, 21, 'ring lapped the reader by 2 records')]),
    // A quarter of its samples are 1, the others 0: the envelope is full, the mean is a quarter of it.
    signal('test/pulses', 100_000, 'self', [['on', 'V']], (t) => (noise(t, 9) > 0.5 ? 1 : 0)),
    { ...signal('test/carrier', 1000, 'self', [['f', 'Hz']], (t) => 499_654_096.6 + 0.001 * Math.sin(t * 4 * Math.PI)), dtype: 'f8' },
    signal('test/chirp', 10_000, 'self', [['a', 'V'], ['b', 'V']], (t, c) => Math.sin((t % 10) ** 2 * 8 + c)),
    { ...signal('derived/ecrh/total', 1000, 'monitor', [['power', 'W']], (t) => power(t, 0) + power(t, 1)), derived: true },
    { ...signal('lab/old/pump', 10, 'rack-7', [['pressure', 'Pa']], (t) => 1e-4 * (2 + Math.sin(t / 4))), silent: true },
  ];
}

/** @param {number} count fills up with sines to this many streams; 0 is none @returns {Signal[]} */
export function signals(count) {
  if (count === 0) return [];
  const all = catalogue();
  for (let i = all.length; i < count; i += 1) {
    const rack = `rack/${String.fromCharCode(97 + (i % 8))}/sensor-${i}`;
    all.push(signal(rack, 100 + 10 * (i % 50), `daq-${i % 5}`, [['value', i % 2 ? 'V' : 'A']],
      (t) => Math.sin(t * (0.2 + (i % 17) / 9)) + 0.1 * noise(t, i)));
  }
  return all;
}

/**
 * @typedef {object} Hole
 * @property {bigint} from
 * @property {bigint} to
 * @property {bigint} firstIndex
 * @property {number} samples
 * @property {number} code
 * @property {string} evidence
 * @property {boolean} settled
 */

/** Loss planted by the switch: from when, and how likely. */
export class Injection {
  probability = 0;
  since = 0n;

  /** @param {number} probability @param {bigint} now */
  set(probability, now) {
    this.probability = probability;
    this.since = now;
  }
}

/** The index of the first sample at or after a moment. @param {Signal} s @param {bigint} ns */
export const indexAt = (s, ns) => (ns * BigInt(s.rate) + SECOND - 1n) / SECOND;

/**
 * The holes of a signal that touch `[from, to)`, by time.
 * @param {Signal} s @param {bigint} from @param {bigint} to @param {bigint} now @param {Injection} injection @returns {Hole[]}
 */
export function holesOf(s, from, to, now, injection) {
  /** @type {Hole[]} */
  const found = [];
  const add = (/** @type {bigint} */ start, /** @type {Recipe} */ recipe) => {
    const end = start + recipe.length;
    if (end <= from || start >= to || end > now || found.length >= MAX_GAPS) return;
    const firstIndex = indexAt(s, start);
    const samples = Number(indexAt(s, end) - firstIndex);
    const settled = end + SETTLE < now;
    if (samples > 0) found.push({ from: start, to: end, firstIndex, samples, settled, code: settled ? recipe.code : 255, evidence: recipe.evidence });
  };
  for (const recipe of s.holes) {
    let start = ((from - recipe.length) / recipe.every) * recipe.every + recipe.after;
    for (; start < to && found.length < MAX_GAPS; start += recipe.every) add(start, recipe);
  }
  if (injection.probability > 0) planted(s, from, to, injection).forEach((start) => add(start, PLANTED));
  return found.sort((a, b) => Number(a.from - b.from));
}

const PLANTED = { every: 1n, after: 0n, length: 10_000_000n, code: 3, evidence: 'tally: number withheld on purpose' };

/** @param {Signal} s @param {bigint} from @param {bigint} to @param {Injection} injection @returns {bigint[]} */
function planted(s, from, to, injection) {
  const slot = PLANTED.length;
  /** @type {bigint[]} */
  const starts = [];
  const begin = from > injection.since ? from : injection.since;
  if (to - begin > 600n * SECOND) return starts;
  for (let at = (begin / slot) * slot; at < to; at += slot) {
    if (hash(Number((at / slot) % 4_000_000_000n) + s.name.length * 131) < injection.probability) starts.push(at);
  }
  return starts;
}
