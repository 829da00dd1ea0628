/**
 * Twenty viewers at one monitor server, some of which stop: nobody else loses anything by it, and what those
 * who stopped were never shown is counted as theirs, stage `browser`.
 */
import type { Browser, CDPSession, Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { metric } from './api';
import { countFrames, drawn, hide, launch, open, until, type Opened } from './browser';
import { cleanUp, startDemo, type Demo } from './demo';
import { Viewer, type Look } from './viewer';

const SECOND = 1_000_000_000n;
const STREAM = 'test/sine';
const TRACE = { stream: STREAM, channel: 'ch0' };
/** Readers look at so much that a busy machine costs them nothing; who stops loses soon. */
const READER: Look = { trace: TRACE, spanNs: 10n * SECOND };
const STOPPER: Look = { trace: TRACE, spanNs: SECOND };
/** The same, on a page. */
const ADDRESS = `?span=1s&plot=${STREAM}:ch0`;
/** Longer than what a window holds: then it has slid past what was not shown. */
const WHILE_NS = 3n * SECOND;
/** 1 kHz over three seconds, less the window that is shown in the end: half of that, for what was on its way. */
const LOST_AT_LEAST = 1_000;
const READING = 18;

describe('twenty viewers', () => {
  let browser: Browser;
  let demo: Demo;
  let readers: readonly Viewer[] = [];
  let opened: Opened;

  beforeAll(async () => {
    browser = await launch();
    demo = await startDemo();
    readers = Array.from({ length: READING }, () => new Viewer(demo.url, READER));
    await Promise.all(readers.map((reader) => reader.reaches(1n)));
  });
  afterEach(() => opened.close());
  afterAll(async () => {
    readers.forEach((reader) => reader.close());
    await browser.close();
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
    const stopped = new Viewer(demo.url, STOPPER);
    opened = await open(browser, demo.url, ADDRESS);
    await drawn(opened.page);
    await stopped.reaches(1n);
    expect(await metric(demo.url, 'tallycast_monitor_viewers')).toBe(READING + 2);

    const debug = await stopScript(opened.page);
    stopped.stop();
    await goOn(WHILE_NS);
    await expectReadersLostNothing();
    await debug.send('Debugger.resume');
    stopped.resume();

    const theirs = await stoppedLoss(stopped);
    expect([...theirs.lostElements.keys()]).toEqual([STREAM]);
    expect(theirs.droppedFrames).toBeGreaterThan(0);
    await showsItsLoss(opened.page);
    await until('both losses among the metrics', async () => (await metric(demo.url, 'tallycast_monitor_browser_elements_lost_total')) >= 2 * LOST_AT_LEAST);
    await expectReadersLostNothing();
    stopped.close();
  });

  test('of whom one is hidden: it is sent nothing, and what it did not see is counted as its own', async () => {
    opened = await open(browser, demo.url, ADDRESS);
    const received = countFrames(opened.page);
    await opened.page.reload();
    await drawn(opened.page);
    await hide(opened.page, true);
    await goOn(SECOND / 2n);
    const before = received();
    await goOn(WHILE_NS);
    expect(received()).toBe(before);
    await hide(opened.page, false);
    await until('frames again', () => received() > before);
    await showsItsLoss(opened.page);
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
