/**
 * The editor of the processing graph: forms made of the server's description, drafts, the drawing, problems.
 */
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import { add, begin, bodyOf, changeParts, differenceOf, edit, inputsOf, isChanged, keep, nameOf, readDifference, readGraph, rebase, remove, restore, same, settle, type Draft, type Graph } from '../../src/model/graph-draft';
import { columnsOf, faultOf, isOneRow, newNode, readKinds, suggestName, typedOf, valueOf, type Setting } from '../../src/model/graph-kinds';
import { layoutOf, neighbour, sourceKey } from '../../src/model/graph-layout';
import { faresOf, lossText, markOf, otherProblems, problemsOf, readPlanned, readProblems, shortLoss, streamFacts } from '../../src/model/graph-state';
import { text, type Fields } from '../../src/wire/json';

/** What the server's own test holds together with its parser and its guide. */
const KINDS = readKinds(JSON.parse(readFileSync(fileURLToPath(new URL('../../../docs/protocol/golden/graph-kinds.json', import.meta.url)), 'utf8')));

const kind = (name: string) => {
  const found = KINDS.find((each) => each.kind === name);
  if (found === undefined) throw new Error(`no kind ${name}`);
  return found;
};
const setting = (of: string, name: string): Setting => {
  const found = kind(of).settings.find((each) => each.name === name);
  if (found === undefined) throw new Error(`${of} has no ${name}`);
  return found;
};

const thin = (name: string, input = 'lab/x', every: unknown = '10ms'): Fields => ({ name, kind: 'thin', input, every });
const graph = (revision: number, ...nodes: readonly Fields[]): Graph => readGraph({ revision, undo: revision, origin: { from: 'applied' }, nodes: nodes.map((node) => ({ ...node, offered_samples: 100, source_samples: 0, late_samples: 0, absent: [], error: null })) });
const idOf = (draft: Draft, name: string): number => draft.nodes.find(({ value }) => nameOf(value) === name)?.id ?? -1;
const names = (draft: Draft): readonly string[] => draft.nodes.map(({ value }) => nameOf(value));

