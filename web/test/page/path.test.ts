/**
 * The picture of a stream's way, over the fake server: its counts, its findings by mouse and by keyboard, the guide they
 * lead to. Planted loss on a real bus is in `demo.test.ts`.
 */
import type { BrowserContextOptions, Locator, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { startFakeServer } from '../../dev/fake-server.mjs';
import { drawn, paused, until } from './browser';
import { row } from './list';
import { Pages } from './pages';
import { talkOf } from './overheard';

const INJECTED = '?span=10s&plot=test/injected:sine';
const HOLE = '?span=10s&plot=test/hole:sine';
const CHIRP = '?span=10s&plot=test/chirp:a';

const pages = new Pages();
let fake: Awaited<ReturnType<typeof startFakeServer>>;

beforeAll(async () => { fake = await startFakeServer(); });
afterAll(() => fake.close());

const place = (page: Page, name: string): Locator => page.locator(`.path-place[data-at="${name}"]`);
const findings = (page: Page): Locator => page.locator('#findings');
const plain = (text: string): string => text.replaceAll('\u202f', ' ');

/** Opens the account of the plotted stream, and waits for its picture and its gaps. */
async function showPath(query: string, options: BrowserContextOptions = {}): Promise<Page> {
  const page = await pages.show(fake.url, query, options);
  await drawn(page);
  await page.keyboard.press('a');
  await until('a picture', async () => (await page.locator('.path-place').count()) > 0);
  await until('the list of gaps', async () => (await page.locator('#gap-list-head').innerText()) !== '');
  return page;
}

describe('the picture of the way', () => {
  test('has every place as a button that says what was lost there, and marks what is recent by shape and word', async () => {
    const page = await showPath(HOLE);
    const names = ['publisher', "sender's host", 'network', "receiver's host", 'reader', 'archive', 'this browser', 'unexplained', 'not settled'];
    expect(await page.locator('.path-name').allInnerTexts()).toEqual(names);
    for (const name of names) expect(await page.getByRole('group', { name: 'The way of the stream' }).getByRole('button', { name }).count(), name).toBe(1);
    expect(await place(page, 'network').getAttribute('aria-description')).toBe('network: nothing lost');
    expect(await place(page, 'network').locator('.path-count').innerText()).toBe('0');
    // The hole comes again every four seconds.
    await until('a recent loss', async () => (await place(page, 'receiver').getAttribute('data-recent')) !== null);
    expect(plain(await place(page, 'receiver').innerText())).toMatch(/^receiver's host\n[\d.]+ k\n▲ now$/);
    expect(plain(await place(page, 'receiver').getAttribute('aria-description') ?? '')).toMatch(/^receiver's host: \d\d \d\d\d elements lost, some of them now$/);
    await until('what flows', async () => plain((await page.locator('.path-flow').allInnerTexts()).join()) === 'states 1.00 k samples/s,1.00 k samples/s arrive');
  });

  test('sums up to the account', async () => {
    const page = await showPath(HOLE);
    const sums = (): Promise<readonly number[]> => page.evaluate(() => {
      const inFull = (text: string | null | undefined): number => Number((text ?? '').replace(/\u202f/g, '').match(/\d+/)?.[0] ?? 0);
      const places = [...document.querySelectorAll('.path-place')].reduce((sum, each) => sum + inFull(each.getAttribute('aria-description')), 0);
      const law = [...document.querySelectorAll('.law-row .figure')].map((each) => inFull(each.textContent));
      const [sent = 0, delivered = 0, lost = 0, unexplained = 0, unsettled = 0, inFlight = 0] = law;
      return [places, lost + unexplained + unsettled, sent - delivered - inFlight, inFull(document.querySelector('.path-sum')?.textContent)];
    });
    const all = await sums();
    expect(all[0]).toBeGreaterThan(10_000);
    expect(new Set(all).size, all.join()).toBe(1);
  });

  test('tells the findings of a place that is clicked: planted loss, its evidence, why, what helps, the guide', async () => {
    const page = await showPath(INJECTED);
    expect(await findings(page).isVisible()).toBe(false);
    await place(page, 'publisher').click();
    expect(await place(page, 'publisher').getAttribute('aria-expanded')).toBe('true');
    const said = page.getByRole('region', { name: 'Findings: publisher' });
    await until('the evidence', async () => (await said.innerText()).includes('tally: numbers 400 to 402 withheld on purpose'));
    const text = plain(await said.innerText());
    expect(text).toMatch(/Injected loss\n[\d ]+ elements\ninjected\n/);
    expect(text).toContain('Planted on purpose: the publisher withheld these datagrams');
    expect(text).toMatch(/Helps\n\s*switch the loss off/);
    expect(text).toContain('Nothing else here: source, publisher queue, publisher paused.');
    // Another place takes its turn; this stream loses at the reader, too.
    await place(page, 'reader').click();
    await until('the other finding', async () => (await findings(page).innerText()).includes('reader_lag'));
    expect(await findings(page).innerText()).not.toContain('withheld');
    expect(await place(page, 'publisher').getAttribute('aria-expanded')).toBe('false');
    await place(page, 'reader').click();
    expect(await findings(page).isVisible()).toBe(false);
    await place(page, 'publisher').click();
    const [guide] = await Promise.all([page.context().waitForEvent('page'), said.getByRole('link', { name: 'Guide: injected' }).click()]);
    await guide.waitForURL(`${fake.url}/guide#injected`);
    expect(await guide.locator('h2:target').innerText()).toBe('injected');
    expect(await guide.locator('h2:target + p').innerText()).toContain('Planted on purpose');
    await guide.close();
  });

  test('goes on counting below the eyes of whoever reads its findings', async () => {
    const page = await showPath(HOLE);
    await place(page, 'receiver').click();
    const command = findings(page).locator('dd code').first();
    await command.evaluate((element) => getSelection()?.selectAllChildren(element));
    const before = await findings(page).locator('.finding-count').innerText();
    const first = await findings(page).locator('.finding-gap').first().innerText();
    // The fake server's account is that of the last two minutes: its counts rise and fall.
    await until('another count', async () => (await findings(page).locator('.finding-count').innerText()) !== before);
    await until('newer evidence', async () => (await findings(page).locator('.finding-gap').first().innerText()) !== first);
    expect(await page.evaluate(() => getSelection()?.toString())).toBe(await command.innerText());
    expect(await findings(page).locator('.finding-gap').count()).toBe(3);
    expect(await findings(page).locator('.finding-further').innerText()).toMatch(/^and 1\d\d more in the list below$/);
  });

  test('is reached and read with the keyboard alone', async () => {
    const page = await showPath(HOLE);
    await page.locator('#close-account').focus();
    await page.keyboard.press('Tab');
    const focused = (): Promise<string | null> => page.evaluate(() => document.activeElement?.getAttribute('data-at') ?? null);
    expect(await focused()).toBe('publisher');
    for (const [key, name] of [['ArrowRight', 'sender'], ['Tab', 'network'], ['ArrowRight', 'receiver'], ['End', 'unsettled'], ['ArrowRight', 'unsettled'], ['Home', 'publisher'], ['ArrowLeft', 'publisher']] as const) {
      await page.keyboard.press(key);
      expect(await focused(), key).toBe(name);
      // Elsewhere arrows move through time.
      expect(await paused(page), key).toBe(false);
    }
    for (let i = 0; i < 3; i += 1) await page.keyboard.press('ArrowRight');
    await page.keyboard.press('Enter');
    await until('the finding', async () => (await findings(page).innerText()).includes('receiver_socket_buffer'));
    expect(await findings(page).innerText()).toContain('sysctl -w net.core.rmem_max=67108864');
    expect(await findings(page).innerText()).toContain('tallycast doctor undo');
    await page.keyboard.press('Space');
    expect(await findings(page).isVisible()).toBe(false);
    await page.keyboard.press('Space');
    expect(await findings(page).isVisible()).toBe(true);
    await findings(page).getByRole('link', { name: 'Guide: receiver_socket_buffer' }).focus();
    await page.keyboard.press('Escape');
    expect(await findings(page).isVisible()).toBe(false);
    expect(await focused()).toBe('receiver');
    expect(await paused(page)).toBe(false);
    await page.keyboard.press('Escape');
    expect(await page.locator('#account').isVisible()).toBe(false);
  });

  test('is another one for another stream, and says where nothing was lost', async () => {
    const page = await showPath(INJECTED);
    await place(page, 'publisher').click();
    await row(page, 'chirp').click();
    await until('the other picture', async () => (await page.locator('.path-sum').innerText()) === 'Nothing is missing');
    expect(await findings(page).isVisible()).toBe(false);
    expect(await page.locator('.path-place:not([data-zero])').count()).toBe(0);
    expect(await place(page, 'archive').getAttribute('aria-description')).toBe('archive: counted by its recorder');
    expect(await place(page, 'archive').locator('.path-count').innerText()).toBe('–');
    await place(page, 'archive').click();
    expect(await findings(page).innerText()).toContain('in the account of the recorder');
    await place(page, 'sender').click();
    expect(await findings(page).innerText()).toBe("Nothing was lost here: sender's socket, sender's IP layer, sender's queue discipline, sender's network card.");
  });

  test('has no archive where the monitor reads none', async () => {
    const bare = await startFakeServer({ archive: false });
    const page = await pages.show(bare.url, CHIRP);
    await drawn(page);
    await page.keyboard.press('a');
    await until('a picture', async () => (await page.locator('.path-place').count()) > 0);
    expect(await page.locator('.path-place').count()).toBe(8);
    expect(await place(page, 'archive').count()).toBe(0);
    await page.close();
    await bare.close();
  });

  test('is not drawn while the panel is closed', async () => {
    const page = await showPath(HOLE);
    await page.keyboard.press('a');
    await page.evaluate(() => {
      const seen = new MutationObserver((changes) => { document.body.dataset['changes'] = String(Number(document.body.dataset['changes'] ?? 0) + changes.length); });
      seen.observe(document.querySelector('#path') ?? document, { subtree: true, childList: true, characterData: true, attributes: true });
    });
    const talk = talkOf(page);
    const { frames } = talk;
    await until('many frames', () => talk.frames > frames + 100);
    expect(await page.evaluate(() => document.body.dataset['changes'])).toBeUndefined();
    await page.keyboard.press('a');
    await until('a change', async () => (await page.evaluate(() => document.body.dataset['changes'])) !== undefined);
  });

  test.each([['narrow', 390, ''], ['upright', 820, ''], ['wide', 1200, ''], ['on the wall', 1600, 'w']])('fits: %s', async (_, width, key) => {
    const page = await showPath(HOLE, { viewport: { width, height: 900 } });
    if (key !== '') await page.keyboard.press(key);
    await place(page, 'receiver').click();
    await until('a recent loss', async () => (await place(page, 'receiver').getAttribute('data-recent')) !== null);
    const cut = await page.locator('.path-place, .path-name, .path-figures, .path-flow, .path-sum, #findings, #findings dd').evaluateAll((all) => all
      .filter((element) => element.scrollWidth > element.clientWidth + 1 && element.clientWidth > 0).map((element) => `${element.className} ${element.textContent}`));
    expect(cut).toEqual([]);
    // What flows comes with the catalogue, later than the account.
    await until('what flows', async () => (await page.locator('.path-flow').allInnerTexts()).every((text) => text !== ''));
    const [stated, arriving] = await Promise.all(['stated', 'arriving'].map((at) => page.locator(`.path-flow[data-at="${at}"]`).evaluate((element) => {
      const range = document.createRange();
      range.selectNodeContents(element);
      const { left, right } = range.getBoundingClientRect();
      return { left, right };
    })));
    expect(stated?.right).toBeLessThan(arriving?.left ?? NaN);
  });

  test('is printed with its colours, and with the findings that are open', async () => {
    const page = await showPath(HOLE);
    await place(page, 'receiver').click();
    await page.emulateMedia({ media: 'print' });
    await page.evaluate(() => dispatchEvent(new Event('beforeprint')));
    expect(await findings(page).isVisible()).toBe(true);
    expect(await place(page, 'receiver').evaluate((element) => getComputedStyle(element, '::before').printColorAdjust)).toBe('exact');
    const box = await page.locator('#path').boundingBox();
    expect(box?.width).toBeLessThanOrEqual(560);
    await page.evaluate(() => dispatchEvent(new Event('afterprint')));
  });
});

describe('the picture of a relayed stream', () => {
  const HOPS = 8;
  let relayed: typeof fake;
  beforeAll(async () => { relayed = await startFakeServer({ hops: HOPS }); });
  afterAll(() => relayed.close());

  async function showChain(options: BrowserContextOptions = {}): Promise<Page> {
    const page = await pages.show(relayed.url, INJECTED, options);
    await drawn(page);
    await page.keyboard.press('a');
    await until('a chain', async () => (await page.locator('.path-hop').count()) === HOPS);
    return page;
  }

  test('has every station in order, every hop as a button between two of them, and the relay where the publisher was', async () => {
    const page = await showChain();
    const stations = await page.locator('.path-station').allInnerTexts();
    expect([stations[0], stations[1], stations.at(-2), stations.at(-1)]).toEqual(['daq-3', 'gate-lab', 'gate-home', 'far-relay']);
    expect(stations).toHaveLength(HOPS + 1);
    expect((await page.locator('.path-name').allInnerTexts()).slice(0, HOPS + 1).map(plain)).toEqual([...Array.from({ length: HOPS }, (_, hop) => `${hop % 2 === 0 ? 'bus' : 'link'} · hop ${hop}${hop === HOPS - 1 ? ' · 100 ms' : ''}`), 'relay']);
    await until('a loss on a link', async () => (await place(page, 'hop-1').getAttribute('data-zero')) === null);
    expect(plain(await place(page, 'hop-1').getAttribute('aria-description') ?? '')).toMatch(/^hop 1, the link from gate-lab to gate-campus: [\d ]+ elements lost/);
    expect(await place(page, 'hop-1').locator('.path-why').innerText()).toBe('deadline');
    expect(await page.locator('.ladder-hop').last().innerText()).toBe('hop 8, the bus from far-relay to this monitor');
  });

  test('tells the findings of a hop, by mouse and by keyboard', async () => {
    const page = await showChain();
    await until('a loss on a link', async () => (await place(page, 'hop-1').getAttribute('data-zero')) === null);
    await place(page, 'hop-0').focus();
    await page.keyboard.press('ArrowRight');
    await page.keyboard.press('Enter');
    await until('the evidence', async () => (await findings(page).innerText()).includes('given up on the link: lost too often'));
    expect(await findings(page).innerText()).toContain('Deadline on hop 1');
    // On a page of the usual height they are below the panel's edge before.
    await until('findings in sight', () => findings(page).evaluate((element) => element.getBoundingClientRect().top < innerHeight));
    await page.keyboard.press('End');
    await page.keyboard.press('Home');
    expect(await page.evaluate(() => document.activeElement?.getAttribute('data-at'))).toBe('hop-0');
  });

  test('names hop, stage and stations at a gap', async () => {
    const page = await showChain();
    await page.keyboard.press('a');
    const card = page.locator('#gap-card');
    await until('a gap of an earlier hop', async () => {
      await page.keyboard.press('G');
      return /^(Deadline|Network|Reader too slow) on hop \d/.test(await card.innerText());
    });
    expect(await card.innerText()).toMatch(/Lost before it came here: on the (link|bus|publisher's bus) from [\w.-]+ to [\w.-]+/);
  });

  test.each([['narrow', 390, ''], ['upright', 820, ''], ['wide', 1200, ''], ['on the wall', 1600, 'w']])('fits: %s', async (_, width, key) => {
    const page = await showChain({ viewport: { width, height: 900 } });
    if (key !== '') await page.keyboard.press(key);
    const cut = await page.locator('.path-place, .path-name, .path-figures, .path-chain, .ladder-hop').evaluateAll((all) => all
      .filter((element) => element.scrollWidth > element.clientWidth + 1 && element.clientWidth > 0).map((element) => `${element.className} ${element.textContent}`));
    expect(cut).toEqual([]);
    // Each hop stands level with the line between its stations.
    const middles = (selector: string): Promise<readonly number[]> => page.locator(selector).evaluateAll((all) => all.map((element) => {
      const { top, bottom } = element.getBoundingClientRect();
      return (top + bottom) / 2;
    }));
    const [stations, hops] = await Promise.all([middles('.path-station'), middles('.path-hop')]);
    hops.forEach((middle, hop) => expect(Math.abs(middle - ((stations[hop] ?? NaN) + (stations[hop + 1] ?? NaN)) / 2), `hop ${hop}`).toBeLessThan(1.5));
  });
});

describe('the guide', () => {
  test('is a page of the monitor, in the theme that was chosen, and leads from what one sees to the stage', async () => {
    const page = await showPath(CHIRP);
    await page.keyboard.press('t');
    await page.goto(`${fake.url}/guide`);
    expect(await page.locator('h1').innerText()).toBe('Where did my datagrams go?');
    expect(await page.evaluate(() => document.documentElement.dataset['theme'])).toBe('light');
    await page.getByRole('link', { name: 'receiver_reassembly' }).click();
    expect(await page.locator('h2:target').innerText()).toBe('receiver_reassembly');
    await page.setViewportSize({ width: 390, height: 800 });
    expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(390);
  });
});
