import { describe, expect, test } from 'vitest';
import { MAX_PLOTS, plotOf, type Layout } from '../../src/model/layout';
import { changedFields, fieldsOf, keepIds, merged, newId, rebasedOrder, shownOf, unshown, type Shown } from '../../src/model/shared-fields';
import { columnStep, isName, nameOfTitle, readLink, writeLink } from '../../src/model/shared-link';
import { parseJson, writeJson, fields, type Fields } from '../../src/wire/json';
import { below, seeded, someChange, someLayout, someShown } from './some-layouts';

const SEEDS = Array.from({ length: 150 }, (_, seed) => seed);
/** Over the wire and back. */
const sent = (document: Fields): Fields => fields(parseJson(writeJson(document)));
/** What this page cannot show, among what it can. */
const strangers = (document: Fields, random: () => number): Fields => {
  const order = [...(document['order'] as string[])];
  for (const id of ['w1', 'w2']) order.splice(below(random, order.length + 1), 0, id);
  const panels = { 'plot/w1': { panel: 'dial', traces: [], fft: 512 }, 'plot/w2': { panel: 'gauge', rows: 3 } };
  return { ...document, ...panels, order: order.slice(0, MAX_PLOTS), notes: 'kept' };
};

describe('a layout', () => {
  test.each(SEEDS)('comes back from its document, seed %i', (seed) => {
    const shown = someShown(seeded(seed));
    expect(shownOf(sent(fieldsOf(shown)))).toEqual(shown);
    expect(changedFields(shown, shown, fieldsOf(shown))).toEqual({});
  });

  test.each(SEEDS)('becomes another one by the fields in which they differ, seed %i', (seed) => {
    const random = seeded(seed);
    const before = someShown(random);
    const document = sent(strangers(fieldsOf(before), random));
    let layout: Layout = before.layout;
    for (let changes = below(random, 4); changes >= 0; changes -= 1) layout = someChange(random, layout);
    const after: Shown = { layout, ids: keepIds(before, layout, () => newId(random)) };
    const changed = changedFields(shownOf(document), after, document);
    const next = sent(merged(document, changed));
    expect(shownOf(next)).toEqual(after);
    expect(changedFields(after, shownOf(next), next)).toEqual({});
    // What the page cannot show stays where it was.
    expect([next['plot/w1'], next['plot/w2'], next['notes'], unshown(next)]).toEqual([document['plot/w1'], document['plot/w2'], 'kept', 2]);
  });

  test.each(SEEDS)('gives each plot a name of its own, and the same one while it stays, seed %i', (seed) => {
    const random = seeded(seed);
    let shown = someShown(random);
    for (let round = 0; round < 5; round += 1) {
      const layout = someChange(random, shown.layout);
      const ids = keepIds(shown, layout, () => newId(random));
      expect(new Set(ids).size).toBe(layout.plots.length);
      layout.plots.forEach((plot, i) => { const was = shown.layout.plots.indexOf(plot); if (was >= 0) expect(ids[i]).toBe(shown.ids[was]); });
      if (layout.plots.length === shown.layout.plots.length) expect(ids).toEqual(shown.ids);
      shown = { layout, ids };
    }
  });

  test('names only what changed', () => {
    const traces = [{ stream: 'a', channel: 'x' }];
    const layout: Layout = { ...someLayout(seeded(1)), plots: [plotOf(traces), plotOf([{ stream: 'b', channel: 'y' }])], single: null };
    const before: Shown = { layout, ids: ['p', 'q'] };
    const document = fieldsOf(before);
    const change = (next: Partial<Layout>): Fields => {
      const after = { ...layout, ...next };
      return changedFields(before, { layout: after, ids: keepIds(before, after, () => 'new') }, document);
    };
    expect(change({ window: { spanNs: 5_000n, endNs: null } })).toEqual({ window: { span_ns: '5000', end_ns: null } });
    expect(change({ single: 1 })).toEqual({ single: 'q' });
    expect(change({ plots: layout.plots.slice(1) })).toEqual({ 'plot/p': null, order: ['q'] });
    expect(Object.keys(change({ plots: [...layout.plots, plotOf([])] }))).toEqual(['plot/new', 'order']);
    expect(change({ plots: layout.plots.map((plot) => ({ ...plot, rows: 2 })).slice(0, 2) })).toMatchObject({ 'plot/p': { rows: 2 }, 'plot/q': { rows: 2 } });
    expect(change({})).toEqual({});
  });
});

