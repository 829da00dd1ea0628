import { describe, expect, test } from 'vitest';
import { EMPTY_LAYOUT, leftOut, overlay, plotOf, readLayout, withoutRoom, writeLayout, type Layout } from '../../src/model/layout';
import { parseInputs } from '../../src/model/inputs';

const trace = (stream: string, channel = 'I'): { stream: string; channel: string } => ({ stream, channel });

const LAYOUT: Layout = {
  plots: [
    { ...plotOf([trace('w7x/ecrh/power', 'gyrotron 1'), trace('a/b', 'x,y:z;w=&?#%')]), columns: 6, rows: 2, axis: { kind: 'fixed', range: { low: -1.5, high: 2e9 } } },
    { ...plotOf([trace('geo/μ-метр', 'BHZ')]), axis: { kind: 'held', range: { low: 0, high: 1e-12 } } },
    plotOf([trace('lab/probe')]),
    { ...plotOf([trace('plate/image', 'temperature')], 'image'), axis: { kind: 'held', range: { low: 20, high: 80 } } },
    { ...plotOf([trace('lab/spectrum', 'x')], 'spectrum'), log: 'xy' },
    { ...plotOf([trace('plate/stack', 'temperature')], 'image'), plane: [2] },
    { ...plotOf([trace('lab/probes', 'x')], 'waterfall'), plane: [1, 0] },
    plotOf([trace('lab/spectrum', 'x')], 'waterfall'),
    { ...plotOf([trace('lab/spectrum', 'x')], 'waterfall'), log: '' },
    { ...plotOf([trace('lab/spectrum', 'x')], 'spectrum'), log: '' },
  ],
  window: { spanNs: 1_234_567n, endNs: 1_790_000_000_123_456_789n },
  single: 1,
  cursors: { a: 1_790_000_000_123_000_000n, b: 1_790_000_000_122_000_001n },
  run: null,
};

