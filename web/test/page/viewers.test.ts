/**
 * Twenty viewers at one monitor server, some of which stop: nobody else loses anything by it, and what those
 * who stopped were never shown is counted as theirs, stage `browser`.
 */
import type { CDPSession, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { metric } from './api';
import { drawn, hide, until } from './browser';
import { cleanUp, publish, SINE, startMonitor, type Monitor } from './bus';
import { privateBus } from './command';
import { talkOf } from './overheard';
import { Pages } from './pages';
import { Viewer, type Look } from './viewer';

const SECOND = 1_000_000_000n;
const STREAM = 'test/sine';
const TRACE = { stream: STREAM, channel: 'ch0' };
/** Readers look at so much that a busy machine costs them nothing; who stops loses soon. */
const READER: Look = { trace: TRACE, spanNs: 60n * SECOND };
const STOPPER: Look = { trace: TRACE, spanNs: SECOND };
/** The same, on a page. */
const ADDRESS = `?span=1s&plot=${STREAM}:ch0`;
/** Longer than what a window holds: then it has slid past what was not shown. */
const WHILE_NS = 3n * SECOND;
/** 1 kHz over three seconds, less the window that is shown in the end: half of that, for what was on its way. */
const LOST_AT_LEAST = 1_000;
const READING = 18;

describe('twenty viewers', () => {
  const pages = new Pages();
  let monitor: Monitor;
  let readers: readonly Viewer[] = [];

  beforeAll(async () => {
    const bus = await privateBus();
    publish(bus, SINE);
    monitor = await startMonitor(bus, [STREAM]);
    readers = Array.from({ length: READING }, () => new Viewer(monitor.url, READER));
    await Promise.all(readers.map((reader) => reader.reaches(1n)));
  });
  afterAll(async () => {
    readers.forEach((reader) => reader.close());
    await cleanUp();
  });

  /** The readers go on for so long; returns once each was shown that. */
  async function goOn(forNs: bigint): Promise<void> {
    const now = readers[0]?.newest ?? 0n;
    await Promise.all(readers.map((reader) => reader.reaches(now + forNs)));
  }

  async function expectReadersLostNothing(): Promise<void> {
    const losses = await Promise.all(readers.map((reader) => reader.toldAgain()));
    expect(losses.map((loss) => [...loss.lostElements])).toEqual(readers.map(() => []));
  }

  test('of whom one reads nothing any more and the script of another stands still', async () => {
    const stopped = new Viewer(monitor.url, STOPPER);
    const page = await pages.open(monitor.url, ADDRESS);
    await drawn(page);
    await stopped.reaches(1n);
    await until('everybody', async () => (await metric(monitor.url, 'tallycast_monitor_viewers')) === READING + 2);

    const debug = await stopScript(page);
    stopped.stop();
    await goOn(WHILE_NS);
    await expectReadersLostNothing();
    await debug.send('Debugger.resume');
    stopped.resume();

    const theirs = await stoppedLoss(stopped);
    expect([...theirs.lostElements.keys()]).toEqual([STREAM]);
    expect(theirs.droppedFrames).toBeGreaterThan(0);
    await showsItsLoss(page);
    await until('both losses among the metrics', async () => (await metric(monitor.url, 'tallycast_monitor_browser_elements_lost_total')) >= 2 * LOST_AT_LEAST);
    await expectReadersLostNothing();
    stopped.close();
  });

  test('of whom one is hidden: it is sent nothing, and what it did not see is counted as its own', async () => {
    const page = await pages.open(monitor.url, ADDRESS);
    const talk = talkOf(page);
    await drawn(page);
    await hide(page, true);
    // What was on its way comes yet.
    await until('an end of its frames', async () => {
      const last = talk.frames;
      await goOn(SECOND / 2n);
      return talk.frames === last;
    });
    const before = talk.frames;
    await goOn(WHILE_NS);
    expect(talk.frames).toBe(before);
    await hide(page, false);
    await until('frames again', () => talk.frames > before);
    await showsItsLoss(page);
    await expectReadersLostNothing();
  });
});

/** Stops a page's script wherever it is, as a page that is too busy would be. */
async function stopScript(page: Page): Promise<CDPSession> {
  const session = await page.context().newCDPSession(page);
  await session.send('Debugger.enable');
  const stopped = new Promise((resolve) => session.once('Debugger.paused', resolve));
  await session.send('Debugger.pause');
  await stopped;
  return session;
}

/** Returns what a viewer that reads again was not shown meanwhile. */
async function stoppedLoss(viewer: Viewer): Promise<NonNullable<Viewer['loss']>> {
  await until('its losses', () => (viewer.loss?.lostElements.get(STREAM) ?? 0) >= LOST_AT_LEAST);
  if (viewer.loss === null) throw new Error('found a moment ago');
  return viewer.loss;
}

/** Waits until the page's own account shows what it was not shown, in stage `browser`: it is told bit by bit. */
async function showsItsLoss(page: Page): Promise<void> {
  await page.keyboard.press('a');
  const rung = page.locator('.rung[title^="browser"] .figure');
  const figure = async (): Promise<number> => Number((await rung.innerText()).replace(/\D/g, ''));
  await until('a loss of the browser', async () => (await rung.count()) === 1 && (await figure()) >= LOST_AT_LEAST);
}
