/**
 * The processing graph of the fake server: it computes nothing, and finds only problems of names and kinds, and window lengths that
 * are no whole number of samples.
 */
import { readFileSync } from 'node:fs';

/** @typedef {Record<string, any>} Node */
/** @typedef {{node: string | null, error: string}} Problem */

const KINDS = JSON.parse(readFileSync(new URL('../../docs/protocol/golden/graph-kinds.json', import.meta.url), 'utf8'));
const HELP = 'docs/guide/graph.md has every kind with its settings';

/** A graph in which nodes run, wait, lose samples and have failed. @type {readonly Node[]} */
export const SHOWN = [
  { name: 'lab/ecrh/kilowatts', kind: 'calibrate', input: 'w7x/ecrh/power', channels: { 'gyrotron 1': { scale: 0.001, offset: 0, unit: 'kW' } } },
  { name: 'lab/ecrh/slow', kind: 'thin', input: 'lab/ecrh/kilowatts', every: '100ms' },
  { name: 'lab/ecrh/alarm', kind: 'alarm', input: 'lab/ecrh/kilowatts:gyrotron 1', high_warning: 450, high_alarm: 500, hysteresis: 5, hold: '100ms' },
  { name: 'lab/mirnov/band', kind: 'filter', input: 'w7x/magnetics/mirnov', response: { bandpass: [1000, 8000] }, order: 4 },
  { name: 'lab/mirnov/spectrum', kind: 'spectrum', input: 'lab/mirnov/band', size: 1024, overlap: 0.5, window: 'hann', scale: 'density', average: 8 },
  { name: 'lab/mirnov/rms', kind: 'operator', python: 'mirnov.py:rms', inputs: ['lab/mirnov/band'], every: 100 },
  { name: 'lab/both', kind: 'align', inputs: { mode: 'lab/mirnov/rms:rms', power: 'lab/ecrh/slow:gyrotron 1.mean' } },
  { name: 'lab/ward/beats', kind: 'trigger', input: 'clinic/ward-2/ecg:MLII', level: 0.6, edge: 'rising', hysteresis: 0.1, before: '200ms', after: '400ms' },
];

/** How they fare. @type {Record<string, Record<string, unknown>>} */
const FARES = {
  'lab/mirnov/band': { source_samples: 1_240 },
  'lab/both': { absent: ['lab/mirnov/rms'], late_samples: 12 },
  'lab/mirnov/rms': { process: { state: 'lagging', pid: 4711, starts: 2, last_end: null } },
  'lab/ward/beats': { error: 'stream `clinic/ward-2/ecg` has no channel `MLII`; it has lead 1, lead 2' },
};

/** The graph of one server. */
export class FakeGraph {
  revision = 1;
  /** @type {Node[][]} */
  earlier = [];

  /** @param {readonly Node[]} nodes */
  constructor(nodes) {
    this.nodes = [...nodes];
  }

  status() {
    const nodes = this.nodes.map((node, i) => ({ ...node, offered_samples: 12_400 * (i + 1), source_samples: 0, late_samples: 0, absent: [], error: null, ...FARES[node['name']] }));
    return { revision: this.revision, undo: this.earlier.length, origin: { from: this.revision === 1 ? 'settings' : 'applied' }, nodes };
  }

  /** @param {readonly Node[]} nodes @returns {Problem[]} */
  problems(nodes) {
    return nodes.flatMap((node, place) => {
      const { name, kind } = /** @type {any} */ (node);
      const described = KINDS.find((/** @type {any} */ each) => each.kind === kind);
      const wrong = (/** @type {string} */ error) => [{ node: name, error }];
      if (described === undefined) return wrong(`unknown variant \`${kind}\``);
      if (nodes.findIndex((each) => each['name'] === name) < place) return wrong('this name is already computed on this server; remove that node first, or choose another name');
      const lacks = described.settings.find((/** @type {any} */ each) => each.needed && node[each.name] === undefined);
      if (lacks !== undefined) return wrong(`missing field \`${lacks.name}\``);
      return /^\d+us$/.test(node['every']) ? wrong(`${node['every']} is not a whole number of samples, 2 or more, at 1000 samples per second; the nearest is 2 samples, 2ms`) : [];
    });
  }

  /** What replacing the nodes does. @param {readonly Node[]} nodes */
  difference(nodes) {
    const old = new Map(this.nodes.map((node) => [node['name'], JSON.stringify(node)]));
    const now = new Map(nodes.map((node) => [node['name'], JSON.stringify(node)]));
    const names = [...now.keys()].sort();
    return {
      revision: this.revision + 1, values_per_s: 4_000, lasting: true, streams: [],
      kept: names.filter((name) => old.get(name) === now.get(name)), changed: names.filter((name) => old.has(name) && old.get(name) !== now.get(name)),
      added: names.filter((name) => !old.has(name)), removed: [...old.keys()].filter((name) => !now.has(name)).sort(),
    };
  }

  /** @param {string} request method and path @param {string | undefined} of @param {any} body @returns {[number, unknown] | null} */
  answer(request, of, body) {
    const nodes = body?.node ?? [];
    const stale = /** @type {[number, unknown]} */ ([412, { error: `the graph is at revision ${this.revision}, not ${of}`, help: 'read the graph again, and apply the change to that' }]);
    switch (request) {
      case 'GET /api/graph': return [200, this.status()];
      case 'GET /api/graph/kinds': return [200, KINDS];
      case 'POST /api/graph/check': return this.refusal(nodes) ?? [200, this.difference(nodes)];
      case 'PUT /api/graph': return of !== `"${this.revision}"` ? stale : this.refusal(nodes) ?? [200, this.replace(nodes)];
      case 'POST /api/graph/undo': {
        if (of !== `"${this.revision}"`) return stale;
        const before = this.earlier.pop();
        if (before === undefined) return [400, { error: 'there is no earlier graph to return to', help: HELP }];
        const changed = this.replace(before);
        this.earlier.pop();
        return [200, changed];
      }
      default: return null;
    }
  }

  /** Replaces the nodes, as another visitor does. @param {readonly Node[]} nodes */
  replace(nodes) {
    const changed = this.difference(nodes);
    this.earlier.push(this.nodes);
    [this.nodes, this.revision] = [[...nodes], this.revision + 1];
    return changed;
  }

  /** @param {readonly Node[]} nodes @returns {[number, unknown] | null} */
  refusal(nodes) {
    const problems = this.problems(nodes);
    return problems.length === 0 ? null : [400, { error: problems.map(({ node, error }) => `node \`${node}\`: ${error}`).join('\n'), help: HELP, problems }];
  }
}