describe('the form of a node', () => {
  test('has a field for each setting of each kind, which gives back what it was given', () => {
    expect(KINDS.map((each) => each.kind)).toEqual(['select', 'calibrate', 'thin', 'reduce', 'filter', 'resample', 'spectrum', 'derive', 'align', 'alarm', 'trigger', 'publish', 'operator']);
    for (const each of KINDS) {
      for (const one of each.settings) {
        for (const value of [one.example, one.default].filter((given) => given !== undefined)) {
          expect(valueOf(one, typedOf(one, value)), `${each.kind} ${one.name}`).toEqual(value);
          expect(faultOf(one, value), `${each.kind} ${one.name}`).toBe('');
        }
      }
    }
  });

  test('shows lists and tables as rows, and leaves out rows without words', () => {
    const statistics = setting('reduce', 'statistics');
    expect(typedOf(statistics, ['mean', 'q99'])).toEqual([['mean'], ['q99']]);
    expect(valueOf(statistics, [['mean'], [' '], [' q50 ']])).toEqual(['mean', 'q50']);
    expect(valueOf(statistics, [['']])).toBeUndefined();
    const variables = setting('derive', 'inputs');
    expect(columnsOf(variables)?.map(({ name }) => name)).toEqual(['variable', 'stream:channel']);
    expect(valueOf(variables, [['u', 'lab/probe:u'], ['i', 'lab/probe:i']])).toEqual({ u: 'lab/probe:u', i: 'lab/probe:i' });
    const calibrations = setting('calibrate', 'channels');
    expect(typedOf(calibrations, { a: { unit: 'K' } })).toEqual([['a', '', '', 'K']]);
    expect(valueOf(calibrations, [['a', '0.1', '', 'bar']])).toEqual({ a: { scale: 0.1, unit: 'bar' } });
    const output = setting('operator', 'channels');
    expect(typedOf(output, [{ name: 'image', unit: '', shape: [4, 8] }])).toEqual([['image', '', '4 × 8']]);
    expect(valueOf(output, [['image', '', '4 × 8'], ['rms', 'V', '']])).toEqual([{ name: 'image', unit: '', shape: [4, 8] }, { name: 'rms', unit: 'V' }]);
  });

  test('has one edge of a low pass and both of a band', () => {
    const response = setting('filter', 'response');
    expect(isOneRow(response)).toBe(true);
    expect(typedOf(response, { notch: [49, 51.5] })).toEqual([['notch', '49', '51.5']]);
    expect(valueOf(response, [['notch', '49', '51.5']])).toEqual({ notch: [49, 51.5] });
    expect(valueOf(response, [['lowpass', '50', '99']])).toEqual({ lowpass: 50 });
  });

  test('of an alarm has one channel or several', () => {
    const input = setting('alarm', 'input');
    expect(valueOf(input, [['lab/x:a']])).toBe('lab/x:a');
    expect(valueOf(input, [['lab/x:a'], ['lab/x:b']])).toEqual(['lab/x:a', 'lab/x:b']);
    expect(typedOf(input, 'lab/x:a')).toEqual([['lab/x:a']]);
  });

  test('keeps what cannot be read as text, and says what is wrong', () => {
    const level = setting('trigger', 'level');
    expect(valueOf(level, '2,5')).toBe('2,5');
    expect(faultOf(level, '2,5')).toBe('level is a number');
    expect(faultOf(level, undefined)).toBe('level is needed');
    const average = setting('spectrum', 'average');
    expect([0, 1, 4000, 4001, 1.5].map((value) => faultOf(average, value) === '')).toEqual([false, true, true, false, false]);
    expect(faultOf(average, 0)).toBe('average is a whole number from 1 to 4000');
    const settings = setting('operator', 'settings');
    expect([valueOf(settings, '{"share": 0.5}'), valueOf(settings, '{share')]).toEqual([{ share: 0.5 }, '{share']);
    expect(faultOf(settings, '{share')).toContain('an object in JSON');
    expect(faultOf(setting('derive', 'inputs'), { a: 'lab/x' })).toContain('stream:channel');
    expect([valueOf(setting('thin', 'every'), '100'), valueOf(setting('thin', 'every'), '100ms'), valueOf(setting('resample', 'rate'), '1000/3')]).toEqual([100, '100ms', '1000/3']);
  });

  test('begins with values that fit the stream, and keeps those that another kind has, too', () => {
    const source = { stream: 'lab/x', channels: ['a', 'b'] };
    expect(newNode(kind('thin'), 'lab/x/thin', source)).toEqual({ name: 'lab/x/thin', kind: 'thin', input: 'lab/x', every: '100ms' });
    expect(newNode(kind('derive'), 'y', source)).toEqual({ name: 'y', kind: 'derive', expression: 'a', inputs: { a: 'lab/x:a' } });
    expect(newNode(kind('reduce'), 'y', source, thin('y', 'lab/z', 7))).toMatchObject({ input: 'lab/z' });
    expect(newNode(kind('trigger'), 'y', source, thin('y'))).toMatchObject({ input: 'lab/x:a' });
    expect(newNode(kind('align'), 'y', source, { name: 'y', kind: 'derive', inputs: { u: 'lab/z:u' } })).toEqual({ name: 'y', kind: 'align', inputs: { u: 'lab/z:u' } });
    expect(suggestName('lab/x', 'thin', new Set(['lab/x/thin']))).toBe('lab/x/thin-2');
  });
});

