/**
 * A monitor server that is none: it speaks `docs/protocol/page.md` over synthetic streams, for working on
 * the page and for its tests. `node dev/fake-server.mjs [--port 7480] [--streams 14]`, then open the address
 * it prints; `npm run dev` finds it at the same port.
 */
import { createServer } from 'node:http';
import { readFile } from 'node:fs/promises';
import { extname, join, normalize } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { WebSocketServer } from 'ws';
import { encodePicture } from './encode-picture.mjs';
import { encodeValues } from './encode-values.mjs';
import { encodeWaterfall } from './encode-waterfall.mjs';
import { encodeView, meanShares } from './encode-view.mjs';
import { FakeGraph, SHOWN } from './fake-graph.mjs';
import { FakeViews, parse, visitorOf } from './fake-views.mjs';
import { fields, holesOf, indexAt, Injection, SECOND, signals } from './signals.mjs';

/** @typedef {import('./signals.mjs').Signal} Signal */
/** @typedef {{stream: string, channel: string}} Wanted */
/** @typedef {{from: bigint, column: bigint, count: number}} Grid columns of equal width */
/** @typedef {{view: number, traces: Wanted[], width: number, span: bigint, end: bigint | null, means: boolean, seen: string | null, inFlight: number[], picture?: any, waterfall?: any, table?: {sent: Map<number, string>}}} View `seen`: the holes of a past that was sent */

const DIST = fileURLToPath(new URL('../dist/', import.meta.url));
const TYPES = /** @type {Record<string, string>} */ ({
  '.html': 'text/html; charset=utf-8', '.js': 'text/javascript', '.css': 'text/css', '.svg': 'image/svg+xml',
});
const PAGES = /** @type {Record<string, string>} */ ({ '/': '/index.html', '/guide': '/guide.html' });
const CSP = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
  + "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
/** What lies further back comes "from the archive". */
const LIVE_MEMORY = 60n * SECOND;
const MAX_WIDTH = 4096;
/** A view that follows is sent 30 frames a second, as by the real server. */
const FRAME_MS = 33;
/** A table is sent ten frames a second. */
const TABLE_EVERY = 3;
/** Values looked at per column: enough for an envelope that looks right. */
const PER_COLUMN = 12;

/** The clock of the server, in UTC nanoseconds. */
const wallNow = () => BigInt(Math.round((performance.timeOrigin + performance.now()) * 1e6));
/** How many planes a stream's samples have, the number of the one at these indices, and whether it is only the nearest. @param {Signal} s @param {number[]} indices @returns {[number, number, boolean]} */
const planeOf = (s, indices) => {
  const extents = s.shape?.slice(0, -2) ?? [];
  const index = (/** @type {number} */ place) => indices[place] ?? 0;
  const number = extents.reduce((so, extent, place) => so * extent + Math.min(index(place), extent - 1), 0);
  const fits = indices.length === extents.length && extents.every((extent, place) => index(place) < extent);
  return [extents.reduce((a, b) => a * b, 1), number, indices.length > 0 && !fits];
};
/** Seconds of the day, small enough for a double to be exact to a nanosecond. @param {bigint} ns */
const seconds = (ns) => Number(ns % (86_400n * SECOND)) / 1e9;
/** JSON with bigints as plain digits. @param {unknown} value */
const json = (value) => JSON.stringify(value, (_, v) => (typeof v === 'bigint' ? `#${v}#` : v)).replace(/"#(-?\d+)#"/g, '$1');

const STAGES = ['source', 'publisher_queue', 'publisher_paused', 'injected', 'sender_socket', 'sender_ip', 'sender_qdisc',
  'sender_nic', 'network', 'receiver_nic', 'receiver_hook', 'receiver_backlog', 'receiver_ip', 'receiver_reassembly',
  'receiver_checksum', 'receiver_no_socket', 'receiver_socket_filter', 'receiver_socket_buffer', 'receiver_udp_memory',
  'decode', 'late', 'reader_lag', 'deadline', 'browser', 'archive_write'];

/** Stations before the last relay of this stream, where the server has a chain. */
const RELAYED = 'test/injected';
const STATIONS = ['daq-3', 'gate-lab', 'gate-campus', 'campus-core-relay-2', 'far-observatory.example', 'mirror', 'mirror-2', 'gate-home'];
/** What the far relay of the monitor's host tells of its link. */
const RELAY = { is_up: true, round_trip_ns: 100_200_000, deadline_ns: 300_000_000, age_p50_ns: 52_300_000, age_p99_ns: 161_000_000, causes: { repair: 1_640 }, backfill: { samples: 1_240_000, bytes: 9_920_000, missing: 400, ranges: 3, lacking: 120, refused: 0, errors: [] } };
const FULL = 'no space left on device: /data/archive/run=2026-11-27/stream=test%2Finjected';
/** What is lost on a hop: on links by deadline, on buses in the network or by a relay that is too slow. @param {number} hop */
const stageOn = (hop) => (hop % 2 === 1 ? 'deadline' : hop % 4 === 0 ? 'reader_lag' : 'network');

/** Somebody forges this stream. */
const FORGED = 'test/chirp';
/** What of it was not authentic. @param {Signal} s @param {number} more */
const unauthentic = (s, more = 0) => (s.name === FORGED ? { unauthentic: { no_key: 0, bad_tag: 12_345 + more, replayed: 34, wrong_sender: 0, clear: 0 }, unconfirmed_epochs: 1 } : {});