describe('a document', () => {
  test.each<[string, Fields]>([
    ['nothing', {}], ['other types', { order: 'p', window: 7, cursors: [], single: 3, 'plot/p': 'x' }], ['a place without a plot', { order: ['p', 3, 'p'] }],
    ['a plot without traces', { order: ['p'], 'plot/p': { traces: [{}, 'x', null] } }], ['a plot without a place', { 'plot/p': { traces: [{ stream: 'a', channel: 'b' }] } }],
    ['a run without an id that can be', { run: { id: 'two words', relative: true, whole: true } }], ['times that cannot be', { window: { span_ns: 0, end_ns: -5 }, cursors: { a_ns: -1, b_ns: 5 } }],
  ])('of %s shows nothing', (_, document) => {
    expect(shownOf(document)).toEqual({ ids: [], layout: { plots: [], window: { spanNs: 10_000_000_000n, endNs: null }, single: null, cursors: null, run: null } });
  });

  test('has the run that is shown, by id and moment, with how time is counted', () => {
    const run = { choice: { id: 'shot-17', at: 1_795_887_878_444_000_001n }, relative: true, whole: true };
    const layout: Layout = { ...shownOf({}).layout, run };
    const document = sent(fieldsOf({ layout, ids: [] }));
    expect(document['run']).toEqual({ id: 'shot-17', at_ns: '1795887878444000001', relative: true, whole: true });
    expect(shownOf(document).layout.run).toEqual(run);
    // A script need not write all of it.
    expect(shownOf({ run: { id: 'shot-17' } }).layout.run).toEqual({ choice: { id: 'shot-17', at: null }, relative: false, whole: false });
    const changed = (run: Layout['run']): Fields => changedFields({ layout, ids: [] }, { layout: { ...layout, run }, ids: [] }, document);
    expect(changed({ ...run, relative: false })).toEqual({ run: { id: 'shot-17', at_ns: '1795887878444000001', relative: false, whole: true } });
    expect([changed(null), changed({ ...run })]).toEqual([{ run: null }, {}]);
  });

  test('shows at most as many plots as a page holds', () => {
    const plot = { panel: 'trend', traces: [{ stream: 'a', channel: 'b' }] };
    const of = (count: number): Fields => Object.fromEntries([['order', Array.from({ length: count }, (_, i) => `p${i}`)], ...Array.from({ length: count }, (_, i) => [`plot/p${i}`, plot] as const)]);
    expect(shownOf(of(24)).ids).toHaveLength(24);
    expect(shownOf(of(25)).ids).toHaveLength(24);
  });

  test('keeps the keys, the axis and the traces of a plot that the page does not understand', () => {
    const traces = Array.from({ length: 101 }, (_, i) => ({ stream: `s/${i}`, channel: 'x', colour: 3 }));
    const document: Fields = { order: ['p'], 'plot/p': { panel: 'trend', traces, columns: 40, rows: 1, axis: { kind: 'log', base: 2 }, trigger: { level_ns: '1790000000123456789' } } };
    const before = shownOf(document);
    const layout = { ...before.layout, plots: before.layout.plots.map((plot) => ({ ...plot, rows: 3 })) };
    const changed = changedFields(before, { layout, ids: before.ids }, document);
    expect(changed).toEqual({ 'plot/p': { ...(document['plot/p'] as Fields), rows: 3 } });
    expect(writeJson(changed)).toContain('"level_ns":1790000000123456789');
  });

  test('has the plane of a plot, the first one as a list without an index', () => {
    const plot = (plane: readonly number[]): Fields => ({ panel: 'image', traces: [{ stream: 'a', channel: 'b' }], columns: null, rows: 1, axis: { kind: 'auto' }, plane });
    const document: Fields = { order: ['p'], 'plot/p': plot([1, 0]) };
    const before = shownOf(document);
    const on = (plane: readonly number[]): Fields => changedFields(before, { ids: before.ids, layout: { ...before.layout, plots: before.layout.plots.map((each) => ({ ...each, plane })) } }, document);
    expect([before.layout.plots[0]?.plane, on([1, 0]), on([1, 1]), on([])]).toEqual([[1, 0], {}, { 'plot/p': plot([1, 1]) }, { 'plot/p': plot([]) }]);
  });

  test('gives an unchanged plot as the same object, so that its panel stays', () => {
    const before = someShown(seeded(8));
    const again = shownOf(sent(fieldsOf(before)), before);
    expect(again.layout.plots.every((plot, i) => plot === before.layout.plots[i])).toBe(true);
  });
});

test.each<[string, string, string, string]>([
  ['abc', 'abc', 'cab', 'cab'], ['abc', 'abcd', 'bca', 'bcda'], ['abc', 'ac', 'cba', 'ca'], ['ab', 'xab', 'bay', 'xbay'], ['', 'b', 'a', 'ba'],
])('an order on %s where others have %s now and this page %s is %s', (old, theirs, mine, is) => {
  expect(rebasedOrder([...old], [...theirs], [...mine]).join('')).toBe(is);
});

describe('a link', () => {
  test('is read as it was written', () => {
    const id = '0123456789abcdef0123456789abcdef';
    for (const link of [{ kind: 'view', name: 'rod.1_a-B' }, { kind: 'fork', name: 'rod' }, { kind: 'watch', id }] as const) expect(readLink(`?${writeLink(link)}`)).toEqual(link);
    for (const query of ['', '?view=', '?view=.rod', '?view=a/b', `?view=${'a'.repeat(65)}`, '?watch=12', `?watch=${id.toUpperCase()}`, '?fork=ä', '?span=10s']) expect(readLink(query)).toEqual({ kind: 'none' });
    expect(readLink(`?view=${'a'.repeat(64)}`)).toEqual({ kind: 'view', name: 'a'.repeat(64) });
  });

  test.each([['Heated rod', 'Heated-rod'], ['Prüfstand 3 / früh', 'Prufstand-3-fruh'], ['..x', 'x'], ['плазма', ''], ['  a  ', 'a'], ['a'.repeat(80), 'a'.repeat(64)]])(
    'to "%s" names it %s', (title, name) => {
      expect(nameOfTitle(title)).toBe(name);
      expect(name === '' || isName(name)).toBe(true);
    });

  test.each([[1, 320], [320, 320], [321, 480], [1280, 1280], [1281, 1920], [2560, 2560], [9000, 2560]])('%i pixels ask for %i columns', (width, columns) => expect(columnStep(width)).toBe(columns));
});
