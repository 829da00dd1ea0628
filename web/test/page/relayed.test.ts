/**
 * A stream that a pair of relays carries from one bus to another, of which datagrams are withheld on the first: the page at
 * the far end says which hop lost them. The picture itself is in `path.test.ts`, the law over hops in `tests/chain`.
 */
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { fields, list, number, text } from '../../src/wire/json';
import { expectInOrder } from './accounts';
import { ask, gapsOf, metric, streamOf } from './api';
import { drawn, launch, open, until } from './browser';
import { cleanUp, publish, startMonitor, type Monitor } from './bus';
import { privateBus, Program } from './command';

const STREAM = 'lab/sine';

describe('a relayed stream', () => {
  let browser: Browser;
  let page: Page;
  const errors: string[] = [];
  let publisher: Program;
  let [near, far]: Program[] = [];
  let monitor: Monitor;

  beforeAll(async () => {
    const [home, away] = [await privateBus(), await privateBus()];
    browser = await launch();
    monitor = await startMonitor(away, ['lab/**']);
    far = new Program(['relay', '--listen', '127.0.0.1:0', '--json', '--bus', away]);
    const listening = await far.object('where it listens', (object) => object['event'] === 'listening');
    near = new Program(['relay', `udt://${text(listening, 'address')}`, 'lab/**', '--json', '--bus', home]);
    await near.object('the link', (object) => object['event'] === 'met');
    publisher = publish(home, [STREAM, '--wave', 'sine', '--rate', '500', '--linger', '20ms', '--loss', '10%']);
    await until('a settled loss on hop 0', async () => (await gapsOf(monitor.url, STREAM).catch(() => [])).some(({ hops }) => (hops[0]?.lost.get('injected') ?? 0) > 0));
    page = await open(browser, `${monitor.url}/?span=10s&plot=${STREAM}:ch0`, errors);
    await drawn(page);
  });
  afterAll(async () => {
    await browser.close();
    await cleanUp();
  });

  const place = (at: string): ReturnType<Page['locator']> => page.locator(`.path-place[data-at="${at}"]`);

  test('has its way drawn: the bus, the link and the relay, and the loss at the hop where it was', async () => {
    await page.keyboard.press('a');
    const { station, stations } = await streamOf(monitor.url, STREAM, (stream) => stream.stations.length === 2);
    // The page draws the chain as soon as it knows the hops; their stations come with the next list of streams.
    const names = [...stations, station].join();
    await until(`the chain ${names}`, async () => (await page.locator('.path-station').allInnerTexts()).join() === names);
    await until('the loss', async () => (await place('hop-0').getAttribute('data-zero')) === null);
    // Newer ones may not be settled yet.
    expect(await place('hop-0').locator('.path-why').innerText()).toMatch(/^injected loss( and others)?$/);
    expect(await place('hop-1').getAttribute('data-zero')).toBe('');
    expect(await place('publisher').getAttribute('data-zero')).toBe('');
    // The far relay is at this monitor's host, and tells of its link.
    await until('the round trip', async () => /^link · hop 1 · [\d.]+.[µm]?s$/.test(await place('hop-1').locator('.path-name').innerText()));
    await place('hop-1').click();
    expect(await page.locator('#findings').innerText()).toContain('The relay here has given up nothing since it began.');
    await place('hop-0').click();
    await until('the finding', async () => (await page.locator('#findings').innerText()).includes('Injected loss on hop 0'));
    await page.keyboard.press('Escape');
  });

  test('names the hop at a gap', async () => {
    const card = page.locator('#gap-card');
    await until('a settled gap', async () => {
      await page.keyboard.press('G');
      return (await card.innerText()).startsWith('Injected loss on hop 0');
    });
    expect(await card.innerText()).toContain("Lost before it came here: on the publisher's bus");
  });

  test('is counted by hop in the metrics, and ends with an account that closes over all hops', async () => {
    expect(await metric(monitor.url, 'tallycast_hop_elements_lost_total')).toBeGreaterThan(0);
    // Both relays show their boards on this host.
    await until('the boards', async () => (await metric(monitor.url, 'tallycast_relay_link_up').catch(() => 0)) === 2);
    expect(await metric(monitor.url, 'tallycast_relay_elements_delivered_total')).toBeGreaterThan(0);
    await publisher.end();
    await until('the end', async () => fields(await ask(monitor.url, '/api/account', { stream: STREAM }))['state'] === 'closed');
    const [account = {}] = expectInOrder((await monitor.program.end()).objects, [STREAM]);
    const hops = list(account, 'hops').map(fields);
    expect(hops).toHaveLength(2);
    const source = number(fields(fields(account['elements'])['lost']), 'source');
    expect(source).toBeGreaterThan(0);
    const sum = hops.flatMap((hop) => Object.values(fields(hop['lost'])).map(Number)).reduce((all, each) => all + each, 0);
    expect(sum).toBe(source);
    for (const relay of [near, far]) expect((await relay?.end())?.code, `${relay}`).toBe(0);
    expect(errors).toEqual([]);
  });
});