/** @typedef {{port?: number, streams?: number, pageProtocol?: number, forbid?: boolean, spoil?: number, archive?: boolean, fullDisk?: boolean, users?: boolean, insecure?: boolean, attack?: boolean, silentKeys?: boolean, hops?: number, fullArchive?: boolean, steered?: boolean, fields?: boolean, alarms?: boolean}} Options `spoil`: every n-th frame cannot be read; `attack`: forgeries go on; `silentKeys`: the key service is away; `hops`: of a relayed stream, before this bus; `fullArchive`: that of its far relay */

/** An alarm, a warning, one that is acknowledged, an unknown state and one that is ok. @param {bigint} now */
const alarmsAt = (now) => [
  [2, 1, 5.31, 5, 'pressure'], [1, -1, -0.2, 0, 'flow'], [2, 1, 421, 400, 'temperature'], [3, 0, null, null, 'level'], [0, 0, 1.5, null, 'current'],
].map(([state, side, value, limit, name], channel) => ({
  stream: 'lab/alarm', channel, input: `lab/plant:${name}`, unit: name === 'pressure' ? 'Pa' : '', state, side, value, limit,
  since_ns: now - BigInt(channel + 1) * 60n * SECOND, change: channel + 1,
  acknowledged: channel === 2 ? { state, side, by: 'user:ada', at_ns: now - SECOND, reason: 'cooling is being repaired' } : null,
}));

/** The synthetic bus behind the server: its streams and what is known of each. */
class Bus {
  started = wallNow();
  injection = new Injection();
  views = new FakeViews();
  graph = new FakeGraph(SHOWN);
  /** @type {string[]} */
  patterns = ['**'];

  /** @param {Options} options */
  constructor(options) {
    this.all = signals(options.streams ?? 14);
    if (options.fields) this.all.push(...fields());
    // The stream of an app's commands, of which the tests make the rows.
    const [first] = this.all;
    if (options.steered && first !== undefined) this.all.push({ ...first, name: 'steer/sim/engine' });
    this.joined = this.started - 3600n * SECOND;
    if (options.alarms && first !== undefined) this.all.push({ ...first, name: 'lab/alarm' });
    /** What pages are told of alarms: tests change it. @type {any[]} */
    this.alarms = options.alarms ? alarmsAt(this.started) : [];
    /** All runs: tests change them, and say so by `tellRuns`. @type {any[]} */
    this.runs = [];
    /** Requests for runs, runs in their answers, and how often pages were told that there are others. */
    this.asked = { requests: 0, runs: 0, told: 0 };
    this.protocol = options.pageProtocol ?? 1;
    this.spoil = options.spoil ?? 0;
    this.fullDisk = options.fullDisk ?? false;
    this.archive = options.archive ?? true;
    this.insecure = options.insecure ?? false;
    this.attack = options.attack ?? false;
    this.silentKeys = options.silentKeys ?? false;
    this.hops = options.hops ?? 0;
    this.fullArchive = options.fullArchive ?? false;
    // With users: nobody reads before `ada` has signed in, who may not derive.
    this.users = options.users ?? false;
    this.visitor = '';
  }

  /** Closes the open pages. */
  onSignOut = () => {};

  /** The newest runs of a query. @param {URLSearchParams} query */
  runsIn(query) {
    const [id, from, to, limit] = ['id', 'from', 'to', 'limit'].map((name) => query.get(name));
    const begins = (/** @type {any} */ run) => BigInt(run.start_ns ?? run.end_ns);
    const found = this.runs.filter((run) => (id === null || run.id === id) && (from === null || run.end_ns === null || BigInt(run.end_ns) >= BigInt(from ?? 0)) && (to === null || begins(run) < BigInt(to ?? 0)));
    return found.sort((a, b) => Number(begins(a) - begins(b))).slice(limit === null ? 0 : -Number(limit));
  }

  /** Forgeries since the server began, a thousand a second. */
  forged() {
    return this.attack ? Number((wallNow() - this.started) / (SECOND / 1000n)) : 0;
  }

  /** @param {Signal} s */
  isRelayed(s) {
    return this.hops > 0 && s.name === RELAYED;
  }

  /** Of a relayed stream: the earlier hop of a hole, null where the reader's own bus lost it. @param {Signal} s @param {import('./signals.mjs').Hole} h */
  hopOf(s, h) {
    if (!this.isRelayed(s) || h.code === 255) return null;
    const hop = Number((h.firstIndex / 100n) % BigInt(this.hops + 1));
    return hop < this.hops ? hop : null;
  }

  /** What earlier hops lost of these holes. @param {Signal} s @param {import('./signals.mjs').Hole[]} holes @param {boolean} named */
  hopsOf(s, holes, named) {
    return Array.from({ length: this.hops }, (_, hop) => {
      const elements = holes.filter((h) => this.hopOf(s, h) === hop).reduce((sum, h) => sum + h.samples * s.channels.length, 0);
      return { hop, ...(named ? { station: STATIONS[hop] } : {}), lost: elements > 0 ? { [stageOn(hop)]: elements } : {}, unexplained: 0, unsettled: 0 };
    });
  }

  relay() {
    return this.fullArchive ? { ...RELAY, backfill: { ...RELAY.backfill, refused: 7, errors: [FULL] } } : RELAY;
  }

  session() {
    const why = this.users ? 'denied by line 3: deny anyone derive **' : '';
    const right = (/** @type {boolean} */ allowed) => ({ some: allowed, all: allowed, why });
    const known = !this.users || this.visitor !== '';
    return {
      principal: this.visitor === '' ? 'anyone' : `user:${this.visitor}`, signed_in: this.visitor !== '', can_sign_in: this.users, insecure: this.insecure,
      may: { read: right(known), steer: right(known), derive: right(!this.users) },
    };
  }