describe('a draft', () => {
  const base = graph(3, thin('lab/a'), thin('lab/b', 'lab/a'), thin('lab/c'));

  test('that changes nothing sends back what it got', () => {
    const draft = begin(base);
    expect(isChanged(draft)).toBe(false);
    expect(bodyOf(draft)).toEqual({ node: [thin('lab/a'), thin('lab/b', 'lab/a'), thin('lab/c')] });
    expect(differenceOf(draft)).toEqual({ added: [], changed: [], removed: [], kept: ['lab/a', 'lab/b', 'lab/c'] });
  });

  test('tells what begins, begins anew, ends and continues', () => {
    let draft = add(begin(base), thin('lab/new'));
    draft = edit(draft, idOf(draft, 'lab/a'), thin('lab/a', 'lab/x', 20));
    draft = remove(draft, idOf(draft, 'lab/c'), true);
    expect(differenceOf(draft)).toEqual({ added: ['lab/new'], changed: ['lab/a'], removed: ['lab/c'], kept: ['lab/b'] });
    expect(changeParts(differenceOf(draft))).toEqual(['lab/new begins', 'lab/a begins anew', 'lab/c ends']);
    expect(draft.nodes.map((node) => markOf(draft, node))).toEqual(['changed', 'stays', 'ends', 'new']);
    draft = remove(draft, idOf(draft, 'lab/c'), false);
    draft = remove(draft, idOf(draft, 'lab/new'), true);
    draft = edit(draft, idOf(draft, 'lab/a'), { every: '10ms', ...thin('lab/a') });
    expect(isChanged(draft)).toBe(false);
    expect(names(draft)).toEqual(['lab/a', 'lab/b', 'lab/c']);
  });

  test('with another name for a node ends one stream and begins another', () => {
    const draft = edit(begin(base), 0, thin('lab/z'));
    expect(differenceOf(draft)).toMatchObject({ added: ['lab/z'], removed: ['lab/a'] });
    expect(draft.nodes[0] === undefined ? '' : markOf(draft, draft.nodes[0])).toBe('new');
  });

  test('stays on top of what another visitor changes, and follows where it changes nothing', () => {
    const mine = edit(begin(base), 0, thin('lab/a', 'lab/x', 20));
    const there = rebase(mine, graph(4, thin('lab/a'), thin('lab/c', 'lab/x', 30), thin('lab/d')));
    expect(names(there)).toEqual(['lab/a', 'lab/c', 'lab/d']);
    expect(bodyOf(there)).toEqual({ node: [thin('lab/a', 'lab/x', 20), thin('lab/c', 'lab/x', 30), thin('lab/d')] });
    expect(there.nodes.every(({ theirs }) => theirs === undefined)).toBe(true);
    expect(there.news).toBe('Another visitor changed the graph, to revision 4: lab/d begins; lab/c begins anew; lab/b ends.');
    expect(there.base.revision).toBe(4);
    const idle = rebase(begin(base), graph(4, thin('lab/d')));
    expect([names(idle), idle.news, isChanged(idle)]).toEqual([['lab/d'], '', false]);
  });

  test('marks what both changed, until the visitor settles it', () => {
    const mine = edit(begin(base), 0, thin('lab/a', 'lab/x', 20));
    const both = rebase(mine, graph(4, thin('lab/a', 'lab/x', 30), thin('lab/b', 'lab/a'), thin('lab/c')));
    expect(both.nodes[0]).toMatchObject({ value: thin('lab/a', 'lab/x', 20), theirs: thin('lab/a', 'lab/x', 30) });
    expect(settle(both, 0, 'mine').nodes[0]).toEqual({ id: 0, was: 'lab/a', value: thin('lab/a', 'lab/x', 20), removed: false });
    expect(isChanged(settle(both, 0, 'theirs'))).toBe(false);
    // A mark outlasts further changes elsewhere.
    const later = rebase(both, graph(5, thin('lab/a', 'lab/x', 30), thin('lab/c')));
    expect(later.nodes[0]?.theirs).toEqual(thin('lab/a', 'lab/x', 30));
    const ended = rebase(mine, graph(4, thin('lab/c')));
    expect(ended.nodes[0]).toMatchObject({ was: null, theirs: null });
    expect(names(settle(ended, 0, 'theirs'))).toEqual(['lab/c']);
    expect(names(rebase(remove(begin(base), 0, true), graph(4, thin('lab/c'))))).toEqual(['lab/c']);
    const same = rebase(add(begin(base), thin('lab/new')), graph(4, thin('lab/a'), thin('lab/b', 'lab/a'), thin('lab/c'), thin('lab/new')));
    expect([isChanged(same), names(same).length]).toEqual([false, 4]);
    const taken = rebase(add(begin(base), thin('lab/new')), graph(4, thin('lab/a'), thin('lab/b', 'lab/a'), thin('lab/c'), thin('lab/new', 'lab/y')));
    expect(taken.nodes[3]).toMatchObject({ was: 'lab/new', theirs: thin('lab/new', 'lab/y') });
  });

  test('never loses a change, and sends what it shows, whatever both do', () => {
    // Each node of three is left, changed or ended by each of two, and each may add one: all cases.
    const choices = ['left', 'changed', 'ended'] as const;
    for (let scene = 0; scene < 9 ** 3 * 4; scene += 1) {
      const [mineAdds, theyAdd] = [scene % 2 === 1, Math.floor(scene / 2) % 2 === 1];
      let rest = Math.floor(scene / 4);
      let draft = begin(base);
      const theirs: Fields[] = theyAdd ? [thin('lab/t')] : [];
      const mine = new Map<string, string>();
      for (const [id, node] of base.nodes.entries()) {
        const name = nameOf(node.value);
        const own = choices[rest % 3] ?? 'left';
        const other = choices[Math.floor(rest / 3) % 3] ?? 'left';
        rest = Math.floor(rest / 9);
        mine.set(name, own);
        if (own === 'changed') draft = edit(draft, id, { ...node.value, every: 77 });
        if (own === 'ended') draft = remove(draft, id, true);
        if (other !== 'ended') theirs.push(other === 'changed' ? { ...node.value, every: 99 } : node.value);
      }
      if (mineAdds) draft = add(draft, thin('lab/m'));
      const now = graph(4, ...theirs);
      const based = rebase(draft, now);
      const sent = new Map((bodyOf(based)['node'] as Fields[]).map((value) => [nameOf(value), value]));
      for (const [name, own] of mine) {
        const there = theirs.find((value) => nameOf(value) === name);
        const expected = own === 'changed' ? 77 : own === 'ended' ? undefined : there?.['every'];
        expect(sent.get(name)?.['every'], `${scene} ${name}`).toEqual(expected);
      }
      expect([sent.has('lab/m'), sent.has('lab/t')], `${scene}`).toEqual([mineAdds, theyAdd]);
      const { added, changed, kept, removed } = differenceOf(based);
      expect([...added, ...changed, ...kept].sort()).toEqual([...sent.keys()].sort());
      expect([...changed, ...kept, ...removed].sort()).toEqual(theirs.map(nameOf).sort());
      expect(new Set(based.nodes.map(({ id }) => id)).size).toBe(based.nodes.length);
      expect(rebase(based, now).nodes).toEqual(based.nodes);
    }
  });

  test('is there after a reload, for the same visitor alone', () => {
    const mine = edit(begin(base), 0, thin('lab/a', 'lab/x', 20));
    const kept = keep(mine, 'user:ada');
    expect(restore(kept, 'user:ada', base)?.nodes[0]?.value).toEqual(thin('lab/a', 'lab/x', 20));
    expect(restore(kept, 'user:ada', graph(9, thin('lab/a'), thin('lab/d')))?.base.revision).toBe(9);
    expect(restore(kept, 'user:bob', base)).toBeNull();
    expect(restore(kept, 'user:ada', graph(4, thin('lab/a', 'lab/x', 20)))).toBeNull();
    expect([restore(null, '', base), restore('{', '', base), restore('{"principal":""}', '', base)]).toEqual([null, null, null]);
  });

  test('reads answers, and names the streams that a node reads', () => {
    const read = readGraph({ revision: 2, nodes: [{ ...thin('lab/a'), offered_samples: 10, source_samples: 3, late_samples: 1, absent: ['lab/x'], error: 'no', process: { state: 'lagging' } }] });
    expect(read.nodes[0]).toEqual({ value: thin('lab/a'), offered: 10, source: 3, late: 1, absent: ['lab/x'], error: 'no', process: 'lagging' });
    expect(inputsOf({ inputs: { a: 'lab/x:a', b: 'lab/x:b', c: 'lab/y:c' } })).toEqual(['lab/x', 'lab/y']);
    expect(inputsOf({ inputs: ['lab/x', 'lab/y'] })).toEqual(['lab/x', 'lab/y']);
    expect(inputsOf({ input: ['lab/x:a', 'lab/x:b'] })).toEqual(['lab/x']);
    expect(same({ a: 1, b: [{ c: 2, d: 3 }] }, { b: [{ d: 3, c: 2 }], a: 1 })).toBe(true);
    expect(readDifference({ added: ['a'], kept: 'b' })).toEqual({ added: ['a'], changed: [], removed: [], kept: [] });
  });
});

