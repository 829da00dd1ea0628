import { describe, expect, test } from 'vitest';
import { EMPTY_LAYOUT, overlay, plotOf, readLayout, writeLayout, type Layout } from '../../src/model/layout';
import { parseInputs } from '../../src/model/inputs';

const trace = (stream: string, channel = 'I'): { stream: string; channel: string } => ({ stream, channel });

const LAYOUT: Layout = {
  plots: [
    { ...plotOf([trace('w7x/ecrh/power', 'gyrotron 1'), trace('a/b', 'x,y:z;w=&?#%')]), columns: 6, rows: 2, axis: { kind: 'fixed', range: { low: -1.5, high: 2e9 } } },
    { ...plotOf([trace('geo/μ-метр', 'BHZ')]), axis: { kind: 'held', range: { low: 0, high: 1e-12 } } },
    plotOf([trace('lab/probe')]),
  ],
  window: { spanNs: 1_234_567n, endNs: 1_790_000_000_123_456_789n },
  single: 1,
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
    expect(writeLayout({ ...EMPTY_LAYOUT, window: { spanNs: 120_000_000_000n, endNs: null } })).toBe('span=2min');
  });

  test.each(['span=0s', 'span=99999d', 'span=x', 'end=soon', 'plot=', 'plot=noChannel', 'plot=%zz:a', 'single=0', 'single=x', '&&&=', 'plot=a'])(
    'leaves out what it does not understand: %s', (query) => expect(readLayout(query)).toEqual(EMPTY_LAYOUT));

  test.each(['w=0', 'w=13', 'w=1.5', 'h=5', 'h=-1', 'y=fixed:2:1', 'y=fixed:a:b', 'y=odd:0:1', 'y=fixed::', 'y=fixed:0:Infinity', 'z=1'])(
    'leaves a setting out that cannot be: %s', (setting) => expect(readLayout(`plot=a/b:I;${setting}`).plots).toEqual([plotOf([trace('a/b')])]));

  test('holds at most twelve plots and a plot at most thirty-two traces', () => {
    expect(readLayout(Array.from({ length: 12 }, () => 'plot=a:b').join('&')).plots).toHaveLength(12);
    expect(readLayout(Array.from({ length: 13 }, () => 'plot=a:b').join('&')).plots).toHaveLength(12);
    const many = Array.from({ length: 40 }, (_, i) => trace(`s/${i}`));
    expect(plotOf(many).traces).toHaveLength(32);
    expect(overlay(plotOf(many.slice(0, 30)), many).traces).toHaveLength(32);
  });
});

test('a trace is laid over a plot once', () => {
  const plot = plotOf([trace('a')]);
  expect(overlay(plot, [trace('a'), trace('b')]).traces).toEqual([trace('a'), trace('b')]);
});

test.each<[string, Readonly<Record<string, string>> | null]>([
  ['a = lab/x:I, b=lab/y:U 2', { a: 'lab/x:I', b: 'lab/y:U 2' }], ['a=lab/x', null], ['', null], ['1=a:b', null], ['a=x:y,a=x:z', null],
])('the inputs "%s" of a derived stream are understood', (text, inputs) => expect(parseInputs(text)).toEqual(inputs));