  server() {
    const disk = this.fullDisk ? { archive_disk: { free_bytes: 17_000_000_000, size_bytes: 100_000_000_000, alarm: true } } : {};
    return { version: '0.1.0-fake', started_ns: this.started, now_ns: wallNow(), page_protocol: this.protocol, archive: this.archive, ...disk };
  }

  /** The state of the keys, of which the clear streams of the host have none. @param {Signal} s */
  keys(s) {
    if (s.name.startsWith('host/')) return {};
    const away = { left_ns: 2_700_000_000_000, silent_since_ns: this.started - 600n * SECOND, unanswered: 1_234 };
    const service = { address: 'keys.lab.example:7409', left_ns: 9_000_000_000_000, silent_since_ns: null, unanswered: 0, refused: null, ...(this.silentKeys ? away : {}) };
    return { keys: { token: '1a2b3c4d', certificate_left_ns: 30_000_000_000_000_000, service } };
  }

  /** @param {string} name */
  find(name) {
    return this.all.find((s) => s.name === name);
  }

  /** The last moment of which a signal has data. @param {Signal} s @param {bigint} now */
  edge(s, now) {
    return s.silent ? this.started - 40n * SECOND : now;
  }

  /** @param {Signal} s @param {bigint} from @param {bigint} to @param {bigint} now */
  holes(s, from, to, now) {
    return holesOf(s, from, to, now, this.injection);
  }

  /** @param {Signal} s @param {bigint} now @param {boolean} sparks */
  describe(s, now, sparks) {
    const recent = this.holes(s, now - 60n * SECOND, now, now);
    const lost = recent.reduce((sum, h) => sum + h.samples, 0) * s.channels.length;
    const losing = recent.some((h) => h.code !== 255 && h.code !== 0 && now - h.to < 4n * SECOND);
    const edge = this.edge(s, now);
    return {
      stream: s.name, epoch: `${this.joined}`, state: 'open', dtype: s.dtype, rate: { numerator: s.rate, denominator: 1 },
      elements_per_sample: s.shape?.reduce((a, b) => a * b, 1) ?? s.channels.length, station: this.isRelayed(s) ? 'far-relay' : s.station, ...(this.isRelayed(s) ? { stations: STATIONS.slice(0, this.hops) } : {}), level: s.name.startsWith('host/') ? 'clear' : 'group', labels: s.name === 'lab/alarm' ? { node: 'alarm', 'input.0': 'test/hole:sine', high_warning: '0.5', high_alarm: '0.8' } : s.labels ?? (s.derived ? { derived: 'yes' } : {}), derived: s.derived === true,
      channels: s.channels.map((c, i) => ({ ...c, shape: s.shape ?? [], elements: s.shape?.reduce((a, b) => a * b, 1) ?? 1, first_element: i })),
      first_index: 0, next_index: Number(indexAt(s, edge) - indexAt(s, this.joined)), newest_ns: edge, age_ns: now - edge,
      samples_per_s: s.silent ? 0 : s.rate, lost_elements: lost, lost_last_hour_elements: lost,
      unsettled_elements: recent.filter((h) => !h.settled).reduce((sum, h) => sum + h.samples, 0),
      health: s.silent ? 'stale' : losing ? 'losing' : 'ok',
      ...(s.name === FORGED ? { unauthentic_datagrams: 12_379 + this.forged() } : {}),
      ...(sparks ? { spark: this.spark(s, now) } : {}),
    };
  }

  /** @param {Signal} s @param {bigint} now */
  spark(s, now) {
    const from = (now / SECOND - 60n) * SECOND;
    const { pairs } = this.envelope(s, 0, { from, column: SECOND, count: 60 }, [], this.edge(s, now));
    return Array.from({ length: 60 }, (_, k) => (Number.isNaN(pairs[2 * k]) ? null : [...pairs.subarray(2 * k, 2 * k + 2)]));
  }

  /**
   * The smallest and largest value in each column and its mean, NaN where there is none. Times count from the first column on:
   * there a double is exact, and bigints would cost ten times as much.
   * @param {Signal} s @param {number} channel @param {Grid} grid
   * @param {import('./signals.mjs').Hole[]} holes @param {bigint} edge
   */
  envelope(s, channel, { from, column, count }, holes, edge) {
    const pairs = new Float64Array(count * 2);
    const means = new Float64Array(count);
    const since = (/** @type {bigint} */ ns) => Number(ns - from);
    const bare = holes.map((h) => ({ from: since(h.from), to: since(h.to) }));
    const [start, end, width] = [seconds(from), since(edge), Number(column)];
    for (let k = 0; k < count; k += 1) {
      const near = bare.filter((h) => h.to > k * width && h.from < (k + 1) * width);
      let [low, high, sum, looked] = [NaN, NaN, 0, 0];
      for (let i = 0; i < PER_COLUMN; i += 1) {
        const at = (k + i / PER_COLUMN) * width;
        if (at > end || near.some((h) => at >= h.from && at < h.to)) continue;
        const value = s.value(start + at / 1e9, channel);
        low = low <= value ? low : value;
        high = high >= value ? high : value;
        sum += value;
        looked += 1;
      }
      pairs.set([low, high], 2 * k);
      means[k] = sum / looked;
    }
    return { pairs, means };
  }