describe('the drawing', () => {
  const nodes = [
    { key: 'd', stream: 'd', inputs: ['b', 'c'] }, { key: 'b', stream: 'b', inputs: ['x'] },
    { key: 'c', stream: 'c', inputs: ['x', 'y'] }, { key: 'e', stream: 'e', inputs: ['d'] },
  ];

  test('has each node to the right of all that it reads, and no two at one place', () => {
    const { places, edges, columns } = layoutOf(nodes);
    const at = new Map(places.map((place) => [place.key, place]));
    for (const { from, to } of edges) expect(at.get(from)?.column, `${from} ${to}`).toBeLessThan(at.get(to)?.column ?? -1);
    expect(new Set(places.map(({ column, row }) => `${column} ${row}`)).size).toBe(places.length);
    expect([columns, places.filter(({ source }) => source !== null).map(({ source }) => source)]).toEqual([4, ['x', 'y']]);
  });

  test('of a circle and of two nodes of one name ends, with all nodes in it', () => {
    const { places } = layoutOf([{ key: '1', stream: 'a', inputs: ['b'] }, { key: '2', stream: 'b', inputs: ['a'] }, { key: '3', stream: 'b', inputs: ['b'] }]);
    expect(places.map(({ key }) => key).sort()).toEqual(['1', '2', '3']);
    expect(layoutOf([])).toEqual({ places: [], edges: [], columns: 1, rows: 0 });
  });

  test('is walked through with arrow keys along its edges', () => {
    const layout = layoutOf(nodes);
    expect(neighbour(layout, sourceKey('x'), 'ArrowRight')).toBe('b');
    expect(neighbour(layout, 'b', 'ArrowRight')).toBe('d');
    expect(neighbour(layout, 'd', 'ArrowLeft')).toBe('b');
    expect([neighbour(layout, 'b', 'ArrowDown'), neighbour(layout, 'c', 'ArrowUp'), neighbour(layout, 'e', 'ArrowRight'), neighbour(layout, 'none', 'ArrowUp')]).toEqual(['c', 'b', null, null]);
  });
});