describe('the address', () => {
  test('says what the page shows, and reading it shows the same', () => {
    expect(readLayout(`?${writeLayout(LAYOUT)}`)).toEqual(LAYOUT);
    expect(readLayout(writeLayout(EMPTY_LAYOUT))).toEqual(EMPTY_LAYOUT);
    expect(readLayout('')).toEqual(EMPTY_LAYOUT);
  });

  test('survives a browser, which may escape more than we do', () => {
    const url = new URL(`http://host/?${writeLayout(LAYOUT)}`);
    expect(readLayout(url.search)).toEqual(LAYOUT);
  });

  test('stays readable', () => {
    expect(writeLayout({ ...EMPTY_LAYOUT, plots: [plotOf([trace('w7x/ecrh/power')])] })).toBe('span=10s&plot=w7x/ecrh/power:I');
    expect(writeLayout({ ...EMPTY_LAYOUT, window: { spanNs: 90_000_000_000n, endNs: null } })).toBe('span=90s');
    expect(writeLayout({ ...EMPTY_LAYOUT, plots: [plotOf([trace('plate/image', 't')], 'image')] })).toBe('span=10s&plot=plate/image:t;panel=image');
    expect(writeLayout({ ...EMPTY_LAYOUT, plots: [plotOf([trace('lab/s', 'x')], 'spectrum')] })).toBe('span=10s&plot=lab/s:x;panel=spectrum');
    expect(writeLayout({ ...EMPTY_LAYOUT, plots: [{ ...plotOf([trace('plate/stack', 't')], 'image'), plane: [1, 0] }] })).toBe('span=10s&plot=plate/stack:t;panel=image;plane=1,0');
    expect(writeLayout({ ...EMPTY_LAYOUT, window: { spanNs: 120_000_000_000n, endNs: null } })).toBe('span=2min');
  });

  test.each(['span=0s', 'span=99999d', 'span=x', 'end=soon', 'plot=', 'plot=noChannel', 'plot=%zz:a', 'single=0', 'single=x', '&&&=', 'plot=a', 'cursors=1', 'cursors=1,', 'cursors=a,b', 'cursors=1,2,3'])(
    'leaves out what it does not understand: %s', (query) => expect(readLayout(query)).toEqual(EMPTY_LAYOUT));

  test.each(['w=0', 'w=13', 'w=1.5', 'h=5', 'h=-1', 'y=fixed:2:1', 'y=fixed:a:b', 'y=odd:0:1', 'y=fixed::', 'y=fixed:0:Infinity', 'z=1', 'panel=odd', 'panel=', 'log=xy', 'plane=1'])(
    'leaves a setting out that cannot be: %s', (setting) => expect(readLayout(`plot=a/b:I;${setting}`).plots).toEqual([plotOf([trace('a/b')])]));

  test.each(['plane=', 'plane=0', 'plane=0,0', 'plane=-1', 'plane=1.5', 'plane=1,', 'plane=x', 'plane=4294967296', 'plane=1,1,1,1,1,1,1'])(
    'shows the first plane for one that cannot be: %s', (setting) => expect(readLayout(`plot=a/b:I;panel=image;${setting}`).plots).toEqual([plotOf([trace('a/b')], 'image')]));

  test('holds at most 24 plots and a plot at most a hundred traces, and says what is left out', () => {
    const plots = (count: number): string => Array.from({ length: count }, () => 'plot=a:b').join('&');
    expect(readLayout(plots(24)).plots).toHaveLength(24);
    expect(leftOut(plots(24))).toBe('');
    expect(readLayout(plots(26)).plots).toHaveLength(24);
    expect(leftOut(plots(26))).toBe('A page holds 24 plots of 100 traces: left out 2 of 26 plots');
    const many = Array.from({ length: 110 }, (_, i) => trace(`s/${i}`));
    const crowded = plotOf(many);
    expect(crowded.traces).toHaveLength(100);
    expect(plotOf(many, 'image').traces).toHaveLength(1);
    expect(withoutRoom(crowded, many)).toBe('A plot holds at most 100 traces: 10 left out');
    expect(withoutRoom(crowded, many.slice(0, 100))).toBe('');
    expect(overlay(plotOf(many.slice(0, 30)), many).traces).toHaveLength(100);
    const address = `plot=${many.map(({ stream, channel }) => `${stream}:${channel}`).join(',')}`;
    expect(leftOut(`${address}&${plots(24)}`)).toBe('A page holds 24 plots of 100 traces: left out 1 of 25 plots and 10 traces of crowded plots');
  });
});

test('a trace is laid over a plot once', () => {
  const plot = plotOf([trace('a')]);
  expect(overlay(plot, [trace('a'), trace('b')]).traces).toEqual([trace('a'), trace('b')]);
});

test.each<[string, Readonly<Record<string, string>> | null]>([
  ['a = lab/x:I, b=lab/y:U 2', { a: 'lab/x:I', b: 'lab/y:U 2' }], ['a=lab/x', null], ['', null], ['1=a:b', null], ['a=x:y,a=x:z', null],
])('the inputs "%s" of a derived stream are understood', (text, inputs) => expect(parseInputs(text)).toEqual(inputs));

describe('panels of text', () => {
  test('a table has as many channels as a trend, and alarms have none', () => {
    const address = 'span=10s&plot=a:b,c:d;panel=table&plot=;h=2;panel=alarms&plot=;panel=image';
    const { plots } = readLayout(address);
    expect(plots.map(({ panel, traces, rows }) => `${panel} ${traces.length} ${rows}`)).toEqual(['table 2 1', 'alarms 0 2']);
    expect(readLayout(writeLayout(readLayout(address))).plots).toEqual(plots);
    expect(leftOut(Array.from({ length: 25 }, () => 'plot=;panel=alarms').join('&'))).toContain('left out 1 of 25 plots');
  });
});