  /** @param {Signal} s @param {bigint} now */
  account(s, now) {
    const per = s.channels.length;
    const holes = this.holes(s, now - 120n * SECOND, now, now);
    /** @type {Record<string, number>} */
    const lost = {};
    let [unexplained, unsettled] = [0, 0];
    for (const h of holes) {
      if (h.code === 255) unsettled += h.samples * per;
      else if (h.code === 254) unexplained += h.samples * per;
      else {
        const stage = this.hopOf(s, h) === null ? STAGES[h.code] ?? '' : 'source';
        lost[stage] = (lost[stage] ?? 0) + h.samples * per;
      }
    }
    const next = Number(indexAt(s, this.edge(s, now)) - indexAt(s, this.joined));
    const inFlight = s.silent ? 0 : per * 2;
    const gone = Object.values(lost).reduce((a, b) => a + b, 0) + unexplained + unsettled;
    const received = Math.round((next * per) / 340);
    return {
      stream: s.name, epoch: `${this.joined}`, ...(this.isRelayed(s) ? { origin: { epoch: `${this.joined - 1n}`, hop: this.hops }, hops: this.hopsOf(s, holes, true), relay: this.relay() } : {}), reader: 'monitor', leg: 'udp', state: 'open',
      datagrams: { first: 0, next: received, received, lost: {}, unexplained: 0, unsettled: 0, in_flight: 0, duplicates: 0 },
      elements: { first: 0, next, per_sample: per, delivered: next * per - gone - inFlight, lost, unexplained, unsettled, in_flight: inFlight },
      settled_early: 0, socket: this.socket(lost), ...unauthentic(s, this.forged()), ...this.keys(s), gaps: [], ladder: STAGES.map((stage) => ({ stage, elements: lost[stage] ?? 0 })),
    };
  }

  /** A stream that loses in the socket has one at which more was dropped than is missing. @param {Record<string, number>} lost */
  socket(lost) {
    const overrun = 'receiver_socket_buffer' in lost;
    return {
      address: '239.84.3.4:7400', drops: overrun ? 131 : 0, unmatched: overrun ? { receiver_socket_buffer: 3 } : {},
      buffer_bytes: 8_388_608, datagrams: 40_000, unused: {}, longest_wait_ns: 1_234_567,
    };
  }

  /** @param {Signal} s @param {bigint} from @param {bigint} to @param {number} limit */
  gaps(s, from, to, limit) {
    const now = wallNow();
    return this.holes(s, from, to, now).slice(-limit).map((h) => ({
      id: Number(h.firstIndex % 1_000_000n), from_ns: h.from, to_ns: h.to, first_index: h.firstIndex, samples: h.samples,
      ...(this.hopOf(s, h) === null ? {} : { hops: this.hopsOf(s, [h], false) }),
      lost: h.code < 254 ? { [this.hopOf(s, h) === null ? STAGES[h.code] ?? '' : 'source']: h.samples * s.channels.length } : {},
      unexplained: h.code === 254 ? h.samples * s.channels.length : 0,
      unsettled: h.code === 255 ? h.samples * s.channels.length : 0,
      settled: h.settled, apportioned: false, evidence: h.settled ? [(this.hopOf(s, h) ?? 0) % 2 === 1 ? 'given up on the link: lost too often' : h.evidence] : [],
    }));
  }
}

/** One viewer: its views, its credit. */
class Viewer {
  /** @type {Map<number, View>} */
  views = new Map();
  visible = true;
  /** @type {string | null} */
  watched = null;
  frame = 0;
  beat = 0;

  /** @param {import('ws').WebSocket} socket @param {Bus} bus @param {{frames: number, bytes: number, requests: number}} tally @param {{user: string | null, mayWrite: boolean}} visitor */
  constructor(socket, bus, tally, visitor) {
    this.socket = socket;
    this.user = visitor.user;
    this.mayWrite = visitor.mayWrite;
    this.bus = bus;
    this.tally = tally;
    this.say({ type: 'hello', page_protocol: bus.protocol, server: bus.server() });
    this.streams(true);
    this.runs(0);
  }

  /** @param {number} change */
  runs(change) {
    this.bus.asked.told += 1;
    this.say({ type: 'runs', change });
  }

  /** @param {unknown} value */
  say(value) {
    if (this.socket.readyState === this.socket.OPEN) this.socket.send(json(value));
  }

  /** @param {boolean} sparks */
  streams(sparks) {
    const now = wallNow();
    this.say({ type: 'streams', streams: this.bus.all.map((s) => this.bus.describe(s, now, sparks)) });
  }

  account() {
    const s = this.bus.find(this.watched ?? '');
    if (s !== undefined && this.visible) this.say({ type: 'account', ...this.bus.account(s, wallNow()) });
  }

  /** @param {string} text */
  heard(text) {
    // Nanoseconds are beyond a double: keep their digits.
    const message = JSON.parse(text.replace(/("\w+_ns":)(\d+)/g, '$1"$2"'));
    this.tally.requests += 1;
    if (this.bus.views.heard(this, parse(text))) return;
    if (message.type === 'view') this.view(message);
    else if (message.type === 'picture') this.picture(message);
    else if (message.type === 'values') this.values(message);
    else if (message.type === 'waterfall') this.waterfall(message);
    else if (message.type === 'close') this.views.delete(message.view);
    else if (message.type === 'visible') this.visible = message.visible;
    else if (message.type === 'watch_account') this.watch(message.stream);
    else if (message.type === 'shown') for (const view of this.views.values()) view.inFlight = view.inFlight.filter((n) => !message.frames.includes(n));
  }

  /** @param {string | null} stream */
  watch(stream) {
    this.watched = stream;
    this.account();
  }

  /** @param {any} m */
  view(m) {
    const width = Math.max(1, Math.min(MAX_WIDTH, m.width_px));
    const end = m.end_ns === null ? null : BigInt(m.end_ns);
    const inFlight = this.views.get(m.view)?.inFlight ?? [];
    this.views.set(m.view, { view: m.view, traces: m.traces, width, span: BigInt(m.span_ns), end, means: m.means === true, seen: null, inFlight });
  }