describe('what the editor says', () => {
  test('has each problem at its node, and others at the graph', () => {
    const draft = add(begin(graph(1, thin('lab/a'), thin('lab/b'))), thin('', 'lab/x'));
    const found = readProblems({ error: 'all', problems: [{ node: 'lab/a', error: 'uneven' }, { node: 'lab/a', error: 'twice' }, { node: null, error: 'too many' }, { node: 'lab/hidden', error: 'taken' }] });
    const at = (place: number): readonly string[] => (draft.nodes[place] === undefined ? [] : problemsOf(draft.nodes[place], KINDS, found));
    expect([at(0), at(1)]).toEqual([['uneven', 'twice'], []]);
    expect(at(2)).toEqual(['name is needed: it is that of the stream']);
    expect(otherProblems(draft, found)).toEqual(['too many', 'lab/hidden: taken']);
    expect(readProblems({ error: 'no', help: 'do this' })).toEqual([{ node: null, error: 'no\ndo this' }]);
    const gone = remove(draft, 0, true);
    expect(gone.nodes[0] === undefined ? [''] : problemsOf(gone.nodes[0], KINDS, found)).toEqual([]);
  });

  test('has how a node fares, its rate and unit, and its losses', () => {
    const [node] = graph(1, thin('lab/a')).nodes;
    if (node === undefined) throw new Error('one node');
    expect([faresOf(undefined, undefined).text, faresOf(node, undefined).text, faresOf({ ...node, offered: 0 }, undefined).text]).toEqual(['does not run yet', 'runs', 'waits for its input']);
    expect(faresOf({ ...node, error: 'no channel', absent: ['lab/x'] }, undefined)).toEqual({ mood: 'bad', text: 'no channel' });
    expect(faresOf({ ...node, absent: ['lab/x'] }, undefined)).toEqual({ mood: 'warn', text: 'lab/x absent' });
    expect(faresOf({ ...node, process: 'ended' }, undefined)).toEqual({ mood: 'warn', text: 'process: ended' });
    expect([lossText(node), lossText({ ...node, source: 12, late: 3 }), shortLoss({ ...node, source: 12, late: 3 })]).toEqual(['', '12 of 100 samples in holes · 3 late', '12 in holes']);
    const [planned] = readPlanned({ streams: [{ name: 'y', rate: { numerator: 1000, denominator: 3 }, channels: [{ name: 'a', unit: 'V' }, { name: 'b', unit: 'A' }] }] });
    expect(planned?.rate).toBeCloseTo(333.33, 2);
    expect(streamFacts(planned).replaceAll('\u202f', ' ')).toBe('333 samples/s · 2 channels · V, A');
    expect(text({ a: streamFacts(undefined) }, 'a')).toBe('');
  });
});
