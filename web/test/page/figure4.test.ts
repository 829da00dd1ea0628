/**
 * A sine of which five percent of the datagrams are withheld: the picture that misled people for decades,
 * because other tools draw a line across what is missing, and what arrived looks like another signal.
 *
 * Here the pixels are held against the reader's own map of what is missing. That archive and input agree
 * with it to the bit is `tests/e2e/tests/planted_loss.rs`.
 */
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { list, number } from '../../src/wire/json';
import { readGapDetail, type GapDetail } from '../../src/wire/messages';
import { expectInOrder } from './accounts';
import { gapsOf, streamOf } from './api';
import { drawn, launch, open, until } from './browser';
import { dataBox, inkedRows, longestBare, still } from './canvas';
import { cleanUp, publish, startMonitor, subscribe, type Monitor } from './bus';
import { privateBus, type Program } from './command';

const STREAM = 'figure4/sine';
/**
 * 50 datagrams a second of 10 samples each, so that every hole is wide enough to see: 20 ms. The monitor keeps half a minute of
 * so slow a stream sample by sample: of what is older, extremes may be drawn up to a bucket aside (`sample::Column::exact`).
 */
const PUBLISH = [STREAM, '--wave', 'sine', '--rate', '500', '--frequency', '2', '--amplitude', '0.9', '--unit', 'V', '--linger', '20ms', '--loss', '5%'];
const SPAN_NS = 2_000_000_000n;
const SPAN_SAMPLES = 1_000;
/** Blended edges of holes belong to neither side. */
const EDGE_PX = 2;
/** So many holes make a picture. */
const ENOUGH = 4;

describe('figure 4', () => {
  let browser: Browser;
  let page: Page;
  const errors: string[] = [];
  let publisher: Program;
  let reader: Program;
  let monitor: Monitor;
  /** What is missing of the window shown, all of it settled. */
  let holes: readonly GapDetail[];
  let end: bigint;

  beforeAll(async () => {
    const bus = await privateBus();
    browser = await launch();
    monitor = await startMonitor(bus, [STREAM]);
    reader = subscribe(bus, STREAM);
    publisher = publish(bus, PUBLISH);
    const began = await reader.object('where it begins', (object) => object['event'] === 'began');
    ({ holes, end } = await settledWindow(monitor.url, number(began, 'first_index')));
    page = await open(browser, `${monitor.url}/?span=2s&end=${end}&plot=${STREAM}:ch0;y=fixed:-1.1:1.1`, errors);
    await drawn(page);
    await still(page);
  });
  afterAll(async () => {
    await browser.close();
    await cleanUp();
  });

  /** Columns of the plot strictly within holes, and those that touch one. */
  async function columns(): Promise<{ inside: readonly number[]; touched: Set<number>; width: number }> {
    const { width } = await dataBox(page);
    const x = (time: bigint): number => (Number(time - (end - SPAN_NS)) / Number(SPAN_NS)) * width;
    const range = (from: number, to: number): number[] => Array.from({ length: Math.max(0, Math.ceil(to - from)) }, (_, k) => from + k);
    const touched = holes.flatMap(({ from, to }) => range(Math.max(0, Math.floor(x(from)) - EDGE_PX), Math.min(width, x(to) + EDGE_PX)));
    const inside = holes.flatMap(({ from, to }) => range(Math.max(0, Math.ceil(x(from)) + EDGE_PX), Math.min(width, Math.floor(x(to)) - EDGE_PX)));
    return { inside, touched: new Set(touched), width };
  }

  test('has no line that bridges a hole', async () => {
    const { inside } = await columns();
    expect(inside.length).toBeGreaterThan(ENOUGH * EDGE_PX);
    const trace = await inkedRows(page, { trace: 0 });
    expect(inside.filter((k) => (trace[k] ?? 0) > 0)).toEqual([]);
  });

  test('has every hole hatched over its full height, and nothing else', async () => {
    const { inside, touched, width } = await columns();
    const { height } = await dataBox(page);
    const hatch = await inkedRows(page, { place: 'injected' });
    expect(inside.filter((k) => (hatch[k] ?? 0) < height * 0.9)).toEqual([]);
    const elsewhere = Array.from({ length: width }, (_, k) => k).filter((k) => !touched.has(k));
    expect(elsewhere.filter((k) => (hatch[k] ?? 0) > 0)).toEqual([]);
  });

  test('has the sine wherever it arrived', async () => {
    const { touched, width } = await columns();
    const trace = await inkedRows(page, { trace: 0 });
    // The line runs from the middle of the first column to the middle of the last.
    const arrived = Array.from({ length: width }, (_, k) => (touched.has(k) ? 1 : trace[k] ?? 0)).slice(1, -1);
    expect(longestBare(arrived)).toBe(0);
  });

  test('ends with accounts that close and name every hole of the picture', async () => {
    await publisher.end();
    for (const program of [reader, monitor.program]) {
      const { code, objects } = await program.end();
      expect(code, `${program}`).toBe(0);
      const known = expectInOrder(objects, [STREAM]).flatMap((account) => list(account, 'gaps')).map(readGapDetail).map(place);
      expect(holes.map(place).filter((hole) => !known.includes(hole))).toEqual([]);
    }
  });
});

/** Names a hole as every reader of one epoch does. */
const place = ({ firstIndex, samples, lost }: GapDetail): string => `${samples} samples from ${firstIndex}, ${JSON.stringify([...lost])}`;

/** Waits for a window that is full of samples and settled holes, all of them after `joined`, and returns it. */
async function settledWindow(url: string, joined: number): Promise<{ holes: readonly GapDetail[]; end: bigint }> {
  const firstIndex = Math.max(joined, (await streamOf(url, STREAM)).firstIndex);
  let found: { holes: readonly GapDetail[]; end: bigint } | undefined;
  await until('a window of settled holes', async () => {
    const gaps = await gapsOf(url, STREAM);
    const last = gaps.findLast((gap) => gap.unsettled === 0);
    if (last === undefined || last.firstIndex < firstIndex + SPAN_SAMPLES) return false;
    // Gaps come in their order: before this one there is none that nobody knows of yet.
    const end = last.from;
    const holes = gaps.filter((gap) => gap.from < end && gap.to > end - SPAN_NS);
    if (holes.length >= ENOUGH && holes.every((gap) => gap.unsettled === 0)) found = { holes, end };
    return found !== undefined;
  });
  if (found === undefined) throw new Error('found a moment ago');
  return found;
}