  /** @param {any} m */
  picture(m) {
    const inFlight = this.views.get(m.view)?.inFlight ?? [];
    const end = m.end_ns === null ? null : BigInt(m.end_ns);
    this.views.set(m.view, { view: m.view, traces: [], width: 1, span: 1n, end, means: false, seen: null, inFlight, picture: { ...m, sent: null } });
  }

  /** @param {any} m */
  values(m) {
    const inFlight = this.views.get(m.view)?.inFlight ?? [];
    const end = m.end_ns === null ? null : BigInt(m.end_ns);
    this.views.set(m.view, { view: m.view, traces: m.traces, width: 1, span: 1n, end, means: false, seen: null, inFlight, table: { sent: new Map() } });
  }

  /** The rows of a table that have changed; null without any. @param {View} view @param {Map<number, string>} sent */
  encodeValues(view, sent) {
    const now = wallNow();
    const whole = sent.size === 0;
    const rows = view.traces.map((wanted, index) => this.row(wanted, index, view.end ?? now)).filter((row) => {
      const text = json(row);
      const changed = sent.get(row.index) !== text;
      sent.set(row.index, text);
      return changed;
    });
    return rows.length === 0 && !whole ? null : encodeValues({ frame: this.frame + 1, view: view.view, flags: (view.end === null ? 1 : 0) + (whole ? 2 : 0), now, rows });
  }

  /** @param {Wanted} wanted @param {number} index @param {bigint} at @returns {import('./encode-values.mjs').Row} */
  row(wanted, index, at) {
    const s = this.bus.find(wanted.stream);
    const channel = s?.channels.findIndex((c) => c.name === wanted.channel) ?? -1;
    if (s === undefined || channel < 0) return { index, state: 1, sample: null };
    const edge = this.bus.edge(s, at);
    // What is faster than the table is looked at ten times a second.
    const last = indexAt(s, edge) - 1n;
    const time = (last * SECOND) / BigInt(s.rate);
    const { element } = s;
    if (element === undefined) {
      const value = s.value(seconds(time), channel);
      return { index, state: s.silent ? 2 : 0, sample: { form: 1, time, low: value, high: value, values: [value] } };
    }
    const [columns = 1, rows = 1] = [...(s.shape ?? [])].reverse();
    const values = Array.from({ length: rows * columns }, (_, k) => element(seconds(time), Math.floor(k / columns), k % columns));
    const finite = values.filter(Number.isFinite);
    const form = s.dtype === 'u8' ? 3 : 1;
    return { index, sample: { form, time, elements: values.length, low: Math.min(...finite), high: Math.max(...finite), values: values.slice(0, 4).map((value) => (form === 3 ? BigInt(Math.round(value)) : value)) } };
  }

  /** What was told of each alarm, by stream and channel; null before the first message. @type {Map<string, string> | null} */
  toldAlarms = null;

  /** Tells all alarms at first, and then those that have changed. */
  alarms() {
    if (!this.visible) return;
    const before = this.toldAlarms;
    const key = (/** @type {any} */ alarm) => JSON.stringify({ stream: alarm.stream, channel: alarm.channel });
    const now = new Map(this.bus.alarms.map((alarm) => [key(alarm), json(alarm)]));
    const changed = this.bus.alarms.filter((alarm) => before?.get(key(alarm)) !== json(alarm));
    const gone = [...before?.keys() ?? []].filter((each) => !now.has(each)).map((each) => JSON.parse(each));
    this.toldAlarms = now;
    if (before === null || changed.length > 0 || gone.length > 0) this.say({ type: 'alarms', whole: before === null, alarms: changed, gone });
  }

  /** @param {any} m */
  waterfall(m) {
    const inFlight = this.views.get(m.view)?.inFlight ?? [];
    const end = m.end_ns === null ? null : BigInt(m.end_ns);
    this.views.set(m.view, { view: m.view, traces: [], width: 1, span: BigInt(m.span_ns), end, means: false, seen: null, inFlight, waterfall: { ...m, sent: null } });
  }

  /** The columns that the page does not have; of the samples of a column the last one stands for all. @param {View} view */
  encodeWaterfall(view) {
    const now = wallNow();
    const m = view.waterfall;
    const s = this.bus.find(m.stream);
    const { element } = s ?? {};
    const head = { frame: this.frame, view: view.view, now, first: 0n, columnNs: 1n, count: 0, columns: new Map() };
    if (s === undefined || element === undefined || s.channels[0]?.name !== m.channel) return encodeWaterfall({ ...head, state: 1, flags: 4 });
    const elements = s.shape?.at(-1) ?? 1;
    const [planes, plane, isNearest] = planeOf(s, m.plane);
    const block = Math.ceil(elements / m.bins);
    const bins = Math.ceil(elements / block);
    const period = SECOND / BigInt(s.rate);
    let columnNs = 1n << 20n;
    while (columnNs * BigInt(m.columns) < view.span || columnNs * 16n < period || (view.span / columnNs) * BigInt(bins) > 262_144n) columnNs *= 2n;
    const end = view.end ?? now;
    const first = (end - view.span) / columnNs;
    const count = Number((end - 1n) / columnNs + 1n - first);
    const holes = this.bus.holes(s, end - view.span, end, now);
    const columns = new Map();
    for (let place = 0; place < count; place += 1) {
      const from = (first + BigInt(place)) * columnNs;
      const to = from + columnNs < end ? from + columnNs : end;
      const [next, behind] = [indexAt(s, from), indexAt(s, to)];
      const expected = Number(behind - next);
      if (expected <= 0) continue;
      const t = seconds(((behind - 1n) * SECOND) / BigInt(s.rate));
      const missing = holes.some((hole) => hole.from < to && hole.to > from);
      const values = missing ? [] : Array.from({ length: bins }, (_, bin) => element(t, 0, bin * block, plane));
      if (m.sent?.has(from) !== true || m.sent.get(from) !== expected) columns.set(place, { present: missing ? 0 : expected, expected, bins: values });
    }
    const flags = (view.end === null ? 1 : 0) + (m.sent === null ? 4 : 0) + (isNearest ? 16 : 0);
    m.sent ??= new Map();
    for (const [place, { expected }] of columns) m.sent.set((first + BigInt(place)) * columnNs, expected);
    return encodeWaterfall({ ...head, flags, first, columnNs, count, bins, block, elements, planes, plane, liveFrom: now - LIVE_MEMORY, columns });
  }

