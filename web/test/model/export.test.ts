import { describe, expect, test } from 'vitest';
import { commandLine, exportPath, fileName, isTooMuch, MAX_VALUES, partsOf, sizeText, type ExportPart } from '../../src/model/export';
import { sheetOf, LINE, MARGIN, type SheetPlot } from '../../src/model/sheet';
import { readStreams } from '../../src/wire/messages';

const STRETCH = { from: 1_763_756_100_000_000_000n, to: 1_763_756_160_000_000_000n };
const stream = (name: string, rate: number): unknown => ({ stream: name, rate: { numerator: rate, denominator: 1 }, channels: [] });
const CATALOGUE = new Map(readStreams({ streams: [stream('lab/a', 1000), stream('lab/b', 1_000_000)] }).map((each) => [each.name, each]));
const part = (values: number | null, name = 'lab/a'): ExportPart => ({ stream: name, channels: ['x'], values });

describe('files of a plot', () => {
  test('are one for each stream, with the channels that are plotted, and their size before it is asked for', () => {
    const traces = [['lab/a', 'x'], ['lab/b', 'u'], ['lab/a', 'y,z'], ['lab/c', 'q']].map(([name = '', channel = '']) => ({ stream: name, channel }));
    expect(partsOf(traces, STRETCH, CATALOGUE)).toEqual([
      { stream: 'lab/a', channels: ['x', 'y,z'], values: 120_000 },
      { stream: 'lab/b', channels: ['u'], values: 60_000_000 },
      { stream: 'lab/c', channels: ['q'], values: null },
    ]);
  });

  test('are too much from one value above the limit on, and that is said', () => {
    expect([MAX_VALUES, MAX_VALUES + 1].map((values) => isTooMuch(part(values)))).toEqual([false, true]);
    expect(isTooMuch(part(null))).toBe(false);
    expect(sizeText(part(MAX_VALUES + 1)).replaceAll('\u202f', ' ')).toBe('1 000 001 values: more than the 1 000 000 of one file');
  });

  test('are asked for with every channel, in nanoseconds', () => {
    const path = new URL(exportPath({ stream: 'lab/μ', channels: ['x', 'a&b,c'], values: 1 }, STRETCH, 'csv', 'samples'), 'http://host');
    expect(path.pathname).toBe('/api/export');
    expect(path.searchParams.getAll('channel')).toEqual(['x', 'a&b,c']);
    expect(Object.fromEntries(path.searchParams)).toMatchObject({ stream: 'lab/μ', from: `${STRETCH.from}`, to: `${STRETCH.to}`, format: 'csv', values: 'samples' });
    expect(path.searchParams.has('points')).toBe(false);
    expect(new URL(exportPath(part(1), STRETCH, 'parquet', 'columns'), 'http://host').searchParams.get('points')).toBe('16384');
  });

  test('have names that every file system takes', () => {
    expect(fileName('lab/probe', STRETCH.from, 'csv')).toBe('lab-probe_2025-11-21_201500Z.csv');
    expect(fileName('../..', STRETCH.from, 'png')).toBe('plot_2025-11-21_201500Z.png');
    expect(fileName('a:b*c?"<>|\\', STRETCH.from, 'png')).toBe('a-b-c_2025-11-21_201500Z.png');
  });

  test('too large for an answer are written by a command, whose words a shell cannot misread', () => {
    expect(commandLine(part(1), STRETCH, 'parquet')).toBe(
      `tallycast query lab/a --from ${STRETCH.from} --to ${STRETCH.to} --export parquet lab-a_2025-11-21_201500Z.parquet`);
    expect(commandLine(part(1, "lab/it's $x"), STRETCH, 'csv')).toContain(` 'lab/it'\\''s $x' --from `);
  });
});

describe('a picture', () => {
  const plot = (left: number, top: number, entries: readonly number[] = []): SheetPlot => ({ left, top, width: 300, chartHeight: 200, entries });

  test('has its plots as they lie on the page, none over another', () => {
    const { plots, width, height } = sheetOf([plot(50, 100), plot(370, 100, [250, 100]), plot(50, 400)]);
    expect(plots.map(({ left }) => left)).toEqual([MARGIN, MARGIN + 320, MARGIN]);
    expect(plots[0]?.titleTop).toBe(plots[1]?.titleTop);
    expect(plots[2]?.titleTop).toBeGreaterThanOrEqual((plots[1]?.chartTop ?? 0) + 200);
    expect([width, height > (plots[2]?.chartTop ?? 0) + 200]).toEqual([620 + 2 * MARGIN, true]);
  });

  test('sets a legend in lines between title and chart', () => {
    const [placed] = sheetOf([plot(0, 0, [100, 100, 100, 400])]).plots;
    expect(placed?.entries.map(({ y }) => (y - (placed.titleTop + LINE)) / LINE)).toEqual([0, 0, 1, 2]);
    expect(placed?.chartTop).toBe((placed?.titleTop ?? 0) + 4 * LINE);
  });
});