  /** The newest sample as a picture; null where it was sent already. @param {View} view */
  encodePicture(view) {
    const now = wallNow();
    const m = view.picture;
    const s = this.bus.find(m.stream);
    const { element } = s ?? {};
    const head = { frame: this.frame, view: view.view, now, flags: (view.end === null ? 1 : 0) + (m.reduction === 'max' ? 4 : 0) };
    if (s === undefined || element === undefined || s.channels[0]?.name !== m.channel) return encodePicture({ ...head, state: 1, sample: null });
    const index = indexAt(s, view.end ?? now) - 1n;
    const time = (index * SECOND) / BigInt(s.rate);
    const skipped = view.end === null && m.sent !== null ? Math.max(0, Number(index - m.sent) - 1) : 0;
    m.sent = index;
    const [matrixRows = 1, matrixColumns = 1] = s.shape?.length === 1 ? [1, ...s.shape] : s.shape?.slice(-2) ?? [];
    const [planes, plane, isNearest] = planeOf(s, m.plane);
    const block = /** @type {const} */ ([Math.ceil(matrixRows / m.height_px), Math.ceil(matrixColumns / m.width_px)]);
    const [rows, columns] = [Math.ceil(matrixRows / block[0]), Math.ceil(matrixColumns / block[1])];
    const t = seconds(time);
    // One element of each block stands for it.
    const values = Float32Array.from({ length: rows * columns }, (_, k) => element(t, Math.floor(k / columns) * block[0], (k % columns) * block[1], plane));
    const finite = values.filter(Number.isFinite);
    const [low, high] = s.dtype === 'u8' ? [0, 255] : finite.length === 0 ? [NaN, NaN] : [Math.min(...finite), Math.max(...finite)];
    const pixels = s.dtype === 'u8' ? Uint8Array.from(values) : values;
    return encodePicture({ ...head, flags: head.flags + (isNearest ? 8 : 0), keptFrom: now - LIVE_MEMORY, sample: { time, index, skipped, planes, plane, rows, columns, size: [matrixRows, matrixColumns], block, low, high, pixels } });
  }

  /** Sends what each view is owed. */
  tick() {
    if (!this.visible) return;
    this.beat += 1;
    if (this.beat % TABLE_EVERY === 0) this.alarms();
    for (const view of this.views.values()) {
      if (view.inFlight.length >= 2 || (view.end !== null && view.picture === undefined && view.waterfall === undefined && view.table === undefined && !this.changed(view, view.end))) continue;
      const samples = view.picture ?? view.waterfall;
      if (samples !== undefined) {
        const s = this.bus.find(samples.stream);
        const index = s === undefined ? 'unknown' : String(indexAt(s, view.end ?? wallNow()));
        if (view.seen === index) continue;
        view.seen = index;
      }
      const table = view.table === undefined ? undefined : this.beat % TABLE_EVERY === 0 ? this.encodeValues(view, view.table.sent) : null;
      if (table === null) continue;
      this.frame += 1;
      view.inFlight.push(this.frame);
      const bytes = table ?? (view.waterfall !== undefined ? this.encodeWaterfall(view) : view.picture === undefined ? this.encode(view) : this.encodePicture(view));
      // More traces than there are.
      if (this.bus.spoil > 0 && this.frame % this.bus.spoil === 0) new DataView(bytes).setUint16(12, 0xffff, true);
      this.tally.frames += 1;
      this.tally.bytes += bytes.byteLength;
      this.socket.send(bytes);
    }
  }

  /** Whether a view of the past was not sent yet, or a hole in it settled since. @param {View} view @param {bigint} end */
  changed(view, end) {
    const now = wallNow();
    const seen = view.traces.flatMap(({ stream }) => {
      const s = this.bus.find(stream);
      return s === undefined ? [] : this.bus.holes(s, end - view.span, end, now).map((h) => `${h.from} ${h.settled}`);
    }).join();
    const changed = seen !== view.seen;
    view.seen = seen;
    return changed;
  }

  /** @param {View} view */
  encode(view) {
    const now = wallNow();
    const column = view.span / BigInt(view.width) || 1n;
    const from = (((view.end ?? now) - view.span) / column) * column;
    const traces = view.traces.map((wanted, index) => this.trace(wanted, index, { from, column, count: view.width }, now, view.means));
    return encodeView({
      frame: this.frame, view: view.view, flags: view.end === null ? 1 : 0, now, from, column, columnCount: view.width, traces,
    });
  }

  /** @param {Wanted} wanted @param {number} index @param {Grid} grid @param {bigint} now @param {boolean} means */
  trace(wanted, index, grid, now, means) {
    const { from, column, count: width } = grid;
    const s = this.bus.find(wanted.stream);
    const channel = s?.channels.findIndex((c) => c.name === wanted.channel) ?? -1;
    if (s === undefined || channel < 0) return { index, state: 1, body: { offsets: [], values: [] } };
    const to = from + column * BigInt(width);
    const holes = this.bus.holes(s, from, to, now);
    const samplesPerColumn = (s.rate * Number(column)) / 1e9;
    const edge = this.bus.edge(s, now);
    const body = samplesPerColumn < 1
      ? this.points(s, channel, from, to < edge ? to : edge, holes)
      : this.columns(s, channel, grid, holes, edge, means);
    const gaps = holes.map((h) => {
      const hop = this.bus.hopOf(s, h);
      return {
        from: h.from, to: h.to, lostElements: h.samples * s.channels.length, code: hop === null ? h.code : 0, firstIndex: h.firstIndex, samples: h.samples,
        inherited: hop === null ? null : { hop, code: STAGES.indexOf(stageOn(hop)) },
      };
    });
    return {
      index, state: s.silent ? 2 : 0, body, samplesPerColumn, newest: edge, newestValue: s.value(seconds(edge), channel),
      liveMemoryFrom: now - LIVE_MEMORY, gaps,
    };
  }

  /** @param {Signal} s @param {number} channel @param {Grid} grid @param {import('./signals.mjs').Hole[]} holes @param {bigint} edge @param {boolean} means */
  columns(s, channel, grid, holes, edge, means) {
    const found = this.bus.envelope(s, channel, grid, holes, edge);
    return { first: 0, pairs: found.pairs, means: means ? meanShares(found.pairs, found.means) : null };
  }

  /** @param {Signal} s @param {number} channel @param {bigint} from @param {bigint} to @param {import('./signals.mjs').Hole[]} holes */
  points(s, channel, from, to, holes) {
    const offsets = [];
    const values = [];
    for (let i = indexAt(s, from); ; i += 1n) {
      const at = (i * SECOND) / BigInt(s.rate);
      if (at > to) return { offsets, values };
      const inHole = holes.some((h) => i >= h.firstIndex && i < h.firstIndex + BigInt(h.samples));
      if (inHole && Number.isNaN(values.at(-1) ?? NaN)) continue;
      offsets.push(Number(at - from));
      values.push(inHole ? NaN : s.value(seconds(at), channel));
    }
  }
}

/** The most values of a file, as of the real server. */
const MAX_VALUES = 1_000_000;

/** A file of a span, or why there is none: of a stream that is silent, only columns are left. @param {Bus} bus @param {URLSearchParams} query @returns {[number, string | {error: string, help: string}]} */
function exported(bus, query) {
  const s = bus.find(query.get('stream') ?? '');
  const [from, to] = [BigInt(query.get('from') ?? 0), BigInt(query.get('to') ?? 0)];
  if (s === undefined) return [404, { error: 'no such stream', help: 'see /api/streams' }];
  const channels = query.getAll('channel').map((name) => s.channels.findIndex((c) => c.name === name));
  const head = `# stream: ${s.name}\n# values: ${query.get('values')}\n`;
  if (query.get('values') === 'columns') return [200, `${head}from_ns,to_ns\n`];
  if (s.silent) return [409, { error: 'of this time only the extremes of columns are kept', help: 'export columns' }];
  const count = Number(indexAt(s, to) - indexAt(s, from)) * channels.length;
  if (count > MAX_VALUES) return [413, { error: `the range holds ${count} values`, help: 'choose columns' }];
  const holes = bus.holes(s, from, to, wallNow());
  const lines = [`index,time_ns,${query.getAll('channel').join(',')}`];
  for (let i = indexAt(s, from); (i * SECOND) / BigInt(s.rate) < to; i += 1n) {
    const hole = holes.find((h) => i >= h.firstIndex && i < h.firstIndex + BigInt(h.samples));
    if (hole !== undefined && i === hole.firstIndex) lines.push(`# hole: ${hole.samples} samples from index ${i}`);
    const at = (i * SECOND) / BigInt(s.rate);
    if (hole === undefined) lines.push([i, at, ...channels.map((c) => s.value(seconds(at), c))].join(','));
  }
  return [200, `${head}${lines.join('\n')}\n`];
}

/** @param {Bus} bus @param {URL} url @param {string} method @param {any} body @returns {[number, unknown]} */
function answer(bus, url, method, body) {
  const query = url.searchParams;
  const s = bus.find(query.get('stream') ?? '');
  const now = wallNow();
  switch (`${method} ${url.pathname}`) {
    case 'GET /api/session':
      return [200, bus.session()];
    case 'POST /api/sign-in':
      if (body.user !== 'ada' || body.password !== 'analytical engine') return [401, { error: 'wrong name or password', help: 'try again; an administrator can set another password' }];
      bus.visitor = body.user;
      return [200, {}];
    case 'POST /api/sign-out':
      bus.visitor = '';
      bus.onSignOut();
      return [200, {}];
    case 'GET /api/range':
      return [200, { columns: [] }];
    case 'GET /api/streams':
      return [200, { server: bus.server(), streams: bus.all.map((each) => bus.describe(each, now, true)) }];
    case 'GET /api/account':
      return s ? [200, bus.account(s, now)] : [404, { error: 'no such stream', help: 'see /api/streams' }];
    case 'GET /api/gaps':
      return s ? [200, bus.gaps(s, BigInt(query.get('from') ?? 0), BigInt(query.get('to') ?? now), Number(query.get('limit') ?? 100))]
        : [404, { error: 'no such stream', help: 'see /api/streams' }];
    case 'GET /api/inject':
      return [200, { available: true, probability: bus.injection.probability }];
    case 'POST /api/inject':
      bus.injection.set(Number(body.probability), now);
      return [200, { available: true, probability: bus.injection.probability }];
    case 'GET /api/patterns':
      return [200, bus.patterns];
    case 'GET /api/runs': {
      const runs = bus.runsIn(query);
      Object.assign(bus.asked, { requests: bus.asked.requests + 1, runs: bus.asked.runs + runs.length });
      return [200, runs];
    }
    case 'POST /api/alarms': {
      const alarm = bus.alarms.find((each) => each.stream === body.stream && each.channel === body.channel);
      if (alarm?.change !== body.change) return [409, { error: 'the state has changed since it was seen', help: 'look at the new state' }];
      alarm.acknowledged = { state: alarm.state, side: alarm.side, by: 'anyone', at_ns: now, reason: body.reason };
      return [200, bus.alarms];
    }
    case 'GET /api/derived':
      return [200, []];
    case 'POST /api/join':
      bus.patterns.push(String(body.pattern));
      return [200, {}];
    case 'POST /api/leave':
      bus.patterns = bus.patterns.filter((p) => p !== body.pattern);
      return [200, {}];
    case 'POST /api/derive':
      return /^[\w\s+\-*/().]+$/.test(body.expression) ? [200, {}]
        : [400, { error: `cannot read the expression \`${body.expression}\``, help: 'write it like `a - b`, with the names of the inputs' }];
    default:
      return [404, { error: 'no such resource', help: 'see docs/protocol/page.md' }];
  }
}

/** @param {string} path @returns {Promise<[number, string, Buffer]>} */
async function file(path) {
  const clean = normalize(PAGES[path] ?? path).replace(/^(\.\.[/\\])+/, '');
  try {
    return [200, TYPES[extname(clean)] ?? 'application/octet-stream', await readFile(join(DIST, clean))];
  } catch {
    return [404, 'text/plain', Buffer.from('not found; `npm run build` makes the page\n')];
  }
}

/**
 * Starts a server; `stats` counts what all viewers got and asked for.
 * @param {Options} [options]
 */
export async function startFakeServer(options = {}) {
  const bus = new Bus(options);
  const stats = { frames: 0, bytes: 0, requests: 0 };
  /** @type {Set<Viewer>} */
  const viewers = new Set();
  const http = createServer(async (request, response) => {
    const url = new URL(request.url ?? '/', 'http://localhost');
    if (options.forbid && url.pathname.startsWith('/api')) {
      response.writeHead(403, { 'content-type': 'application/json' });
      response.end(json({ error: 'this address may not read the bus', help: 'ask for --listen and --allow on the monitor' }));
    } else if (url.pathname === '/api/export') {
      const [status, value] = exported(bus, url.searchParams);
      response.writeHead(status, { 'content-type': typeof value === 'string' ? 'text/csv' : 'application/json' });
      response.end(typeof value === 'string' ? value : json(value));
    } else if (url.pathname.startsWith('/api')) {
      let body = '';
      for await (const part of request) body += part;
      if (/^\/api\/views(\/|$)/.test(url.pathname)) {
        const [status, value, headers] = bus.views.answer(request, url.pathname, body);
        response.writeHead(status, { 'content-type': 'application/json', ...headers });
        return void response.end(json(value));
      }
      const sent = body === '' ? {} : JSON.parse(body);
      const [status, value] = bus.graph.answer(`${request.method} ${url.pathname}`, request.headers['if-match'], sent) ?? answer(bus, url, request.method ?? 'GET', sent);
      response.writeHead(status, { 'content-type': 'application/json' });
      response.end(json(value));
    } else {
      const [status, type, bytes] = await file(url.pathname);
      response.writeHead(status, { 'content-type': type, 'content-security-policy': CSP });
      response.end(bytes);
    }
  });
  const sockets = new WebSocketServer({ server: http, path: '/api/live' });
  sockets.on('connection', (socket, request) => {
    if (options.forbid) return socket.close();
    const viewer = new Viewer(socket, bus, stats, visitorOf(request));
    viewers.add(viewer);
    socket.on('message', (data) => viewer.heard(String(data)));
    socket.on('close', () => {
      viewers.delete(viewer);
      bus.views.gone(viewer);
    });
    return undefined;
  });
  bus.onSignOut = () => viewers.forEach((viewer) => viewer.socket.close(1008, 'ask again: the session has ended'));
  let beat = 0;
  const timers = [
    setInterval(() => viewers.forEach((v) => v.tick()), FRAME_MS),
    setInterval(() => viewers.forEach((v) => { if (v.visible) v.streams((beat += 1) % 2 === 0); }), 500),
    setInterval(() => viewers.forEach((v) => v.account()), 500),
  ];
  await new Promise((resolve) => http.listen(options.port ?? 0, '127.0.0.1', () => resolve(undefined)));
  const address = /** @type {import('node:net').AddressInfo} */ (http.address());
  const close = async () => {
    timers.forEach(clearInterval);
    for (const socket of sockets.clients) socket.terminate();
    http.closeAllConnections();
    await new Promise((resolve) => http.close(resolve));
  };
  let changes = 0;
  /** Tells all pages that there are other runs. */
  const tellRuns = () => {
    changes += 1;
    viewers.forEach((viewer) => viewer.runs(changes));
  };
  /** Breaks the connections of all pages, or of one user's. @param {string} [user] */
  const cut = (user) => viewers.forEach((viewer) => { if (user === undefined || viewer.user === user) viewer.socket.terminate(); });
  return { url: `http://127.0.0.1:${address.port}`, port: address.port, stats, close, cut, views: bus.views, graph: bus.graph, alarms: bus.alarms, runs: bus.runs, asked: bus.asked, tellRuns };
}

/** @param {string} name @param {number} otherwise */
const option = (name, otherwise) => Number(process.argv[process.argv.indexOf(name) + 1] && process.argv.includes(name) ? process.argv[process.argv.indexOf(name) + 1] : otherwise);

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  const { url } = await startFakeServer({ port: option('--port', 7480), streams: option('--streams', 14), fields: process.argv.includes('--fields') });
  console.log(`fake monitor at ${url}/`);
}
